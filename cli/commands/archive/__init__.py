"""Commands that make or show archives."""
