"""Rule packs: reading, validation and resolution of their YAML."""
