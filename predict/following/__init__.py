"""Following the risks of rules in sessions, event by event, and their crossings of thresholds."""
