"""Programs to learn from: a simulated support bot and its archive."""
