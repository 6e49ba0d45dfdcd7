"""Attribute names, one file per convention and pinned version."""
