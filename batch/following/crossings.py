"""The risk crossings of an archive, in any source that an audit reads, by whole sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from ...predict.counting.labelled_sessions import LabelledSessions, read_sessions
from ...predict.counting.sequences import SymbolNumbers
from ...predict.following.follow_loop import UP, Crossings
from ...predict.following.followed_chain import FollowedChain
from ...predict.following.follower import RuleFollower
from ...rules.engine.kernel_loop import NO_SLICE
from ...rules.engine.sessions import Clock, numbers
from ...schemas.records.risk_crossing import RiskCrossing, RiskLevel, rounded
from ...schemas.time import NS, rfc3339
from ..evidence.bundle import RISK
from ..evidence.risk_lines import CrossingKey, crossing_line
from ..evidence.sorted_lines import SortedLines
from ..prepare.buckets import labelled
from ..prepare.options import AuditOptions
from ..sources.discover import SourceFile


def write_crossings(
    work: Path,
    scratch: Path,
    parts: Sequence[SourceFile],
    chain: FollowedChain,
    options: AuditOptions,
    on_rows: Callable[[int, int], None],
) -> None:
    """Write the crossings of the events of all parts, sorted, to `RISK`; `scratch` is an empty folder."""
    lines = SortedLines(scratch / "crossings", CrossingKey)
    for crossing in crossings(parts, chain, scratch, options, on_rows):
        lines.add(*crossing_line(crossing))
    with (work / RISK).open("wb") as file:
        file.writelines(line for _, line in lines.merged())


def crossings(
    parts: Sequence[SourceFile],
    chain: FollowedChain,
    scratch: Path,
    options: AuditOptions,
    on_rows: Callable[[int, int], None],
) -> Iterator[RiskCrossing]:
    """Yield the crossings in the window of the audit, in no particular order."""
    compiled = chain.watched.compiled
    buckets = labelled(parts, compiled.labeler, scratch, options.as_of, on_rows)
    last = buckets.last if options.as_of is None else options.as_of
    clock = Clock(last=last or 0, idle=round(options.idle_s * NS), since=options.since, until=options.until)
    symbols = {rule.pack: SymbolNumbers() for rule in chain.watched.rules}
    followers = [
        RuleFollower(chain.watched, rule, risks, symbols[chain.watched.rules[rule].pack])
        for rule, risks in chain.risks.items()
    ]
    for frame in buckets.frames:
        events = frame.collect(engine="streaming")
        sessions = read_sessions(compiled, events, clock)
        for follower in followers:
            yield from _crossings_of(follower, chain, sessions, events, clock)


def _crossings_of(
    follower: RuleFollower,
    chain: FollowedChain,
    sessions: LabelledSessions,
    events: pl.DataFrame,
    clock: Clock,
) -> Iterator[RiskCrossing]:
    """Yield the crossings of one rule in the sessions of a bucket."""
    memory = follower.begin(sessions)
    ends = np.where(sessions.counted, sessions.bounds[1:], sessions.bounds[:-1])
    found = follower.follow(sessions, sessions.bounds[:-1], ends, memory)
    if not len(found.events):
        return
    rows = sessions.rows[found.events]
    times = numbers(events["time"])[rows]
    inside = np.flatnonzero(clock.inside(times))
    members = found.slices[inside].tolist()
    slices = [_slice(follower, sessions, events, member) for member in members]
    columns = events.select(_CrossedEvent._fields)[rows[inside]].iter_rows()
    crossed = map(_CrossedEvent._make, columns)
    record = partial(_record, follower, chain, sessions, found)
    yield from map(record, inside.tolist(), times[inside].tolist(), crossed, slices)


class _CrossedEvent(NamedTuple):
    """The columns of a crossing's event that its record has."""

    seq: int
    event_id: str
    agent: str | None
    late: bool
    history: bool


def _record(
    follower: RuleFollower,
    chain: FollowedChain,
    sessions: LabelledSessions,
    found: Crossings,
    number: int,
    time: int,
    event: _CrossedEvent,
    value: str | None,
) -> RiskCrossing:
    """Return the record of a crossing; `value` is that of its slice."""
    risks, rule = follower.risks, chain.watched.rules[follower.rule]
    slot, context = int(found.slots[number]), risks.at(int(found.places[number]))
    return RiskCrossing(
        level=RiskLevel.UP if found.levels[number] == UP else RiskLevel.DOWN,
        pack=rule.pack,
        rule=rule.id,
        rule_digest=risks.rule_digest,
        chain=chain.digest,
        session_id=sessions.ids[slot],
        occurrence=rfc3339(int(sessions.occurrences[slot])),
        slice=value,
        seq=event.seq,
        event_id=event.event_id,
        time=rfc3339(time),
        within=risks.within,
        risk=None if context is None else rounded(context.risk),
        low=None if context is None else rounded(context.low),
        high=None if context is None else rounded(context.high),
        sessions=None if context is None else context.sessions,
        basis=None if context is None else context.basis,
        threshold=rounded(risks.threshold),
        severity=rule.severity,
        agent=event.agent,
        late=event.late,
        history=event.history,
    )


def _slice(
    follower: RuleFollower, sessions: LabelledSessions, events: pl.DataFrame, member: int
) -> str | None:
    """Return the value of a slice slot, None where there is no slice."""
    if member == NO_SLICE or follower.key is None:
        return None
    return events[f"s{follower.key}"][int(sessions.rows[sessions.slice_places[member]])]
