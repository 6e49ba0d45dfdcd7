"""Explanation: the status of a rule and of each of its parts, at each step of a session."""
