"""Preparing any source for judging: candidates spilled by session, then events in order."""
