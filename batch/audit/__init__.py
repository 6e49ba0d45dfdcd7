"""Audits: judging an archive by rules, and counting the verdicts."""
