"""Judging that continues: the verdicts at new events of sessions, from what is carried of these sessions.

However the events of a session are cut into batches, all batches together have the records of
`engine.judge.judge` and `engine.records.records` over the whole session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

import msgspec
import numpy as np

from ...schemas.records.session_status import SessionStatus, StatusChange
from ...schemas.records.verdict_record import VerdictRecord
from ..engine import kernel, kernel_loop
from ..engine.closing import become_unjudged, close_sessions
from ..engine.kernel import Findings
from ..engine.kernel_loop import NO_SLICE
from ..engine.records import has_witnesses, marked, records_of
from ..engine.sessions import changes
from ..engine.status import first_breaches, unjudged_findings
from ..engine.witness import TrailRows, replay
from ..labels.labelled_rows import LabelledRows
from ..model.arrays import I32, I64
from .batch_slices import BatchSlices, ClassPlace
from .carried import Carried
from .carried_slices import CarriedSlices, SteppedSlice, slice_name
from .carry_layout import BatchMemory, CarriedStreams, CarryLayout, PackedRuns
from .placed_events import PlacedEvents, occurrence_slots
from .rule_changes import StatusBatches, StatusSteps, joined_steps

_BatchChange: TypeAlias = tuple[int, StatusChange]
"""The number of a batch, and a change in it."""
FOUND_AT_ONCE = 1 << 12
"""Findings of one call of the kernel's loops: a batch has few."""


class BatchOutcome(msgspec.Struct, frozen=True):
    """The verdict records of a batch, and the changes of rules' status in its sessions.

    A rule comes to apply to an occurrence, or may, at the last event that the batch has of it. The first
    breach of a rule in an occurrence is a violation, or an obligation left unmet; breaches at history events
    do not count.
    """

    records: list[VerdictRecord] = []
    applied: list[StatusChange] = []
    violated: list[StatusChange] = []
    unmet: list[StatusChange] = []
    unjudged: list[StatusChange] = []

    @property
    def changes(self) -> tuple[list[StatusChange], ...]:
        """Return the changes of status: rules that come to apply, violations, unmet obligations, unjudged."""
        return self.applied, self.violated, self.unmet, self.unjudged


@dataclass(frozen=True, slots=True)
class Continued:
    """The outcomes of batches, and what is carried of each of their sessions after the last batch.

    `carried` is None where no occurrence is open.
    """

    outcomes: list[BatchOutcome]
    carried: dict[str, Carried | None]


def continue_judging(
    layout: CarryLayout,
    carried: Mapping[str, Carried],
    labelled: LabelledRows,
    batches: I64,
    *,
    satisfied: bool,
    followed: FollowedRules | None = None,
) -> Continued:
    """Judge batches of new events of sessions, from what was carried of the sessions before.

    `labelled` has the events and `end` rows in any order, as `engine.judge.judge` takes them, and of each
    occurrence only events that follow those judged before. `batches` numbers each row's batch from 0;
    of each session, later events have no earlier batch. The outcomes are those of judging the batches one
    after another. With `satisfied`, satisfactions and held closings have records too; held closings at
    carried events only if `satisfied` was true before. The changes of `followed` rules state that they are.
    """
    expanded = frozenset[ClassPlace]()
    while True:
        continuation = _Continuation(layout, carried, labelled, batches, expanded)
        found, applied = continuation.judge(satisfied)
        closed, unsettled = continuation.close(satisfied)
        # Each slice of a class has a verdict of its own.
        reporting = continuation.classes_of(found, closed, unsettled)
        if not reporting:
            break
        expanded |= reporting
    closed = closed.take(closed.stamps >= 0)
    unsettled = continuation.become_unjudged(unsettled)
    outcomes = [BatchOutcome() for _ in range(int(batches.max(initial=-1)) + 1)]
    for batch, record in continuation.records(found, closed, unsettled):
        outcomes[batch].records.append(record)
    continuation.followed = followed
    for kind, of_kind in enumerate(continuation.changes(applied, found, closed, unsettled)):
        for batch, change in of_kind:
            outcomes[batch].changes[kind].append(change)
    return Continued(outcomes, continuation.carried(satisfied))


