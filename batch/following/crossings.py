"""The risk crossings of an archive, in any source that an audit reads, by whole sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from ...predict.counting.labelled_sessions import LabelledSessions, read_sessions
from ...predict.counting.sequences import SymbolNumbers
from ...predict.following.crossing_record import CrossedEvent, crossing_record
from ...predict.following.follow_loop import UP
from ...predict.following.followed_chain import FollowedChain
from ...predict.following.follower import RuleFollower
from ...rules.engine.kernel_loop import NO_SLICE
from ...rules.engine.sessions import Clock, numbers
from ...schemas.records.risk_crossing import RiskCrossing
from ...schemas.time import NS
from ..evidence.bundle import RISK
from ..evidence.risk_lines import CrossingKey, crossing_line
from ..evidence.sorted_lines import SortedLines
from ..prepare.buckets import labelled
from ..prepare.options import AuditOptions
from ..sources.discover import SourceFile

_COLUMNS = ("seq", "event_id", "agent", "late", "history")
"""The columns of a crossing's event that its record has beside the time."""


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
    columns = events.select(_COLUMNS)[rows[inside]].iter_rows()
    for number, time, (seq, event_id, *more), member in zip(
        inside.tolist(), times[inside].tolist(), columns, members, strict=True
    ):
        slot, context = int(found.slots[number]), follower.risks.at(int(found.places[number]))
        named = sessions.ids[slot], int(sessions.occurrences[slot])
        event = CrossedEvent(*named, seq, event_id, time, *more)
        value, is_up = _slice(follower, sessions, events, member), bool(found.levels[number] == UP)
        yield crossing_record(chain, follower.rule, event, value, context, is_up=is_up)


def _slice(
    follower: RuleFollower, sessions: LabelledSessions, events: pl.DataFrame, member: int
) -> str | None:
    """Return the value of a slice slot, None where there is no slice."""
    if member == NO_SLICE or follower.key is None:
        return None
    return events[f"s{follower.key}"][int(sessions.rows[sessions.slice_places[member]])]
