"""From a resolved rule to a flat table: one pass, one file, one list of passes."""
