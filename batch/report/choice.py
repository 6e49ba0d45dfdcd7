"""The sessions that a report draws: the worst ones, and a seeded sample of those without a violation."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

import msgspec
import polars as pl

from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.verdict import Severity, Verdict
from ..prepare import spill
from ..prepare.buckets import until
from ..sources.discover import SourceFile
from ..sources.event_files import reading

WORST_MAX = 12
"""Sessions with the most severe violations that are drawn."""
SAMPLE_MAX = 6
"""Sessions without a violation that are drawn."""
DRAWN_AT_FIRST = 30 * SAMPLE_MAX
"""Sessions that are drawn by their numbers, before those with violations are left out."""

BREACHES = (Verdict.VIOLATED, Verdict.UNMET)
"""The verdicts that break a rule."""

Badness = tuple[int, int, int]
"""A sort key of sessions: the worst severity, the broken rules and the verdicts, each with a minus."""


class VerdictPlace(msgspec.Struct, frozen=True):
    """The fields of a verdict that decide which sessions are the worst."""

    session_id: str
    occurrence: str
    pack: str
    rule: str
    severity: Severity
    verdict: Verdict
    history: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen sessions: the worst by id and occurrence, the worst first, and the clean ones by id."""

    worst: tuple[tuple[str, str], ...]
    clean: tuple[str, ...]

    @property
    def ids(self) -> frozenset[str]:
        """Return the ids of all of them."""
        return frozenset((*(session_id for session_id, _ in self.worst), *self.clean))

    def why(self, session_id: str, occurrence: str) -> Literal["worst", "sample"] | None:
        """Return why an occurrence is drawn, None where it is not."""
        if (session_id, occurrence) in self.worst:
            return "worst"
        return "sample" if session_id in self.clean else None


def choose_sessions(verdicts: Path, parts: Sequence[SourceFile], as_of: int | None, seed: int) -> Choice:
    """Return the sessions to draw, from the file of verdicts, and from the archive's session ids."""
    drawn = _drawn(parts, as_of, seed)
    candidates, breached = set(drawn), set[str]()

    def worst() -> Iterator[tuple[Badness, str, str]]:
        for (session_id, occurrence), found in groupby(_breaches(verdicts), key=_place):
            if session_id in candidates:
                breached.add(session_id)
            yield badness(found), session_id, occurrence

    chosen = heapq.nsmallest(WORST_MAX, worst())
    clean = [session_id for session_id in drawn if session_id not in breached][:SAMPLE_MAX]
    return Choice(tuple((session_id, occurrence) for _, session_id, occurrence in chosen), tuple(clean))


def _breaches(verdicts: Path) -> Iterator[VerdictPlace]:
    """Yield the violated and unmet verdicts in the order of the file: whole occurrences together."""
    decoder = msgspec.json.Decoder(VerdictPlace)
    with verdicts.open("rb") as lines:
        for line in lines:
            place = decoder.decode(line)
            if place.verdict in BREACHES and not place.history:
                yield place


def _place(verdict: VerdictPlace) -> tuple[str, str]:
    return verdict.session_id, verdict.occurrence


def badness(found: Iterable[VerdictPlace | VerdictRecord]) -> Badness:
    """Return how bad the breaches of an occurrence are; the worst come first in the order of the keys."""
    verdicts = list(found)
    rules = {(verdict.pack, verdict.rule) for verdict in verdicts}
    return -max((verdict.severity.rank for verdict in verdicts), default=0), -len(rules), -len(verdicts)


def _drawn(parts: Sequence[SourceFile], as_of: int | None, seed: int) -> list[str]:
    """Return session ids by the numbers that the seed gives them, the smallest first."""
    chosen: list[tuple[bytes, str]] = []
    for one_pass in spill.passes(parts):
        with reading(one_pass.parts):
            ids = (
                until(one_pass.frame, as_of).select(pl.col("session_id").unique()).collect(engine="streaming")
            )
        numbered = ((_number(seed, name), name) for name in ids["session_id"].to_list())
        chosen = heapq.nsmallest(DRAWN_AT_FIRST, {*chosen, *numbered})
    return [name for _, name in chosen]


def _number(seed: int, session_id: str) -> bytes:
    """Return a number that orders sessions at random, the same for the same seed."""
    return hashlib.sha256(f"{seed}/{session_id}".encode()).digest()
