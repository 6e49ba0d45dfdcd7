"""A nightly audit: yesterday's sessions in a bundle that chains to the day before, and a report."""
