"""The claims of one span: its messages, calls and results."""
