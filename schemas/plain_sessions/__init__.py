"""Session assembly of plain sessions in one short pass; all others go the ordinary way (stage b)."""
