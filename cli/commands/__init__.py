"""The commands by group, one command a file, each exported as `command`."""
