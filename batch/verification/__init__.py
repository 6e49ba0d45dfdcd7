"""Verification of bundles."""
