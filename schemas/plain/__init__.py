"""The content of plain spans, from their bytes: as the dialects read it, without what plain spans lack."""
