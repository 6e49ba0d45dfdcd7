"""The `tracline` command."""
