"""Instrumentations by scope: their spans, what these lack, and the settings that mend it."""
