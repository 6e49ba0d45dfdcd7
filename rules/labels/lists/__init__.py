"""Conditions on the elements of JSON lists."""
