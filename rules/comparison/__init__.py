"""Comparison of rules: exact, over all possible sessions, by a walk over the product of two machines."""
