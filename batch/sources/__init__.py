"""Discovery and reading of the files of a source, each in its format."""
