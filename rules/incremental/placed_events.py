"""The occurrences, events and slices of batches that are judged from carried state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import Any, cast

import numpy as np
import polars as pl

from ...schemas.event import Kind
from ...schemas.time import rfc3339
from ..engine.kernel import Findings
from ..engine.records import RecordEvent
from ..engine.sessions import Order, changes, numbers
from ..labels.missing import MISSING
from ..model.arrays import I32, I64, Mask
from .carried import Carried
from .carried_slices import HISTORY, LATE, CarriedEvent
from .carry_layout import SliceSlots


@dataclass(frozen=True, slots=True)
class OccurrenceSlot:
    """An occurrence: what is carried of it, its new rows in judged order, and when it closes.

    `closes` is the batch in which it closes, None while it is open.
    """

    session_id: str
    occurrence: int
    carried: Carried | None
    begin: int
    end: int
    closes: int | None


def occurrence_slots(
    carried: Mapping[str, Carried], order: Order, labelled: pl.DataFrame, batches: I64
) -> list[OccurrenceSlot]:
    """Return the occurrences of the batches, session by session, in the order in which they begin."""
    occurrences = numbers(labelled["occurrence"])
    ids: list[str] = labelled["session_id"].to_list()
    rows = order.rows
    starts = np.flatnonzero(changes(order.sessions) | changes(occurrences[rows])) if len(rows) else rows
    bounds: list[int] = [*starts.tolist(), len(rows)]
    new: dict[tuple[str, int], tuple[int, int]] = {}
    of_session: dict[str, list[int]] = {}
    firsts: list[int] = rows[starts].tolist()
    begun: list[int] = occurrences[rows[starts]].tolist()
    for i, (row, occurrence) in enumerate(zip(firsts, begun, strict=True)):
        new[ids[row], occurrence] = bounds[i], bounds[i + 1]
        of_session.setdefault(ids[row], []).append(occurrence)
    ended: dict[tuple[str, int], int] = {}
    ends: list[int] = np.flatnonzero((labelled["kind"] == Kind.END.value).to_numpy()).tolist()
    for row in ends:
        ended.setdefault((ids[row], int(occurrences[row])), int(batches[row]))
    slots: list[OccurrenceSlot] = []
    for session_id in dict.fromkeys(ids):
        before, following = carried.get(session_id), of_session.get(session_id, [])
        if before is not None and before.occurrence not in following:
            following = [before.occurrence, *following]
        for occurrence, follower in zip_longest(following, following[1:]):
            known = before if before is not None and before.occurrence == occurrence else None
            place = session_id, occurrence
            closes = ended.get(place)
            if closes is None and follower is not None:
                closes = int(batches[rows[new[session_id, follower][0]]])
            slots.append(OccurrenceSlot(*place, known, *new.get(place, (0, 0)), closes))
    return slots


class PlacedEvents:
    """The events of a batch by their places: those that were carried, slot by slot, then the new ones.

    `owned` has the events of carried slices, by slot. `carried_places` has the places of the carried events
    of each slot, which begin at `firsts`, and `own_places` those of the events of slices.
    """

    def __init__(
        self,
        slots: Sequence[OccurrenceSlot],
        owned: Sequence[Sequence[CarriedEvent]],
        labelled: pl.DataFrame,
        order: Order,
    ) -> None:
        self._labelled, self._order, self._slot_list = labelled, order, slots
        carried = [[] if slot.carried is None else slot.carried.events for slot in slots]
        self._old, counts, carried_places, own_places = _placed(carried, owned)
        self.first_new = len(self._old)
        self.count = self.first_new + len(order.rows)
        lengths = [0, *map(len, carried)]
        self.firsts: I64 = np.cumsum(lengths, dtype=np.int64)[:-1]
        self.places: I64 = np.array([*carried_places, *own_places], dtype=np.int64)
        self.new_slots: I32 = new_slots(slots, len(order.rows))
        old_slots = np.repeat(np.arange(len(slots), dtype=np.int32), counts)
        self.slots: I32 = np.append(old_slots, self.new_slots)
        rated = np.array([not event.flags & HISTORY for event in self._old], dtype=np.bool_)
        self.rated: Mask = np.append(rated, ~labelled["history"].to_numpy()[order.rows])
        self._made: dict[int, CarriedEvent] = {}
        self.slices: SliceSlots | None = None

    @cached_property
    def _new(self) -> list[tuple[Any, ...]]:
        """Return the id, place, flags, agent, time and slot of each new event."""
        names = ("event_id", "seq", "late", "history", "agent")
        times = numbers(self._labelled["time"]).tolist()
        rows = list(zip(*(self._labelled[name].to_list() for name in names), times, strict=True))
        slots: list[int] = self.new_slots.tolist()
        order: list[int] = self._order.rows.tolist()
        return [(*rows[row], slot) for row, slot in zip(order, slots, strict=True)]

    def at(self, place: int) -> CarriedEvent:
        """Return the event at a place."""
        if place < self.first_new:
            return self._old[place]
        # The slices of several keys share one event.
        if place in self._made:
            return self._made[place]
        event_id, seq, late, history, agent, time, slot = self._new[place - self.first_new]
        begun = self._slot_list[int(slot)].occurrence
        flags = late * LATE + history * HISTORY
        event = self._made[place] = CarriedEvent(event_id, seq, time - begun, flags, agent)
        return event

    def events(self, places: Sequence[int]) -> Iterable[RecordEvent]:
        """Return the events at these places."""
        for place in places:
            event, slot = self.at(place), self._slot_list[int(self.slots[place])]
            row = place - self.first_new
            missing = self._labelled[MISSING][int(self._order.rows[row])] if row >= 0 else None
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


def new_slots(slots: Sequence[OccurrenceSlot], rows: int) -> I32:
    """Return the slot of each new row."""
    found: I32 = np.empty(rows, dtype=np.int32)
    for i, slot in enumerate(slots):
        found[slot.begin : slot.end] = i
    return found


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
