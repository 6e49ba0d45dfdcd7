"""The results of an audit in the formats of `--format`."""
