"""The rule language: its grammar, its parser and its error messages."""
