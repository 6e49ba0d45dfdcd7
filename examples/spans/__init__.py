"""Spans of simulated conversations, as instrumentations of several dialects send them."""
