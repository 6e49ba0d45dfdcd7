"""Text of telemetry, files and rules for a terminal, and the console that prints tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..schemas.display import shortened, visible
from .options import colors

if TYPE_CHECKING:
    from rich.console import Console


def clean(text: str, width: int | None = None) -> str:
    """Return the text without hidden characters (`visible`), cut to `width` characters."""
    shown = visible(text)
    return shown if width is None or len(shown) <= width else f"{shown[: width - 1]}…"


def quoted(text: str) -> str:
    """Return the text as errors quote it: without hidden characters, and a long text without its middle."""
    return visible(shortened(text))


def plain_console() -> Console:
    """Return a console on standard output that interprets no markup or emoji: telemetry may contain both."""
    from rich.console import Console

    return Console(no_color=colors() is False, highlight=False, markup=False, emoji=False)
