"""Preparation of any source for judging: by session, in order, in bounded memory."""
