"""TRAC's third environment: a cooking game of TextWorld, which has a Python environment of its own."""
