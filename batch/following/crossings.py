"""The risks of a chain over an archive, in any source that an audit reads, by whole sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from heapq import merge
from pathlib import Path

import numpy as np
import polars as pl

from ...predict.counting.labelled_sessions import LabelledSessions, read_sessions
from ...predict.counting.sequences import SymbolNumbers
from ...predict.following.crossing_record import CrossedEvent, crossing_record
from ...predict.following.follow_loop import UP
from ...predict.following.followed_chain import FollowedChain
from ...predict.following.follower import RuleFollower
from ...predict.following.risk_courses import RiskCourse, risk_courses, slice_value
from ...predict.following.warning_tally import WarningFigures, WarningTally
from ...rules.engine.sessions import Clock, numbers
from ...rules.model.arrays import Mask
from ...schemas.records.risk_crossing import RiskCrossing
from ...schemas.time import NS, rfc3339
from ..evidence.bundle import RISK, VERDICTS, SessionName
from ..evidence.risk_lines import CrossingKey, crossing_line, with_drift
from ..evidence.sorted_lines import SortedLines
from ..findings.waiving import RuleName
from ..prepare.buckets import labelled
from ..prepare.options import AuditOptions
from ..sources.discover import SourceFile
from .warned_sessions import WarnedSessions, warned_sessions


@dataclass(frozen=True, slots=True)
class FollowedArchive:
    """The figures of the followed rules, and the risks of drawn sessions by id and occurrence."""

    figures: Mapping[RuleName, WarningFigures]
    drawn: Mapping[SessionName, Sequence[RiskCourse]]


NOT_FOLLOWED = FollowedArchive({}, {})
"""The result of an audit without a chain."""

_COLUMNS = ("seq", "event_id", "agent", "late", "history")
"""The columns of a crossing's event that its record has beside the time."""


def write_crossings(
    work: Path,
    scratch: Path,
    parts: Sequence[SourceFile],
    chain: FollowedChain,
    options: AuditOptions,
    on_rows: Callable[[int, int], None],
    drawn: Set[SessionName],
) -> FollowedArchive:
    """Write the crossings of the events of all parts, sorted, to `RISK`; `scratch` is an empty folder.

    Return the figures of the rules, and the risks of the sessions `drawn`.
    """
    lines = SortedLines(scratch / "crossings", CrossingKey)
    outside = SortedLines(scratch / "other crossings", CrossingKey)
    following = _Following(chain, drawn)
    for crossing, is_inside in following.crossings(parts, scratch, options, on_rows):
        (lines if is_inside else outside).add(*crossing_line(crossing))
    drifted = following.drifted
    with (work / RISK).open("wb") as file:
        file.writelines(
            with_drift(line) if (key.pack, key.rule) in drifted else line for key, line in lines.merged()
        )
    with (work / RISK).open("rb") as inside, (work / VERDICTS).open("rb") as verdicts:
        if outside.is_empty:
            found = warned_sessions(inside, verdicts)
            return following.followed(found.warned, found)
        # A warning before the window counts for a verdict in it.
        every = (line for _, line in merge(lines.merged(), outside.merged()))
        return following.followed(warned_sessions(inside, ()).warned, warned_sessions(every, verdicts))


@dataclass(frozen=True, slots=True)
class _FollowedRule:
    """A rule that is followed, with its counts so far."""

    follower: RuleFollower
    tally: WarningTally


