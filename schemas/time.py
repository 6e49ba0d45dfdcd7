"""Event times: nanoseconds since 1970-01-01T00:00:00Z, read from text and numbers and written as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

NS = 1_000_000_000
"""Nanoseconds in a second."""

NS_MIN, NS_MAX = -(2**63), 2**63 - 1
"""The first and the last nanosecond that 64 bits hold, in the years 1677 and 2262."""

EVENT_TIME_MIN = -9_214_560_000 * NS
"""The first nanosecond of 1678: no event is earlier, so that common readers accept the text of every time."""

UNDATED_BEFORE = 365 * 86_400 * NS
"""The first nanosecond of 1971: a log without times has times of 1970 (`chat.decode`)."""

UNDATED = "1970-"
"""The beginning of the times as text that a log without times gets."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_CHARS = len("1970-01-01T00:00:00")
_TEXT = re.compile(
    r"(\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(?::\d{2})?)(?:[.,](\d{1,12}))? ?(Z|z|UTC|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)


def is_undated(ns: int) -> bool:
    """Return whether a time is one that a log without times gets (`chat.decode`)."""
    return 0 <= ns < UNDATED_BEFORE


def rfc3339(ns: int) -> str:
    """Return the instant as RFC 3339 text in UTC with nine digits: `2026-02-17T22:55:18.802031000Z`.

    `ns` is nanoseconds since 1970-01-01T00:00:00Z, of either sign, inside the years 1 to 9999.
    """
    seconds, fraction = divmod(ns, NS)
    moment = _EPOCH + timedelta(seconds=seconds)
    # `strftime` takes twice as long.
    return f"{moment.isoformat()[:_SECONDS_CHARS]}.{fraction:09d}Z"


def parse_time(value: object, zone: tzinfo = UTC) -> int | None:
    """Return a recorded time as nanoseconds since the epoch, or None where it is no time.

    Text is ISO 8601 with a date and a time of day; digits after the ninth are cut. Without an offset it is
    local to `zone` (of a time that a clock change makes ambiguous, the first). A number counts from the
    epoch in seconds, milliseconds, microseconds or nanoseconds, by its size: below 1e11 it is
    seconds, below 1e14 milliseconds, below 1e17 microseconds (so seconds reach to the year 5138).
    Instants that 64 bits of nanoseconds cannot hold (before 1677, after 2262) are None.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        ns = _from_text(value, zone)
    elif isinstance(value, int):
        ns = value * _unit(abs(value))
    elif isinstance(value, float) and abs(value) < 1e19:
        # A float holds whole numbers exactly up to 2**53; its fraction is good to a microsecond at most.
        ns = round(value * 1_000_000) * _unit(abs(value)) // 1_000_000
    else:
        return None
    return ns if ns is not None and NS_MIN <= ns <= NS_MAX else None


def _unit(size: float) -> int:
    if size < 1e11:
        return NS
    if size < 1e14:
        return 1_000_000
    return 1_000 if size < 1e17 else 1


def _from_text(text: str, zone: tzinfo) -> int | None:
    match = _TEXT.fullmatch(text.strip()) if len(text) <= 64 else None
    if match is None:
        return None
    body, fraction, offset = match.groups()
    try:
        moment = datetime.fromisoformat(body)
        if offset is None:
            moment = moment.replace(tzinfo=zone)
        elif offset.upper() in ("Z", "UTC"):
            moment = moment.replace(tzinfo=UTC)
        else:
            moment = datetime.fromisoformat(f"{body}{offset}")
        whole = moment - _EPOCH
    except (ValueError, OverflowError):
        return None
    seconds = whole.days * 86_400 + whole.seconds
    return seconds * NS + int((fraction or "0").ljust(9, "0")[:9])
