"""A broker in memory, and the client of a group over it."""
