"""The risks of a learned chain, followed over an archive."""
