"""Output files that a command writes only where no other content is."""

from __future__ import annotations

from pathlib import Path

from .error import command_error


def require_new(path: Path, *, what: str, hint: str, text: str | None = None) -> None:
    """Raise CommandError (TRL607) if the file exists; one with this `text` may."""
    if path.exists() and (text is None or path.read_text("utf-8") != text):
        raise command_error("TRL607", str(path), what, hint)
