"""The time zone of times without an offset in chat logs."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ...archive.error import SourceError


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone of an IANA name. Raises SourceError (TRL405) for an unknown one."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = "use a name of the IANA database, such as UTC, Europe/Berlin or America/New_York"
        raise SourceError("TRL405", "--timezone", "unknown time zone", hint) from None
