"""Commands that judge live, in one process."""
