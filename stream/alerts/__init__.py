"""Alerts: the share of sessions that violate a rule has risen above what is tolerated."""
