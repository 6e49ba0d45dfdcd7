"""The estimation of a chain's probabilities from counts, and the sample sizes that it needs."""
