"""Commands on rule packs."""
