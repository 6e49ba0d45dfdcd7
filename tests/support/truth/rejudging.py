"""The oracle of live judging: a rule set that judges each open occurrence again from its first event.

The state of a session is its labelled events. A batch is the events of one message; each verdict and each
change of a status belongs to the batch with the event that decides it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
import polars as pl
from tracline.rules.engine import kernel
from tracline.rules.engine.judge import JUDGED_COLUMNS, CompiledRules, Judged, judge, label_columns
from tracline.rules.engine.kernel import EVENTS_MAX, Findings, may_apply
from tracline.rules.engine.kernel_loop import FOUND_UNKNOWN, FOUND_UNSETTLED
from tracline.rules.engine.records import REASONS, records
from tracline.rules.engine.sessions import Clock
from tracline.rules.engine.status import first_breaches, unjudged_findings
from tracline.rules.labels.missing import MISSING, NOTHING, missing_column
from tracline.rules.model.arrays import I32, I64, Mask
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.frames.events import event_frame
from tracline.schemas.records.session_status import SessionStatus, StatusChange
from tracline.schemas.records.verdict_record import VerdictRecord
from tracline.schemas.time import rfc3339
from tracline.schemas.verdict import Verdict
from tracline.stream.messages.session_state import Columns
from tracline.stream.stages.rule_set_judge import BatchVerdicts, RuleSetJudge

_NO_TIME = -(1 << 63)
_CLOSING = {Verdict.HELD.value, Verdict.UNMET.value}

_At = tuple[str, int, int, str | None]
"""Session, occurrence, time and agent of an event."""


@dataclass(frozen=True, slots=True)
class RejudgedState:
    """The labelled events of a session's open occurrence, and the rules that have applied to it."""

    rules: str = ""
    rows: Columns = field(default_factory=Columns)
    applied_in: int = 0
    applied: Set[int] = frozenset()


class _Change(NamedTuple):
    """A change of a status in a batch; the phases: rules that apply, violated, unmet and unjudged ones."""

    batch: int
    phase: int
    status: StatusChange