def _turns(slots: I32, batches: I64) -> Iterator[I64]:
    """Yield the places of the first batch of each slot, then those of the second one of each, and so on.

    Slots share no state, so each turn is one call of the kernel, after which the slots are as their batches
    leave them. The rows of a slot follow each other, in the order of their batches.
    """
    if not len(slots):
        return
    is_first = changes(slots.astype(np.int64))
    number = np.cumsum(changes(batches) | is_first)
    turns = number - np.maximum.accumulate(np.where(is_first, number, 0))
    for turn in range(int(turns.max(initial=-1)) + 1):
        yield np.flatnonzero(turns == turn)


class FollowedRules(NamedTuple):
    """The occurrences and the rules, by pack and id, whose risks a chain follows."""

    occurrences: Set[tuple[str, int]]
    rules: Set[tuple[str, str]]


class _Continuation:
    """Judging in progress. Events have places: the carried ones slot by slot, then the new ones in order."""

    followed: FollowedRules | None = None

    def __init__(
        self,
        layout: CarryLayout,
        carried: Mapping[str, Carried],
        labelled: LabelledRows,
        batches: I64,
        expanded: Set[ClassPlace],
    ) -> None:
        assert all(session.program == layout.program for session in carried.values())
        self._layout, self._compiled = layout, layout.compiled
        self._slots, placed = occurrence_slots(carried, labelled, batches)
        self._new_slots, self._batches = placed.slots, batches[placed.rows]
        self._letters = layout.letters.read(labelled.labels.words[placed.rows], labelled.seqs[placed.rows])
        of_rows = labelled.labels.slices
        self._batch_slices = BatchSlices(layout.compiled, self._slots, placed, of_rows, expanded)
        self._slices, self._row_slices = self._batch_slices.slice_slots(), self._batch_slices.rows
        self._events = PlacedEvents(self._slots, self._batch_slices.owned, labelled, placed)
        self._events.slices = self._slices
        streams = [b"" if slot.carried is None else slot.carried.runs for slot in self._slots]
        events, bounds = self._events, self._batch_slices.bounds
        self._memory = BatchMemory(
            layout, self._slices, CarriedStreams(streams, events.places, events.firsts, bounds)
        )

    def judge(self, satisfied: bool) -> tuple[Findings, StatusSteps]:
        """Step the kernel over the new events; return the findings, and the rules that come to apply."""
        memory, first, slots = self._memory.memory, self._events.first_new, self._new_slots
        before = kernel.may_apply(memory)
        self._statuses = StatusBatches(before, self._memory.breached, kernel.unjudged(memory))
        parts: list[Findings] = []
        applied: list[StatusSteps] = []
        last: I64 = np.zeros(len(self._slots), dtype=np.int64)
        program, table = self._compiled.program, self._letters.table
        for at in _turns(slots, self._batches):
            rows = kernel.Rows(self._letters.codes[at], slots[at], at + first, self._row_slices[at])
            parts += kernel.judge(program, table, rows, memory, found_max=FOUND_AT_ONCE)
            now, certain = kernel.may_apply(memory), kernel.applies(memory)
            # The places ascend, so the last one of a slot remains.
            last[slots[at]] = at
            of_slots, columns = np.nonzero(now & ~before)
            places, is_certain = last[of_slots], certain[of_slots, columns].astype(np.int64)
            applied.append(StatusSteps(self._batches[places], places + first, of_slots, columns, is_certain))
            before = now
        steps = joined_steps(applied)
        steps = steps.take(np.lexsort((program.order[steps.columns], steps.slots, steps.batches)))
        found = kernel.in_judged_order(kernel.join(parts))
        return found if satisfied else found.take(found.kinds != kernel_loop.FOUND_SATISFIED), steps

    def close(self, satisfied: bool) -> tuple[Findings, Findings]:
        """Return the closing verdicts of the occurrences that close, and the unsettled ones."""
        closing = np.array(
            [i for i, slot in enumerate(self._slots) if slot.closes is not None], dtype=np.int32
        )
        if not len(closing):
            return kernel.join([]), kernel.join([])
        return close_sessions(self._compiled.program, self._memory.memory, closing, held=satisfied)

    def become_unjudged(self, unsettled: Findings) -> Findings:
        """Return the rules that become unjudged when their occurrences close."""
        if not len(unsettled.stamps):
            return unsettled
        return become_unjudged(self._memory.memory, unsettled)

    def classes_of(self, *found: Findings) -> frozenset[ClassPlace]:
        """Return the classes of slices that have verdicts."""
        slots = kernel.join(found).slices
        slots = np.unique(slots[slots >= 0])
        slots = slots[self._slices.are_classes[slots]]
        owners, numbers = self._slices.owners[slots].tolist(), self._slices.classes[slots].tolist()
        return frozenset(zip(owners, numbers, strict=True))

    def records(
        self, found: Findings, closed: Findings, unsettled: Findings
    ) -> Iterator[tuple[int, VerdictRecord]]:
        """Step the trails over the new events, and yield each finding's batch and record."""
        both = kernel.join([found, marked(closed), unsettled])
        order = np.lexsort((both.stamps, both.slices, both.columns, both.slots))
        batches = [
            *self._batches_of(found),
            *self._closing_batches(closed),
            *self._closing_batches(unsettled),
        ]
        both = both.take(order)
        compiled, trails, events = self._compiled, self._compiled.trails, self._events
        letters = self._letters
        none = np.zeros(events.first_new, dtype=np.int32)
        no_slices = np.empty((events.first_new, compiled.program.keys), dtype=np.int32)
        rows = TrailRows(
            np.append(none, letters.codes),
            letters.trail_letters,
            letters.trail_words,
            np.concatenate([no_slices, self._row_slices]),
        )
        bounds = [(slot.begin, slot.end) for slot in self._slots]
        begins, ends = (np.array(bounds, dtype=np.int64).reshape(-1, 2) + events.first_new).T
        runs = self._memory.runs(begins.copy(), ends.copy(), both.take(has_witnesses(both)))
        explained = replay(trails, rows, runs, self._memory.trails)
        if not len(both.stamps):
            return
        records = list(records_of(compiled, both, explained, events))
        for i in self._in_order_of_values(both):
            yield batches[order[i]], records[i]

    def _in_order_of_values(self, found: Findings) -> list[int]:
        """Return the places of findings by slot, column, value and stamp, which no cut changes."""
        values, members = self._slices.values, cast("list[int]", found.slices.tolist())
        single = sorted(set(members) - {NO_SLICE}, key=values.__getitem__)
        ranks = {member: rank for rank, member in enumerate([NO_SLICE, *single])}
        rank = np.array([ranks[member] for member in members], dtype=np.int64)
        return np.lexsort((found.stamps, rank, found.columns, found.slots)).tolist()

    def _batches_of(self, found: Findings) -> list[int]:
        """Return the batch of each finding's event."""
        return self._batches[found.stamps - self._events.first_new].tolist()

    def _closing_batches(self, closed: Findings) -> list[int]:
        """Return the batch in which the occurrence of each closing verdict closes."""
        closes = (self._slots[slot].closes for slot in cast("list[int]", closed.slots.tolist()))
        return [batch for batch in closes if batch is not None]

    def changes(
        self, applied: StatusSteps, found: Findings, closed: Findings, unsettled: Findings
    ) -> list[list[_BatchChange]]:
        """Return the changes of each kind in `BatchOutcome.changes`; `applied` has the first kind."""
        breached = self._memory.breached
        violated, unmet = (
            first.take(~breached[first.slots, first.columns])
            for first in first_breaches(found, closed, self._events.rated)
        )
        for first in (violated, unmet):
            breached[first.slots, first.columns] = True
        dead = unjudged_findings(found)
        unjudged = (
            StatusSteps.of(dead, self._batches_of(dead)),
            StatusSteps.of(unsettled, self._closing_batches(unsettled)),
        )
        steps = (
            (SessionStatus.APPLIED, applied),
            (SessionStatus.VIOLATED, StatusSteps.of(violated, self._batches_of(violated))),
            (SessionStatus.VIOLATED, StatusSteps.of(unmet, self._closing_batches(unmet))),
            (SessionStatus.UNJUDGED, joined_steps(unjudged)),
        )
        for status, each in steps:
            if len(each.slots):
                self._statuses.note(status, each)
        return [self._changes(status, each) for status, each in steps]

    def _changes(self, status: SessionStatus, steps: StatusSteps) -> list[_BatchChange]:
        """Return the changes to a status, each with its batch."""
        if not len(steps.slots):
            return []
        named, slots = self._layout.named, self._slots
        occurrences, rules = self.followed or FollowedRules(frozenset(), frozenset())
        are_followed = [(slot.session_id, slot.occurrence) in occurrences for slot in slots]
        columns = [each[:2] in rules for each in named]
        rows = cast("list[list[int]]", np.stack(steps, axis=1).tolist())
        found: list[_BatchChange] = []
        for (batch, place, slot, column, is_certain), previous in zip(
            rows, self._statuses.before(status, steps), strict=True
        ):
            at, (agent, time) = slots[slot], self._events.agent_and_time(place)
            of_session, of_rule = (at.session_id, at.occurrence), named[column]
            is_followed = are_followed[slot] and columns[column]
            rest = agent, time, None, is_followed, previous, bool(is_certain)
            change = StatusChange(status, *of_session, *of_rule, *rest)
            found.append((batch, change))
        return found

    def carried(self, satisfied: bool) -> dict[str, Carried | None]:
        """Return what is carried of each session: its open occurrence, None where there is none."""
        found: dict[str, Carried | None] = {slot.session_id: None for slot in self._slots}
        slots = np.array([i for i, slot in enumerate(self._slots) if slot.closes is None], dtype=np.int32)
        used, needed = self._memory.settle(slots, held=satisfied, places=self._events.count)
        events, numbers = self._events.carried(used)
        members = np.flatnonzero(needed).astype(np.int32)
        packed = self._memory.packed(slots, members, numbers)
        sliced = self._carried_slices(members.tolist(), packed)
        for i, stream in zip(cast("list[int]", slots.tolist()), packed.sessions, strict=True):
            slot = self._slots[i]
            found[slot.session_id] = Carried(
                self._layout.program, slot.occurrence, events[i], [], stream, sliced=sliced[i]
            )
        return found

    def _carried_slices(self, members: list[int], packed: PackedRuns) -> list[CarriedSlices]:
        """Return the slices of each slot after the batch, given the runs of those that are needed."""
        runs: list[dict[int, bytes]] = [{} for _ in self._slots]
        stepped: list[list[SteppedSlice]] = [[] for _ in self._slots]
        owners: list[int] = self._slices.owners.tolist()
        keys: list[int] = self._slices.keys.tolist()
        classes: list[int] = self._slices.classes.tolist()
        at = self._events.at
        for member, stream, places in zip(members, packed.slices, packed.owned, strict=True):
            owner, key = owners[member], keys[member]
            if classes[member]:
                runs[owner][classes[member]] = stream
            else:
                name = slice_name(key, self._slices.values[member])
                owned = tuple([at(place) for place in places]) if places else ()
                number = self._batch_slices.numbers[member]
                stepped[owner].append(SteppedSlice(name, number, key, stream, owned))
        before = [CarriedSlices() if slot.carried is None else slot.carried.sliced for slot in self._slots]
        return [
            each.after(its_runs, its_stepped)
            for each, its_runs, its_stepped in zip(before, runs, stepped, strict=True)
        ]
