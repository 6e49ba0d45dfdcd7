"""Following sessions batch by batch, from their carried states."""
