"""Judging sessions by compiled rules: letters, kernel, witnesses, records."""