class Rejudge:
    """A compiled rule set that judges open sessions again from their first events."""

    def __init__(self, compiled: CompiledRules, *, satisfied: bool = False) -> None:
        self.compiled = compiled
        self._satisfied = satisfied
        self._columns = (*JUDGED_COLUMNS, *label_columns(compiled))
        self.key = RuleSetJudge(compiled).key

    def judge(
        self, states: Mapping[str, RejudgedState], batches: Sequence[Sequence[Event]]
    ) -> tuple[list[BatchVerdicts], dict[str, RejudgedState]]:
        """Judge batches of new events; return the verdicts of each, and the sessions' states after all.

        `states` has every session of the events, as before the first batch.
        """
        events = [event for batch in batches for event in batch]
        if not events:
            return [BatchVerdicts([], []) for _ in batches], {}
        before = {
            session_id: self._under_these_rules(states[session_id])
            for session_id in dict.fromkeys(event.session_id for event in events)
        }
        gaps = any(event.content is not Content.CAPTURED for event in events)
        frame = event_frame(events).with_columns(missing_column() if gaps else NOTHING)
        labelled = self.compiled.labeler.label_few(frame, keep=(*JUDGED_COLUMNS, MISSING))
        new = labelled.select(*self._columns, MISSING)
        old = self._remembered(before.values(), new.drop(MISSING)).with_columns(NOTHING)
        rows = pl.concat([old, new])
        judged = judge(self.compiled, rows, Clock(last=_NO_TIME, idle=0), satisfied=self._satisfied)
        places = _Places(batches, before, judged, old.height)
        reported = places.is_new[judged.found.stamps] | (judged.found.kinds == FOUND_UNSETTLED)
        found = replace(judged, found=judged.found.take(reported))
        applied, changes = self._applied(before, judged, places)
        verdicts = places.verdicts([*changes, *self._breaches(judged, places)], records(self.compiled, found))
        open_rows = self._open_rows(rows)
        return verdicts, {
            session_id: RejudgedState(self.key, open_rows.get(session_id, {}), *applied[session_id])
            for session_id in before
        }

    def _under_these_rules(self, state: RejudgedState) -> RejudgedState:
        """Return the state, without the rows and numbers of another rule set."""
        if state.rules == self.key:
            return state
        return RejudgedState(self.key, {}, state.applied_in)

    def _remembered(self, states: Iterable[RejudgedState], new: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of the open occurrences before the new ones."""
        columns: Columns = {name: [] for name in self._columns}
        for state in states:
            for name, values in state.rows.items():
                columns[name] += values
        schema: Any = new.schema
        return pl.DataFrame(columns, schema=schema)

    def _open_rows(self, rows: pl.DataFrame) -> dict[str, Columns]:
        """Return the rows of each open occurrence, and only the first one too many beyond `EVENTS_MAX`."""
        columns = {name: _plain(rows[name]).to_list() for name in self._columns}
        occurrences = list(zip(columns["session_id"], columns["occurrence"], strict=True))
        kinds, seqs = columns["kind"], columns["seq"]
        ended = {at for at, kind in zip(occurrences, kinds, strict=True) if kind == Kind.END}
        over = {at for at, seq in zip(occurrences, seqs, strict=True) if seq == EVENTS_MAX + 1}
        chosen: dict[str, list[int]] = {}
        for row, at in enumerate(occurrences):
            if at not in ended and (at not in over or seqs[row] == EVENTS_MAX + 1):
                chosen.setdefault(at[0], []).append(row)
        return {
            session_id: {name: [values[row] for row in numbers] for name, values in columns.items()}
            for session_id, numbers in chosen.items()
        }

    def _applied(
        self, before: Mapping[str, RejudgedState], judged: Judged, places: _Places
    ) -> tuple[dict[str, tuple[int, frozenset[int]]], list[_Change]]:
        """Return each session's last occurrence with the rules that have applied to it, and the new ones.

        A rule that comes to apply is reported at the last event that the batch has of the occurrence.
        """
        after = {
            session_id: (state.applied_in, frozenset(state.applied)) for session_id, state in before.items()
        }
        applied = self._numbers(may_apply(judged.memory))
        new: dict[int, frozenset[int]] = {}
        for slot, at in enumerate(_at(judged, judged.sessions.bounds[1:] - 1)):
            applied_in, known = after[at[0]]
            known = known if applied_in == at[1] else frozenset[int]()
            if applied[slot] - known:
                new[slot] = applied[slot] - known
            after[at[0]] = at[1], known | applied[slot]
        steps = sorted(self._when_applied(judged, places, new), key=itemgetter(0))
        ats = _at(judged, np.array([stamp for stamp, _ in steps], dtype=np.int64))
        changes = [
            _Change(int(places.batch[stamp]), 0, self._status(SessionStatus.APPLIED, number, at))
            for (stamp, numbers), at in zip(steps, ats, strict=True)
            for number in sorted(numbers)
        ]
        return after, changes

    def _when_applied(
        self, judged: Judged, places: _Places, new: Mapping[int, frozenset[int]]
    ) -> Iterator[tuple[int, frozenset[int]]]:
        """Yield the stamps at which some of the new rules of a slot came to apply, and their numbers.

        Where several batches have events of a slot, the kernel steps over these events again, batch by batch.
        """
        several: list[int] = []
        for slot, numbers in new.items():
            begin, end = (int(stamp) for stamp in judged.sessions.bounds[slot : slot + 2])
            if places.batch[begin] == places.batch[end - 1]:
                yield end - 1, numbers
            else:
                several.append(slot)
        if several:
            begins, ends = judged.sessions.bounds[several], judged.sessions.bounds[np.array(several) + 1]
            stamps: I64 = np.concatenate(list(map(np.arange, begins.tolist(), ends.tolist())))
            slots = np.repeat(np.arange(len(several), dtype=np.int32), ends - begins)
            yield from self._stepped_again(judged, places, stamps, slots, [new[slot] for slot in several])

    def _stepped_again(
        self, judged: Judged, places: _Places, stamps: I64, slots: I32, new: Sequence[frozenset[int]]
    ) -> Iterator[tuple[int, frozenset[int]]]:
        """Step over the events at these stamps of some slots, numbered from 0; yield as `_when_applied`."""
        program, left = self.compiled.program, list(new)
        memory = kernel.remember(program, len(new), len(judged.slice_places))
        batches: list[int] = np.unique(places.batch[stamps]).tolist()
        for batch in batches:
            chosen = places.batch[stamps] == batch
            at, stepped = stamps[chosen], slots[chosen]
            rows = kernel.Rows(judged.codes[at], stepped, at, judged.slices[at])
            for _ in kernel.judge(program, judged.letters, rows, memory, found_max=1 << 10):
                pass
            applied = self._numbers(may_apply(memory))
            last: dict[int, int] = dict(zip(stepped.tolist(), at.tolist(), strict=True))
            for slot, stamp in last.items():
                if numbers := left[slot] & applied[slot]:
                    yield stamp, numbers
                    left[slot] -= numbers

    def _numbers(self, applied: Mask) -> list[frozenset[int]]:
        """Return the numbers of the rules of each row of a mask by column."""
        slots, columns = np.nonzero(applied)
        numbers = cast("list[int]", self.compiled.program.order[columns].tolist())
        found: list[set[int]] = [set() for _ in range(len(applied))]
        for slot, number in zip(slots.tolist(), numbers, strict=True):
            found[slot].add(number)
        return [frozenset(each) for each in found]

    def _breaches(self, judged: Judged, places: _Places) -> Iterator[_Change]:
        """Yield the first violations of occurrences, and the rules that became unjudged, at new events."""
        violated, unmet = first_breaches(judged.found, judged.closed, judged.rated)
        dead = unjudged_findings(judged.found)
        unsettled = dead.take(dead.kinds == FOUND_UNSETTLED)
        dead = dead.take(dead.kinds != FOUND_UNSETTLED)
        violated, dead = (found.take(places.is_new[found.stamps]) for found in (violated, dead))
        for phase, (status, found, batches) in enumerate(
            (
                (SessionStatus.VIOLATED, violated, places.batch[violated.stamps].tolist()),
                (SessionStatus.VIOLATED, unmet, places.closing(unmet)),
                (SessionStatus.UNJUDGED, dead, places.batch[dead.stamps].tolist()),
                (SessionStatus.UNJUDGED, unsettled, places.closing(unsettled)),
            ),
            start=1,
        ):
            numbers: list[int] = self.compiled.program.order[found.columns].tolist()
            missing = _missing(judged, found) if found is dead else [None] * len(numbers)
            rows = zip(batches, numbers, _at(judged, found.stamps), missing, strict=True)
            for batch, number, at, lacks in rows:
                change = msgspec.structs.replace(self._status(status, number, at), missing=lacks)
                yield _Change(batch, min(phase, 3), change)

    def _status(self, status: SessionStatus, number: int, at: _At) -> StatusChange:
        session_id, occurrence, time, agent = at
        rule, digest = self.compiled.rules[number], self.compiled.digests[number]
        named = rule.pack, rule.id, digest, rule.severity.value
        return StatusChange(status, session_id, occurrence, *named, agent, time)


def _missing(judged: Judged, dead: Findings) -> list[str | None]:
    """Return the state of the missing content at findings of unjudged rules, None for other reasons."""
    rows = judged.labelled.select("seq", MISSING)[judged.order.rows[dead.stamps]].to_dicts()
    return [
        row[MISSING]["content"]
        if kind == FOUND_UNKNOWN and row["seq"] <= EVENTS_MAX and row[MISSING] is not None
        else None
        for kind, row in zip(dead.kinds.tolist(), rows, strict=True)
    ]


class _Places:
    """The batch of every judged event by its stamp; remembered rows count to their session's first batch."""

    def __init__(
        self,
        batches: Sequence[Sequence[Event]],
        before: Mapping[str, RejudgedState],
        judged: Judged,
        remembered: int,
    ) -> None:
        self._batches, self._judged = batches, judged
        numbers = [number for number, batch in enumerate(batches) for _ in batch]
        first: dict[str, int] = {}
        for number, batch in enumerate(batches):
            for event in batch:
                first.setdefault(event.session_id, number)
        old = [first[session_id] for session_id, state in before.items() for _ in state.rows.get("seq", ())]
        self.is_new: Mask = judged.order.rows >= remembered
        self.batch: I64 = np.array(old + numbers, dtype=np.int64)[judged.order.rows]

    @cached_property
    def _ends(self) -> dict[tuple[str, str], int]:
        """Return the batch in which each occurrence closes."""
        return {
            (event.session_id, rfc3339(event.occurrence)): number
            for number, batch in enumerate(self._batches)
            for event in batch
            if event.kind is Kind.END
        }

    @cached_property
    def _events(self) -> dict[tuple[str, str | None, int], int]:
        return {
            (event.session_id, event.event_id, event.seq): number
            for number, batch in enumerate(self._batches)
            for event in batch
            if event.kind is not Kind.END
        }

    def closing(self, found: Findings) -> list[int]:
        """Return the batch in which the occurrence of each closing finding closes."""
        return [self._ends[at[0], rfc3339(at[1])] for at in _at(self._judged, found.stamps)]

    def _batch_of(self, record: VerdictRecord) -> int:
        """Return the batch of a record: that of its event, and of a closing verdict that of the `end` row."""
        if record.verdict in _CLOSING or record.reason == REASONS[FOUND_UNSETTLED]:
            return self._ends[record.session_id, record.occurrence]
        return self._events[record.session_id, record.event_id, record.seq]

    def verdicts(self, changes: Iterable[_Change], found: Iterable[VerdictRecord]) -> list[BatchVerdicts]:
        """Return each batch's changes and records in the order of its sessions."""
        verdicts = [BatchVerdicts([], []) for _ in self._batches]
        ordered: list[list[_Change]] = [[] for _ in self._batches]
        for change in changes:
            ordered[change.batch].append(change)
        for record in found:
            verdicts[self._batch_of(record)].records.append(record)
        for batch, batch_verdicts, its_changes in zip(self._batches, verdicts, ordered, strict=True):
            rank = {event.session_id: place for place, event in enumerate(batch)}
            batch_verdicts.records.sort(key=lambda record: rank[record.session_id])
            its_changes.sort(key=lambda change: (change.phase, rank[change.status.session_id]))
            batch_verdicts.statuses.extend(change.status for change in its_changes)
        return verdicts


def _plain(values: pl.Series) -> pl.Series:
    """Return times as nanoseconds, kinds as words, all else as it is."""
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
