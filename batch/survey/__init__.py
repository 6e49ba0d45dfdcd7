"""Surveys of a source: its sessions, its instrumentations, its tools, and a pack to begin with."""
