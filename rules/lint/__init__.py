"""Warnings about rules that parse and are suspicious."""
