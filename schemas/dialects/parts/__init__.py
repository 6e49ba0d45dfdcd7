"""Parts of spans that several dialects read alike."""
