"""Commands on the evidence of audits: keys and verification."""
