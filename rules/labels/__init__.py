"""Labels: propositions as Polars expressions, and slices."""
