"""Events and candidates as columns of Polars."""
