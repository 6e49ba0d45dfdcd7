"""Explanation: the sentence on what broke a rule, and the status of each of its parts at every step."""
