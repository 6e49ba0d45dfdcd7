"""JSON objects whose canonical form is found in one pass over their bytes."""
