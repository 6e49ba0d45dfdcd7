"""Alerts on rules whose rate of violating sessions exceeds the tolerated rate."""
