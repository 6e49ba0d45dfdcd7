"""Labels: propositions compiled to Polars expressions, and slices."""
