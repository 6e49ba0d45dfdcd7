"""Instrumentations by scope: the spans that came of each, what it lacks, and what mends it."""
