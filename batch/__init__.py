"""History: reading archives and auditing them."""
