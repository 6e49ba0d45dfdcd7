"""Commands about rules alone."""
