"""Log records with content that are not joined to a span."""

from __future__ import annotations

from enum import StrEnum


class Unjoined(StrEnum):
    """The reason why a log record with content is not joined to its span."""

    UNLINKED = "unlinked"
    """It names no span."""
    LATE = "late"
    """Its span was released before it came."""
    WITHOUT_SPAN = "without_span"
    """Its span did not come within `hold_s`, or has no content that it could add to."""
