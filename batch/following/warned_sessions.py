"""The sessions that were warned of before a verdict, from their first warnings and the lines of verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from ...schemas.records.risk_crossing import RiskLevel
from ...schemas.verdict import BREACHES, Verdict
from ..findings.waiving import RuleName

FirstWarning = tuple[str, str, str | None, int]
"""The pack, the rule, the slice and `seq` of the first event at which a risk rises to the threshold."""


class CrossedSession(NamedTuple):
    """A session, or a part of it from the event `seq` on, with crossings of some rules' thresholds.

    `warned` are the rules with a warning in the window of the audit, and `firsts` the first warnings, in the
    window or before it. From the event `until` on, the session was not followed.
    """

    session_id: str
    occurrence: str
    seq: int
    warned: Sequence[RuleName]
    firsts: Sequence[FirstWarning]
    until: int | None = None

    @property
    def session(self) -> tuple[str, str]:
        """Return the session's id and occurrence, by which the files of a bundle are sorted."""
        return self.session_id, self.occurrence


def crossed_session(
    session_id: str,
    occurrence: str,
    seq: int,
    warned: Sequence[tuple[str, str]],
    firsts: Sequence[tuple[str, str, str | None, int]],
    until: int | None,
) -> CrossedSession:
    """Return a session of its members as JSON gives them."""
    names = [(pack, rule) for pack, rule in warned]
    return CrossedSession(
        session_id,
        occurrence,
        seq,
        names,
        [(pack, rule, value, at) for pack, rule, value, at in firsts],
        until,
    )


class _FoundLine(msgspec.Struct, frozen=True):
    """A crossing, which has a level, or a verdict."""

    session_id: str
    occurrence: str
    pack: str
    rule: str
    rule_digest: str
    slice: str | None
    seq: int
    history: bool
    level: RiskLevel | None = None
    verdict: Verdict | None = None

    @property
    def session(self) -> tuple[str, str]:
        """Return the session's id and occurrence."""
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


def warned_sessions(
    crossed: Iterable[CrossedSession],
    verdicts: Iterable[bytes],
    digests: Mapping[RuleName, str] = MappingProxyType({}),
) -> WarnedSessions:
    """Return the sessions of crossings and of lines of verdicts, both sorted by session.

    Of a rule in `digests`, only the verdicts of the rule with that digest count.
    """
    found = WarnedSessions()
    lines = merge(crossed, _breaches(verdicts, digests), key=_session_of)
    for _, of_session in groupby(lines, key=_session_of):
        every = list(of_session)
        parts = [each for each in every if isinstance(each, CrossedSession)]
        breaches = [
            line
            for line in every
            if isinstance(line, _FoundLine)
            and all(part.until is None or line.seq < part.until for part in parts)
        ]
        firsts = [first for part in parts for first in part.firsts]
        for name in {name for part in parts for name in part.warned}:
            found.warned[name] += 1
        for name in {line.name for line in breaches}:
            found.violating[name] += 1
        missed = [line for line in _firsts(breaches) if not _is_warned(line, firsts)] if parts else breaches
        for name in {line.name for line in missed}:
            found.missed[name] += 1
    return found


def _breaches(verdicts: Iterable[bytes], digests: Mapping[RuleName, str]) -> Iterator[_FoundLine]:
    """Yield the verdicts that count, of the rules with these digests."""
    for line in map(_LINE.decode, verdicts):
        if (
            line.verdict in BREACHES
            and not line.history
            and digests.get(line.name, line.rule_digest) == line.rule_digest
        ):
            yield line


def _session_of(each: CrossedSession | _FoundLine) -> tuple[str, str]:
    """Return the session by which lines are sorted."""
    return each.session_id, each.occurrence


def crossed_sessions(crossings: Iterable[bytes]) -> Iterator[CrossedSession]:
    """Yield the sessions of the lines of crossings of a bundle."""
    lines = map(_LINE.decode, crossings)
    for (session_id, occurrence), group in groupby(lines, key=lambda line: line.session):
        firsts: dict[tuple[RuleName, str | None], FirstWarning] = {}
        for line in group:
            if line.level is RiskLevel.UP:
                warning = line.pack, line.rule, line.slice, line.seq
                firsts.setdefault((line.name, line.slice), warning)
        names = list(dict.fromkeys(name for name, _ in firsts))
        yield CrossedSession(session_id, occurrence, 0, names, list(firsts.values()))


def _firsts(breaches: Sequence[_FoundLine]) -> Iterator[_FoundLine]:
    """Yield the first breach of each rule and slice."""
    seen = set[tuple[RuleName, str | None]]()
    for line in sorted(breaches, key=lambda line: (line.seq, line.verdict is Verdict.UNMET)):
        if (line.name, line.slice) not in seen:
            seen.add((line.name, line.slice))
            yield line


def _is_warned(breach: _FoundLine, firsts: Sequence[FirstWarning]) -> bool:
    """Return whether a warning comes before the breach; a close comes after the event that it names."""
    end = breach.seq + (breach.verdict is Verdict.UNMET)
    slices = (None, breach.slice)
    return any(
        (pack, rule) == breach.name and value in slices and seq < end for pack, rule, value, seq in firsts
    )
