"""Redaction of bundles: texts and ids replaced by digests that a secret keys, and their revelation."""
