"""The findings of a bundle, with the events of the archive beside it."""
