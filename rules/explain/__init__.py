"""Explanations of verdicts in words."""
