"""The sessions that were warned of before a verdict, from the lines of crossings and verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby

import msgspec

from ...schemas.records.risk_crossing import RiskLevel
from ...schemas.verdict import BREACHES, Verdict
from ..findings.waiving import RuleName


class _FoundLine(msgspec.Struct, frozen=True):
    """A crossing, which has a level, or a verdict."""

    session_id: str
    occurrence: str
    pack: str
    rule: str
    slice: str | None
    seq: int
    history: bool
    level: RiskLevel | None = None
    verdict: Verdict | None = None

    @property
    def session(self) -> tuple[str, str]:
        """Return the session's id and occurrence, by which both files are sorted."""
        return self.session_id, self.occurrence

    @property
    def name(self) -> RuleName:
        """Return the name of the rule."""
        return self.pack, self.rule


_LINE = msgspec.json.Decoder(_FoundLine)


@dataclass(frozen=True, slots=True)
class WarnedSessions:
    """Numbers of sessions by rule: those with a crossing, those that violate, and those missed of these.

    A session is missed where one of its slices has no crossing before its first verdict. The crossings before
    a session's first slice are those of all its slices.
    """

    warned: Counter[RuleName] = field(default_factory=Counter[RuleName])
    violating: Counter[RuleName] = field(default_factory=Counter[RuleName])
    missed: Counter[RuleName] = field(default_factory=Counter[RuleName])


def warned_sessions(crossings: Iterable[bytes], verdicts: Iterable[bytes]) -> WarnedSessions:
    """Return the sessions of lines that are sorted by session, as those of a bundle are."""
    found = WarnedSessions()
    lines = merge(map(_LINE.decode, crossings), map(_LINE.decode, verdicts), key=lambda line: line.session)
    for _, of_session in groupby(lines, key=lambda line: line.session):
        every = list(of_session)
        ups = [line for line in every if line.level is RiskLevel.UP]
        breaches = [line for line in every if line.verdict in BREACHES and not line.history]
        found.warned.update({line.name for line in ups})
        found.violating.update({line.name for line in breaches})
        found.missed.update({line.name for line in _firsts(breaches) if not _is_warned(line, ups)})
    return found


def _firsts(breaches: Sequence[_FoundLine]) -> Iterator[_FoundLine]:
    """Yield the first breach of each rule and slice."""
    seen = set[tuple[RuleName, str | None]]()
    for line in sorted(breaches, key=lambda line: (line.seq, line.verdict is Verdict.UNMET)):
        if (line.name, line.slice) not in seen:
            seen.add((line.name, line.slice))
            yield line


def _is_warned(breach: _FoundLine, ups: Sequence[_FoundLine]) -> bool:
    """Return whether a crossing comes before the breach; a close comes after the event that it names."""
    end = breach.seq + (breach.verdict is Verdict.UNMET)
    slices = (None, breach.slice)
    return any(up.name == breach.name and up.slice in slices and up.seq < end for up in ups)
