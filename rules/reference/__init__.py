"""The reference semantics, which tests compare the machines with and no product module imports."""
