"""The language: grammar, parser, and errors that teach."""
