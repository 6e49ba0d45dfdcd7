"""The reasons for a risk: likeliest violating continuations, deciding next symbols, and rises. Pure."""
