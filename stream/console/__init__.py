"""The console: web pages on sessions, verdicts and rates."""
