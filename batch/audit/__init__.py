"""Audits: judging an archive by rules, and counting what was found."""
