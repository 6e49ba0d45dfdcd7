"""The compiler: a list of passes from a resolved rule to a flat table, one pass in each file."""
