"""Care of a running pipeline: rules, dead letters, exporters."""
