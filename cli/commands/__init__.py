"""The commands by group, one per file, each exported as `command`."""
