"""The detection of risen rates, and the distributions that it needs; pure."""
