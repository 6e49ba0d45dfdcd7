"""Warnings about rules that are accepted and suspicious."""
