"""Findings in the formats of `--format`."""
