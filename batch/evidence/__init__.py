"""Bundles of verdicts that a third party can read."""
