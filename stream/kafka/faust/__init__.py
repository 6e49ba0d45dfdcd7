"""The monitor on Faust: all that overrides or replaces a part of it."""
