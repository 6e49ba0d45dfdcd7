"""Text of telemetry, files and rules for a terminal, and the console that prints tables."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ..schemas.display import shortened, visible
from .options import colors

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 1_000_000
"""Columns of a pipe or file: wider than any line."""


def clean(text: str, width: int | None = None) -> str:
    """Return the text without hidden characters (`visible`), cut to `width` characters."""
    shown = visible(text)
    return shown if width is None or len(shown) <= width else f"{shown[: width - 1]}…"


def quoted(text: str) -> str:
    """Return the text as errors quote it: without hidden characters, and a long text without its middle."""
    return visible(shortened(text))


def plain_console() -> Console:
    """Return a console on standard output that interprets no markup or emoji: telemetry may contain both.

    Lines fit a terminal, or `COLUMNS` where that is set; else nothing is cut or wrapped in a pipe or file.
    """
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPED_WIDTH
    return Console(no_color=colors() is False, highlight=False, markup=False, emoji=False, width=width)
