"""Finding and reading the files of a source, each in its format."""
