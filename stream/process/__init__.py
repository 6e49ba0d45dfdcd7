"""Metrics, fault points and trials of rules, for every live process."""
