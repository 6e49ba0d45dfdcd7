"""Commands on archives and other sources."""
