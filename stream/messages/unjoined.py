"""Log records with content that are not joined to a span."""

from __future__ import annotations

from enum import StrEnum


class Unjoined(StrEnum):
    """Why a log record with content was not joined to its span."""

    UNLINKED = "unlinked"
    """It names no span."""
    LATE = "late"
    """Its span had gone on before it came."""
    WITHOUT_SPAN = "without_span"
    """Its span did not come within `hold_s`, or tells nothing that it could add to."""
