"""Examples in packs: sessions that must violate a rule or not, and texts and events of propositions."""
