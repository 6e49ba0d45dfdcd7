"""Text from telemetry, files and rules as the commands show it, and the console on which tables stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..schemas.display import shortened, visible
from .options import colors

if TYPE_CHECKING:
    from rich.console import Console


def clean(text: str, width: int | None = None) -> str:
    """The text without hidden characters (`visible`), and cut to `width` characters."""
    shown = visible(text)
    return shown if width is None or len(shown) <= width else f"{shown[: width - 1]}…"


def quoted(text: str) -> str:
    """The text as an error quotes it: without hidden characters, and without its middle where it is long."""
    return visible(shortened(text))


def plain_console() -> Console:
    """A console on standard output that takes nothing for markup or an emoji's name: it shows telemetry."""
    from rich.console import Console

    return Console(no_color=colors() is False, highlight=False, markup=False, emoji=False)
