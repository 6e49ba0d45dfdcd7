"""Bundles of verdicts for third parties."""
