"""`tracline alerts` and its commands."""
