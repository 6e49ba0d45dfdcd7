"""Processes of a consumer group, over any client: a stage and a commit policy."""
