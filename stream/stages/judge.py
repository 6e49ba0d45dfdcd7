"""The pure heart of the live side: candidates in; judged events, verdicts and what to remember out.

It knows no broker, store or clock. `tracline serve` and the Kafka monitor carry messages to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import orjson
import polars as pl

from ...rules.engine.judge import JUDGED_COLUMNS, CompiledRules, Judged, judge, label_columns
from ...rules.engine.kernel import EVENTS_MAX, I64, applies
from ...rules.engine.records import records
from ...rules.engine.sessions import Clock, Mask
from ...rules.engine.status import first_breaches, unjudged_findings
from ...rules.labels.missing import MISSING, NOTHING, missing_column
from ...rules.model.digest import rule_set_digest
from ...rules.model.rule import RuleSet
from ...schemas.candidate import Candidate
from ...schemas.event import Content, Event, Kind
from ...schemas.frames.events import event_frame
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.sessions.assemble import SessionAssembler
from ..error import PROCESS_ERRORS
from ..messages.session_state import Columns, SessionState
from ..messages.status import SessionStatus, StatusChange

HELD_MAX = 10_000
"""Spans of one session that may wait for the time to pass them."""
HELD_CHARS_MAX = 32 << 20
"""Characters that they may tell."""
_NO_TIME = -(1 << 63)


@dataclass(frozen=True, slots=True)
class Poison:
    """Something that is put aside: spans of a session, or else (`spans` empty) its state.

    `code` is `internal` where it broke assembly or judging (`reason` is the name of the error alone), or
    `session-held` where too many spans of the session wait.
    """

    session_id: str
    spans: tuple[tuple[str, str], ...]
    reason: str
    code: str = "internal"


@dataclass(slots=True)
class Outputs:
    """The outputs of one batch: events and `end` rows in judged order by session, and verdict records.

    `digests` has the digest of the rule set that judged each event. `late` counts claims that came after a
    later event was judged, `repeats` claims that came before.
    """

    events: list[Event] = field(default_factory=list[Event])
    digests: list[str] = field(default_factory=list[str])
    records: list[VerdictRecord] = field(default_factory=list[VerdictRecord])
    statuses: list[StatusChange] = field(default_factory=list[StatusChange])
    late: int = 0
    repeats: int = 0
    poison: list[Poison] = field(default_factory=list[Poison])

    def add(self, other: Outputs) -> None:
        """Add what another batch gave."""
        self.events += other.events
        self.digests += other.digests
        self.records += other.records
        self.statuses += other.statuses
        self.late += other.late
        self.repeats += other.repeats
        self.poison += other.poison


class RuleSetJudge:
    """A rule set at work. Holds nothing of any session.

    `digest` is the rule set's, `key` tells it also from sets that ask their questions in another order: by
    it states know which labels they hold.
    """

    def __init__(self, compiled: CompiledRules, *, satisfied: bool = False) -> None:
        self.compiled = compiled
        self._satisfied = satisfied
        self._columns = (*JUDGED_COLUMNS, *label_columns(compiled))
        self.digest = rule_set_digest(RuleSet(compiled.rules, {}))
        self.key = f"{self.digest}.{_layout(compiled, self._columns)}"

    def judged(
        self, states: Mapping[str, SessionState], events: Sequence[Event]
    ) -> tuple[list[VerdictRecord], list[StatusChange]]:
        """The verdicts at new events of these sessions, and what they came to; states remember the rows."""
        moved = [states[session_id] for session_id in dict.fromkeys(event.session_id for event in events)]
        gaps = any(event.content is not Content.CAPTURED for event in events)
        frame = event_frame(events).with_columns(missing_column() if gaps else NOTHING)
        labelled = self.compiled.labeler.label_few(frame, keep=(*JUDGED_COLUMNS, MISSING))
        new = labelled.select(*self._columns, MISSING)
        old = self._remembered(moved, new.drop(MISSING)).with_columns(NOTHING)
        rows = pl.concat([old, new])
        judged = judge(self.compiled, rows, Clock(last=_NO_TIME, idle=0), satisfied=self._satisfied)
        is_new = judged.order.rows >= old.height
        self._remember(moved, rows)
        newly_judged = replace(judged, found=judged.found.take(is_new[judged.found.stamps]))
        statuses = [*self._applied(states, judged), *self._breaches(judged, is_new)]
        return list(records(self.compiled, newly_judged)), statuses

    def _remembered(self, moved: Sequence[SessionState], new: pl.DataFrame) -> pl.DataFrame:
        """The rows that the open occurrences have shown before, under this rule set."""
        columns: Columns = {name: [] for name in self._columns}
        for state in moved:
            if state.rules != self.key:
                # The numbers of the rules are those of the other rule set, too.
                state.rules, state.rows, state.applied = self.key, {}, set()
            for name, values in state.rows.items():
                columns[name] += values
        schema: Any = new.schema
        return pl.DataFrame(columns, schema=schema)

    def _remember(self, moved: Sequence[SessionState], rows: pl.DataFrame) -> None:
        """Keep with each session the rows of its open occurrence; of one with too many events, just that."""
        columns = {name: _plain(rows[name]).to_list() for name in self._columns}
        places = list(zip(columns["session_id"], columns["occurrence"], strict=True))
        kinds, seqs = columns["kind"], columns["seq"]
        ended = {place for place, kind in zip(places, kinds, strict=True) if kind == Kind.END}
        over = {place for place, seq in zip(places, seqs, strict=True) if seq == EVENTS_MAX + 1}
        kept: dict[str, list[int]] = {}
        for row, place in enumerate(places):
            if place not in ended and (place not in over or seqs[row] == EVENTS_MAX + 1):
                kept.setdefault(place[0], []).append(row)
        for state in moved:
            own = kept.get(state.session.session_id)
            if own is None:
                state.rows = {}
            else:
                state.rows = {name: [values[row] for row in own] for name, values in columns.items()}

    def _applied(self, states: Mapping[str, SessionState], judged: Judged) -> Iterator[StatusChange]:
        """The rules that have come to apply to an occurrence since the last time."""
        applied = applies(judged.memory)
        places = judged.sessions.bounds[1:] - 1
        for slot, at in enumerate(_at(judged, places)):
            state = states[at[0]]
            if state.applied_in != at[1]:
                state.applied_in, state.applied = at[1], set()
            numbers = set(cast("list[int]", self.compiled.program.order[applied[slot]].tolist()))
            for number in sorted(numbers - state.applied):
                yield self._status(SessionStatus.APPLIED, number, at)
            state.applied |= numbers

    def _breaches(self, judged: Judged, is_new: Mask) -> Iterator[StatusChange]:
        """The first violations of occurrences, and the rules that became unjudged, at new events."""
        violated, unmet = first_breaches(judged)
        dead = unjudged_findings(judged)
        for status, found in (
            (SessionStatus.VIOLATED, violated.take(is_new[violated.stamps])),
            (SessionStatus.VIOLATED, unmet),
            (SessionStatus.UNJUDGED, dead.take(is_new[dead.stamps])),
        ):
            numbers: list[int] = self.compiled.program.order[found.columns].tolist()
            for number, at in zip(numbers, _at(judged, found.stamps), strict=True):
                yield self._status(status, number, at)

    def _status(self, standing: SessionStatus, number: int, at: _At) -> StatusChange:
        session_id, occurrence, time, agent = at
        rule, digest = self.compiled.rules[number], self.compiled.digests[number]
        named = rule.pack, rule.id, digest, rule.severity.value
        return StatusChange(standing, session_id, occurrence, *named, agent, time)


class Worker:
    """Assembles sessions and judges them by the rule set that is `active`.

    `find` finds another one by its key. An occurrence that began under another one goes on under it if it
    is to `finish` and that is found; else it begins anew with its next event, with empty history. One that
    has no event any more ends under the rule set that judged its last.
    """

    def __init__(
        self,
        active: RuleSetJudge,
        find: Callable[[str], RuleSetJudge | None] = lambda _key: None,
        *,
        finish: bool = False,
    ) -> None:
        self._active, self._find, self._finish = active, find, finish

    def step(
        self, states: Mapping[str, SessionState], candidates: Iterable[Candidate], watermark: int
    ) -> Outputs:
        """Take the candidates in, and judge what the watermark has passed in any of these sessions.

        `states` has every session of the candidates and those that are due; they are changed in place. The
        same states, candidates and watermark give the same outputs.
        """
        done = Outputs()
        late, repeats = _counts(states)
        room: dict[str, int] = {}
        for candidate in candidates:
            name, session = candidate.session_id, states[candidate.session_id].session
            if name not in room:
                room[name] = HELD_CHARS_MAX - sum(one.chars for one in session.held.values())
            if len(session.held) < HELD_MAX and candidate.chars <= room[name]:
                session.add(candidate)
                room[name] -= candidate.chars
            else:
                text = f"{len(session.held)} spans of its session wait already"
                span = candidate.trace_id, candidate.span_id
                done.poison.append(Poison(name, (span,), text, "session-held"))
        by_bench: dict[str, tuple[RuleSetJudge, list[Event]]] = {}
        for state in states.values():
            bench, begun = self._active, None
            for event in state.session.advance(watermark):
                if event.kind is not Kind.END or event.occurrence != begun:
                    bench = self._bench(state, event)
                begun = event.occurrence
                done.events.append(event)
                done.digests.append(bench.digest)
                by_bench.setdefault(bench.key, (bench, []))[1].append(event)
        after = _counts(states)
        done.late, done.repeats = after[0] - late, after[1] - repeats
        # An occurrence that ends under another rule set comes before the next one, under the active one.
        for bench, events in sorted(
            by_bench.values(), key=lambda item: (item[0] is self._active, item[0].key)
        ):
            verdicts, statuses = bench.judged(states, events)
            done.records += verdicts
            done.statuses += statuses
        done.statuses += [_closed(event) for event in done.events if event.kind is Kind.END]
        return done

    def step_apart(
        self,
        states: dict[str, SessionState],
        candidates: Sequence[Candidate],
        watermark: int,
        load: Callable[[str], SessionState],
    ) -> Outputs:
        """As `step`; but where it breaks, each session by itself, and what breaks one is put aside.

        `load` gives a session's state as it was, or an empty one. What is put aside stands in the outputs'
        `poison`, and `states` has what became of the others. Raises StreamError as `find` does, and what
        says nothing of a session: MemoryError, OSError.
        """
        try:
            return self.step(states, candidates, watermark)
        except Exception as error:
            if isinstance(error, PROCESS_ERRORS):
                raise
            done = Outputs()
            for session_id in list(states):
                own = [one for one in candidates if one.session_id == session_id]
                states[session_id], outputs = self._one(session_id, own, watermark, load)
                done.add(outputs)
            return done

    def _one(
        self,
        session_id: str,
        candidates: Sequence[Candidate],
        watermark: int,
        load: Callable[[str], SessionState],
    ) -> tuple[SessionState, Outputs]:
        """One session's state and outputs: with its candidates, else without them, else begun anew."""
        poison: list[Poison] = []
        for own in (candidates, ()) if candidates else ((),):
            state = load(session_id)
            try:
                done = self.step({session_id: state}, own, watermark)
            except Exception as error:
                if isinstance(error, PROCESS_ERRORS):
                    raise
                spans = tuple((one.trace_id, one.span_id) for one in own)
                poison.append(Poison(session_id, spans, type(error).__name__))
            else:
                done.poison += poison
                return state, done
        return SessionState(SessionAssembler(session_id, load(session_id).session.idle)), Outputs(
            poison=poison
        )

    def _bench(self, state: SessionState, event: Event) -> RuleSetJudge:
        """The rule set that judges an event, the first one of its occurrence here."""
        if state.rules in ("", self._active.key) or state.applied_in != event.occurrence:
            return self._active
        goes_on = self._finish or event.kind is Kind.END or _same_rules(state.rules, self._active.key)
        return (self._find(state.rules) if goes_on else None) or self._active


