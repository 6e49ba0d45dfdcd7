"""Automata: many regular expressions searched at once in texts of ASCII characters."""
