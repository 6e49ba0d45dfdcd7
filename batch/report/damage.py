"""Damaged bundles: the errors of reading their files as one error."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from jinja2 import UndefinedError

from ...archive.error import SourceError

_DAMAGES = (OSError, msgspec.MsgspecError, UndefinedError, LookupError, TypeError, ValueError, AttributeError)
"""The errors of files that are missing, or whose content has another form."""


@contextmanager
def damages(bundle: Path) -> Generator[None]:
    """Convert the errors of a bundle's files that are missing or damaged to a SourceError (TRL424)."""
    try:
        yield
    except _DAMAGES as error:
        what = f"cannot be reported: {type(error).__name__} in its files"
        hint = "audit again: bundles of early releases have no sessions.jsonl"
        raise SourceError("TRL424", str(bundle), what, hint) from error
