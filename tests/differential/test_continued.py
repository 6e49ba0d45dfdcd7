"""Judging that continues from carried state against judging whole sessions at once."""
