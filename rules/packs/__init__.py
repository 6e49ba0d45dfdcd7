"""Rule packs: YAML read, resolved, validated."""
