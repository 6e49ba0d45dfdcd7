"""The occurrences, events and slices of batches that are judged from carried state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np

from ...schemas.time import rfc3339
from ..engine.kernel import Findings
from ..engine.records import RecordEvent
from ..labels.labelled_rows import LabelledRows
from ..model.arrays import I32, I64, Mask
from . import order_loop
from .carried import Carried
from .carried_slices import HISTORY, LATE, CarriedEvent
from .carry_layout import SliceSlots


class OccurrenceSlot(NamedTuple):
    """An occurrence: what is carried of it, its new events in judged order, and when it closes.

    `closes` is the batch in which it closes, None while it is open.
    """

    session_id: str
    occurrence: int
    carried: Carried | None
    begin: int
    end: int
    closes: int | None


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """The rows of new events in judged order, and the slot of each."""

    rows: I64
    slots: I32


def occurrence_slots(
    carried: Mapping[str, Carried], labelled: LabelledRows, batches: I64
) -> tuple[list[OccurrenceSlot], PlacedRows]:
    """Return the occurrences of the batches, session by session, in the order in which they begin.

    Return also the rows of their events.
    """
    (codes, names), none = labelled.sessions, order_loop.NONE_CARRIED
    before = [carried.get(name) for name in names]
    known = np.array([none if each is None else each.occurrence for each in before], dtype=np.int64)
    places = codes, labelled.occurrences, labelled.ends
    order = np.argsort(codes, kind="stable")
    if not order_loop.ascends(order, *places, labelled.seqs):
        order = _sorted_rows(labelled, codes)
    rows, found = order_loop.occurrences_of(order, *places, batches, known)
    slots: list[OccurrenceSlot] = []
    for session, occurrence, begin, end, closes in cast("list[list[int]]", found.tolist()):
        state = before[session]
        state = state if state is not None and state.occurrence == occurrence else None
        closing = None if closes < 0 else closes
        slots.append(OccurrenceSlot(names[session], occurrence, state, begin, end, closing))
    lengths = found[:, 3] - found[:, 2]
    return slots, PlacedRows(rows, np.repeat(np.arange(len(slots), dtype=np.int32), lengths))


def _sorted_rows(labelled: LabelledRows, codes: I64) -> I64:
    """Return the judged order of rows without repeats; of several for one place, the smallest event id."""
    columns = codes, labelled.occurrences, labelled.ends, labelled.seqs
    keys = list(zip(*(cast("list[int]", column.tolist()) for column in columns), strict=True))
    ids: list[str] = labelled.columns.column("event_id")
    first = {keys[row]: row for row in sorted(range(len(keys)), key=lambda row: (*keys[row], ids[row]))[::-1]}
    return np.array(sorted(first.values(), key=keys.__getitem__), dtype=np.int64)


class PlacedEvents:
    """The events of a batch by their places: those that were carried, slot by slot, then the new ones.

    `owned` has the events of carried slices, by slot. `carried_places` has the places of the carried events
    of each slot, which begin at `firsts`, and `own_places` those of the events of slices.
    """

    def __init__(
        self,
        slots: Sequence[OccurrenceSlot],
        owned: Sequence[Sequence[CarriedEvent]],
        labelled: LabelledRows,
        placed: PlacedRows,
    ) -> None:
        self._labelled, self._placed, self._slot_list = labelled, placed, slots
        carried = [[] if slot.carried is None else slot.carried.events for slot in slots]
        self._old, counts, carried_places, own_places = _placed(carried, owned)
        self.first_new = len(self._old)
        self.count = self.first_new + len(placed.rows)
        lengths = [0, *map(len, carried)]
        self.firsts: I64 = np.cumsum(lengths, dtype=np.int64)[:-1]
        self.places: I64 = np.array([*carried_places, *own_places], dtype=np.int64)
        old_slots = np.repeat(np.arange(len(slots), dtype=np.int32), counts)
        self.slots: I32 = np.append(old_slots, placed.slots)
        rated = np.array([not event.flags & HISTORY for event in self._old], dtype=np.bool_)
        self.rated: Mask = np.append(rated, ~labelled.history[placed.rows])
        self._made: dict[int, CarriedEvent] = {}
        self._rows: list[int] = placed.rows.tolist()
        names = ("event_id", "seq", "time", "occurrence", "late", "history", "agent")
        self._columns = [labelled.columns.column(name) for name in names]
        self.slices: SliceSlots | None = None

    def at(self, place: int) -> CarriedEvent:
        """Return the event at a place."""
        if place < self.first_new:
            return self._old[place]
        # The slices of several keys share one event.
        event = self._made.get(place)
        if event is None:
            row = self._rows[place - self.first_new]
            ids, seqs, times, begun, late, history, agents = self._columns
            flags = late[row] * LATE + history[row] * HISTORY
            event = CarriedEvent(ids[row], seqs[row], times[row] - begun[row], flags, agents[row])
            self._made[place] = event
        return event

    def agent_and_time(self, place: int) -> tuple[str | None, int]:
        """Return the agent and the time of the event at a place."""
        if place >= self.first_new:
            row = self._rows[place - self.first_new]
            return self._columns[6][row], self._columns[2][row]
        event = self._old[place]
        return event.agent, event.time + self._slot_list[int(self.slots[place])].occurrence

    def events(self, places: Sequence[int]) -> Iterable[RecordEvent]:
        """Return the events at these places."""
        for place in places:
            event, slot = self.at(place), self._slot_list[int(self.slots[place])]
            row = place - self.first_new
            missing = self._labelled.columns.missing(self._rows[row]) if row >= 0 else None
            yield RecordEvent(
                slot.session_id,
                rfc3339(slot.occurrence),
                rfc3339(slot.occurrence + event.time),
                event.seq,
                bool(event.flags & LATE),
                bool(event.flags & HISTORY),
                event.agent,
                event.event_id,
                missing,
            )

    def ids(self, places: Sequence[int]) -> Iterable[tuple[str, int]]:
        """Return the id and the `seq` of the events at these places."""
        return ((event.event_id, event.seq) for event in map(self.at, places))

    def slice_values(self, found: Findings) -> Sequence[str | None]:
        """Return the value of each finding's slice, None where it has none."""
        assert self.slices is not None
        values, members = self.slices.values, cast("list[int]", found.slices.tolist())
        return [None if member < 0 else values[member] for member in members]

    def carried(self, used: Mask) -> tuple[list[list[CarriedEvent]], I64]:
        """Return the used events of each slot, and of each place its number among them, from 1."""
        places = np.flatnonzero(used)
        places = places[np.argsort(self.slots[places], kind="stable")]
        bounds = np.searchsorted(self.slots[places], np.arange(len(self._slot_list) + 1))
        numbered = np.zeros(self.count, dtype=np.int64)
        numbered[places] = np.arange(1, len(places) + 1) - bounds[self.slots[places]]
        events = [self.at(place) for place in places.tolist()]
        cuts = bounds.tolist()
        return [events[begin:end] for begin, end in pairwise(cuts)], numbered


def _placed(
    carried: Sequence[Sequence[CarriedEvent]], owned: Sequence[Sequence[CarriedEvent]]
) -> tuple[list[CarriedEvent], list[int], list[int], list[int]]:
    """Return the carried events of all slots in judged order, each once, and the number of each slot's.

    Return also the places of the sessions' events, and those of the slices' events.
    """
    events: list[CarriedEvent] = []
    counts: list[int] = []
    carried_places: list[int] = []
    own_places: list[int] = []
    for of_session, of_slices in zip(carried, owned, strict=True):
        first = len(events)
        if of_slices:
            by_seq = {event.seq: event for event in (*of_session, *of_slices)}
            events += [by_seq[seq] for seq in sorted(by_seq)]
            places = {event.seq: place for place, event in enumerate(events[first:], first)}
            carried_places += [places[event.seq] for event in of_session]
            own_places += [places[event.seq] for event in of_slices]
        else:
            events += of_session
            carried_places += range(first, len(events))
        counts.append(len(events) - first)
    return events, counts, carried_places, own_places
