"""Markdown as GitHub renders it."""

from __future__ import annotations

import re


def anchor(heading: str) -> str:
    """Return the fragment by which GitHub addresses the heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
