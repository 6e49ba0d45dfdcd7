"""Traces whose spans the walk alone reads: compiled loops resolve and write them without an object a span."""
