"""Commands of the live pipeline in one process."""
