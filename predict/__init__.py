"""What will likely happen: a detector of risen rates, and the distributions that it needs."""
