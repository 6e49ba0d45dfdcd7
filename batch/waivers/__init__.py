"""Waivers: findings of an audit that somebody accepts until a day, and baselines of known findings."""
