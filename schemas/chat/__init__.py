"""Chat logs: finding conversations in JSON and decoding their messages."""
