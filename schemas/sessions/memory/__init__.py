"""The memory of a session in assembly, which is stored in pages."""
