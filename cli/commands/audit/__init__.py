"""Commands that run audits."""
