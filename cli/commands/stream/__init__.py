"""`tracline stream` and its commands."""
