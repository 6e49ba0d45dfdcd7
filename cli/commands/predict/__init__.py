"""Commands of prediction."""