def _same_rules(key: str, other: str) -> bool:
    """Return whether two keys are those of one rule set, whatever the order of its questions."""
    return key.partition(".")[0] == other.partition(".")[0]


def poisoned(poison: Poison) -> Iterator[tuple[str, str, str]]:
    """Place, code and reason of each thing that was put aside, for dead letters."""
    for trace_id, span_id in poison.spans:
        yield f"trace {trace_id}, span {span_id}", poison.code, poison.reason
    if not poison.spans:
        yield "session's state", poison.code, poison.reason


_At = tuple[str, int, int, str | None]


def _plain(values: pl.Series) -> pl.Series:
    """Times as nanoseconds, kinds as words, all else as it is."""
    if isinstance(values.dtype, pl.Enum):
        return values.cast(pl.String)
    return values.cast(pl.Int64) if values.dtype.is_temporal() else values


def _at(judged: Judged, places: I64) -> Iterator[_At]:
    """Return session, occurrence, time and agent of the events at these places in judged order."""
    if not len(places):
        # Most batches breach nothing.
        return iter(())
    columns = [judged.column(name, places) for name in ("session_id", "occurrence", "time", "agent")]
    rows: Any = zip(*(_plain(column).to_list() for column in columns), strict=True)
    return rows


def _closed(event: Event) -> StatusChange:
    return StatusChange(
        SessionStatus.CLOSED,
        event.session_id,
        event.occurrence,
        None,
        None,
        None,
        None,
        event.agent,
        event.time,
    )


def _counts(states: Mapping[str, SessionState]) -> tuple[int, int]:
    """Return the numbers of late and of repeated claims of these sessions since they began."""
    sessions = [state.session for state in states.values()]
    return sum(one.late for one in sessions), sum(one.repeats for one in sessions)


def _layout(compiled: CompiledRules, columns: Sequence[str]) -> str:
    """Return where each rule and each proposition stands in the columns, as 16 hex digits."""
    rules = [[rule.pack, rule.id] for rule in compiled.rules]
    content = [rules, list(compiled.propositions.items()), columns]
    return hashlib.sha256(orjson.dumps(content)).hexdigest()[:16]
