"""The lines of `risk.jsonl`: crossings in the order of their sessions and events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from ...schemas.records.risk_crossing import RiskCrossing, decode_crossing, encode_crossing


class CrossingKey(NamedTuple):
    """The sort key of a crossing: session, occurrence, event, rule, slice (null first), level."""

    session_id: str
    occurrence: str
    seq: int
    pack: str
    rule: str
    sliced: bool
    slice: str
    level: str


class _WithId(msgspec.Struct):
    """The id that a line states."""

    id: str


def crossing_key(crossing: RiskCrossing) -> CrossingKey:
    """Return the crossing's sort key."""
    return CrossingKey(
        crossing.session_id,
        crossing.occurrence,
        crossing.seq,
        crossing.pack,
        crossing.rule,
        crossing.slice is not None,
        crossing.slice or "",
        crossing.level,
    )


def crossing_line(crossing: RiskCrossing) -> tuple[CrossingKey, bytes]:
    """Return the crossing's sort key, and its line of canonical JSON."""
    return crossing_key(crossing), encode_crossing(crossing) + b"\n"


def with_drift(line: bytes) -> bytes:
    """Return the line of the crossing as that of a rule that has drifted."""
    # A string has no quotes that are not escaped, so nothing else reads so.
    return line.replace(b'"drift":false', b'"drift":true', 1)


def read_crossings(path: Path) -> Iterator[tuple[str, RiskCrossing]]:
    """Yield the stated id and the crossing of each line of a file, which need not exist."""
    if not path.exists():
        return
    with path.open("rb") as lines:
        for line in lines:
            yield msgspec.json.decode(line, type=_WithId).id, decode_crossing(line)