class _Following:
    """The following of a chain in progress; `drawn` are the sessions whose risks are to be returned."""

    def __init__(self, chain: FollowedChain, drawn: Set[SessionName]) -> None:
        self._chain, self._drawn = chain, drawn
        self._risks: dict[SessionName, list[RiskCourse]] = {}
        rules = chain.watched.rules
        symbols = {rule.pack: SymbolNumbers() for rule in rules}
        self._rules = [
            _FollowedRule(
                RuleFollower(chain.watched, rule, risks, symbols[rules[rule].pack]),
                WarningTally(risks, is_sliced=rules[rule].for_each is not None),
            )
            for rule, risks in chain.risks.items()
        ]

    def crossings(
        self,
        parts: Sequence[SourceFile],
        scratch: Path,
        options: AuditOptions,
        on_rows: Callable[[int, int], None],
    ) -> Iterator[tuple[RiskCrossing, bool]]:
        """Yield the crossings, and whether each is in the window of the audit, in no particular order."""
        compiled = self._chain.watched.compiled
        buckets = labelled(parts, compiled.labeler, scratch, options.as_of, on_rows)
        last = buckets.last if options.as_of is None else options.as_of
        clock = Clock(
            last=last or 0, idle=round(options.idle_s * NS), since=options.since, until=options.until
        )
        for frame in buckets.frames:
            events = frame.collect(engine="streaming")
            sessions = read_sessions(compiled, events, clock)
            inside = clock.inside(numbers(events["time"])[sessions.rows])
            counted: Mask = inside & ~events["history"].to_numpy()[sessions.rows]
            wanted = _slots(sessions, self._drawn)
            for rule in self._rules:
                yield from self._crossings_of(rule.follower, sessions, events, inside)
                self._count(rule, sessions, counted, events, wanted)

    @property
    def drifted(self) -> frozenset[RuleName]:
        """Return the rules that have drifted, once all sessions are followed."""
        names = ((rule.follower.risks, rule.tally) for rule in self._rules)
        return frozenset((risks.pack, risks.rule) for risks, tally in names if tally.has_drifted())

    def followed(self, warned: Counter[RuleName], sessions: WarnedSessions) -> FollowedArchive:
        """Return the figures of all that was followed, given the sessions with crossings and verdicts."""
        names = {(rule.follower.risks.pack, rule.follower.risks.rule): rule.tally for rule in self._rules}
        figures = {
            name: tally.figures(warned[name], sessions.violating[name], sessions.missed[name])
            for name, tally in names.items()
        }
        return FollowedArchive(figures, self._risks)

    def _crossings_of(
        self, follower: RuleFollower, sessions: LabelledSessions, events: pl.DataFrame, inside: Mask
    ) -> Iterator[tuple[RiskCrossing, bool]]:
        """Yield the crossings of one rule in the sessions of a bucket, and whether each is in the window."""
        memory = follower.begin(sessions)
        ends = np.where(sessions.counted, sessions.bounds[1:], sessions.bounds[:-1])
        found = follower.follow(sessions, sessions.bounds[:-1], ends, memory)
        if not len(found.events):
            return
        rows = sessions.rows[found.events]
        times: list[int] = numbers(events["time"])[rows].tolist()
        columns = events.select(_COLUMNS)[rows].iter_rows()
        are_inside: list[bool] = inside[found.events].tolist()
        members: list[int] = found.slices.tolist()
        for number, (time, (seq, event_id, *more), member, is_inside) in enumerate(
            zip(times, columns, members, are_inside, strict=True)
        ):
            slot, context = int(found.slots[number]), follower.risks.at(int(found.places[number]))
            named = sessions.ids[slot], int(sessions.occurrences[slot])
            event = CrossedEvent(*named, seq, event_id, time, *more)
            value, is_up = slice_value(follower, sessions, events, member), bool(found.levels[number] == UP)
            yield crossing_record(self._chain, follower.rule, event, value, context, is_up=is_up), is_inside

    def _count(
        self,
        rule: _FollowedRule,
        sessions: LabelledSessions,
        counted: Mask,
        events: pl.DataFrame,
        wanted: Mapping[int, SessionName],
    ) -> None:
        """Count the warnings of a rule in the sessions of a bucket, and add the risks of drawn sessions."""
        warnings = rule.tally.begin(len(sessions.counted))
        for found, places in rule.follower.sequences(sessions):
            rule.tally.count(found, places, counted, warnings)
            for slot, risk in risk_courses(rule.follower, found, places, sessions, events, wanted):
                self._risks.setdefault(wanted[slot], []).append(risk)
        rule.tally.end(warnings)


def _slots(sessions: LabelledSessions, names: Set[SessionName]) -> dict[int, SessionName]:
    """Return the slots of the sessions with these names."""
    ids = {session_id for session_id, _ in names}
    slots = [slot for slot, session_id in enumerate(sessions.ids) if session_id in ids]
    found = {slot: (sessions.ids[slot], rfc3339(int(sessions.occurrences[slot]))) for slot in slots}
    return {slot: name for slot, name in found.items() if name in names}
