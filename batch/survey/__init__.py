"""Surveys of a source: its sessions, instrumentations and tools, and a first pack for it."""
