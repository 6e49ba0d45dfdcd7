"""The reference semantics. Tests compare the machines with it; no product module imports it."""
