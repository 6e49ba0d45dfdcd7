"""Nightly audits: the sessions that closed since the previous bundle, and the files that have their rows."""
