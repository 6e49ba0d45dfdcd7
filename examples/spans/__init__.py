"""Spans of the simulated desk, as instrumentations of every dialect send them."""
