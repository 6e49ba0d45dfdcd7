"""Processes of a consumer group, over any client: a stage, its driver, and a commit policy."""
