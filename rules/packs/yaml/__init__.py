"""The YAML files of packs: their nodes with places, and repairs of lines that are no YAML."""
