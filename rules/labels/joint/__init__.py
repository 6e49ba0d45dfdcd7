"""The labels of two labelers at the same events, evaluated together."""
