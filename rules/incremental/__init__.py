"""Judging that continues: what is carried of a session from one batch of its events to the next."""
