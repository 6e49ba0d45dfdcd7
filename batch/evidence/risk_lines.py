"""The lines of `risk.jsonl`: crossings in the order of their sessions and events."""

from __future__ import annotations

from collections.abc import Container, Iterator
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


class _OfRule(msgspec.Struct):
    """The rule that a line names."""

    pack: str
    rule: str


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


def with_drift(lines: bytes, drifted: Container[tuple[str, str]]) -> bytes:
    """Return lines of crossings, with drift in those of the packs and ids that have drifted."""
    return b"".join(
        _drifted(line) if _rule_of(line) in drifted else line for line in lines.splitlines(keepends=True)
    )


def _rule_of(line: bytes) -> tuple[str, str]:
    found = msgspec.json.decode(line, type=_OfRule)
    return found.pack, found.rule


def _drifted(line: bytes) -> bytes:
    # A string has no quotes that are not escaped, so nothing else reads so.
    return line.replace(b'"drift":false', b'"drift":true', 1)


def read_crossings(path: Path) -> Iterator[tuple[str, RiskCrossing]]:
    """Yield the stated id and the crossing of each line of a file, which need not exist."""
    if not path.exists():
        return
    with path.open("rb") as lines:
        for line in lines:
            yield msgspec.json.decode(line, type=_WithId).id, decode_crossing(line)
