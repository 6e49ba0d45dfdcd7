"""The carried slices of a session: classes of slices with equal runs, and pages of slices.

A session has far more slices than a batch has events, and most of them differ only in their values and in the
events that their witnesses show. So slices of one `for_each` key with otherwise equal runs form a *class*: an
event without a value steps each class once, and a slice leaves its class when an event carries its value.
The latest slices are in `CarriedSlices.recent`, and all others in pages (`schemas.paged.page`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ...schemas.paged.page import StatePage, unmerged

LATE, HISTORY = 1, 2
"""Bits of `CarriedEvent.flags`."""
RECENT_MAX = 16
"""Slices beyond which the recent ones become a page."""
UNREFERENCED_MIN = 64
"""Entries of pages and of `CarriedSlices.merged` that no live slice needs, before all pages are merged."""


class CarriedEvent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An event that a coming record may name; `time` is in nanoseconds after the occurrence's beginning."""

    event_id: str
    seq: int
    time: int
    flags: int
    agent: str | None


class SliceClass(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Slices of a `for_each` key with equal runs, but for the events that are each slice's; their number.

    `carry_loop` documents the bytes of `runs`.
    """

    key: int
    runs: bytes
    members: int


class CarriedSlice(msgspec.Struct, frozen=True, gc=False):
    """A slice: the number of its class, and the events that its runs refer to in that order."""

    number: int
    events: tuple[CarriedEvent, ...] = ()


class SteppedSlice(msgspec.Struct, frozen=True, gc=False):
    """A slice after a batch with its value: its name, the number of its class before, its runs and events.

    `number` is None where the slice began in the batch.
    """

    name: str
    number: int | None
    key: int
    runs: bytes
    events: tuple[CarriedEvent, ...]


class _StoredPage(msgspec.Struct, array_like=True):
    """The stored form of a page: each slice has the number of its class, and then those of its events."""

    level: int
    events: list[CarriedEvent]
    slices: dict[str, list[int]]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_StoredPage)


class SlicePage(StatePage[Mapping[str, CarriedSlice]]):
    """A page of slices by name."""

    @classmethod
    def of(cls, level: int, slices: Mapping[str, CarriedSlice]) -> SlicePage:
        """Return a page with these slices."""
        page = cls(cls.encode(level, slices))
        page.hold(level, slices)
        return page

    @staticmethod
    def encode(level: int, content: Mapping[str, CarriedSlice]) -> bytes:
        """Return the bytes of a page, in which each event is stored once."""
        return _encoded(level, content)

    @staticmethod
    def decode(data: bytes) -> tuple[int, Mapping[str, CarriedSlice]]:
        """Return the level and the slices in a page's bytes."""
        stored = _DECODER.decode(data)
        return stored.level, {
            name: CarriedSlice(row[0], tuple([stored.events[place] for place in row[1:]]))
            for name, row in stored.slices.items()
        }

    @property
    def slices(self) -> Mapping[str, CarriedSlice]:
        """Return the slices by name."""
        return self.content


def _encoded(level: int, slices: Mapping[str, CarriedSlice]) -> bytes:
    """Return a page as bytes, in which each event is stored once."""
    places: dict[int, int] = {}
    events: list[CarriedEvent] = []
    rows = {name: [each.number] for name, each in slices.items()}
    for name, each in slices.items():
        if each.events:
            row = rows[name]
            for event in each.events:
                seq = event.seq
                if seq not in places:
                    places[seq] = len(events)
                    events.append(event)
                row.append(places[seq])
    return _ENCODER.encode(_StoredPage(level, events, rows))


NO_SLICES = SlicePage.of(0, {})


class CarriedSlices(msgspec.Struct, array_like=True, frozen=True):
    """The slices of a session; a batch returns new ones.

    `classes` have numbers. `merged` maps the numbers of former classes that pages still have to those of the
    classes that these became; a slice whose number is of no class is dropped. `pages` come from the oldest to
    the newest; of several entries of a slice the newest counts, and those in `recent` are newer than all
    pages. `next_number` is that of the next class.
    """

    classes: dict[int, SliceClass] = {}
    merged: dict[int, int] = {}
    recent: SlicePage = NO_SLICES
    pages: tuple[SlicePage, ...] = ()
    next_number: int = 1

    def check(self) -> None:
        """Decode all pages. Raises MsgspecError or IndexError where a page is damaged."""
        for page in (self.recent, *self.pages):
            assert page.slices is not None

    def find(self, name: str) -> CarriedSlice | None:
        """Return the slice of that name with the number of its class now."""
        found = self.recent.slices.get(name)
        for page in reversed(self.pages):
            if found is not None:
                break
            found = page.slices.get(name)
        return None if found is None else self._now(found)

    def _now(self, found: CarriedSlice) -> CarriedSlice | None:
        number = self.merged.get(found.number, found.number)
        return CarriedSlice(number, found.events) if number in self.classes else None

    def members(self, numbers: Iterable[int]) -> Iterator[tuple[str, CarriedSlice]]:
        """Yield the slices of these classes with their names."""
        chosen = set(numbers)
        for name, each in _newest((*self.pages, self.recent)).items() if chosen else ():
            found = self._now(each)
            if found is not None and found.number in chosen:
                yield name, found

    def _paged_members(self, stepped: Iterable[SteppedSlice]) -> dict[int, int]:
        """Return how many slices of each class only pages have, without those that are stepped."""
        before = self.recent.slices
        paged = {number: each.members for number, each in self.classes.items()}
        for each in before.values():
            paged[each.number] = paged.get(each.number, 0) - 1
        for each in stepped:
            if each.number is not None:
                paged[each.number] = paged.get(each.number, 0) - (each.name not in before)
        return paged

    def after(self, runs: Mapping[int, bytes], stepped: Sequence[SteppedSlice]) -> CarriedSlices:
        """Return the slices after a batch.

        `stepped` are the slices that an event carried the value of, and `runs` those of each class that has
        other slices and a rule that can be judged.
        """
        classes, merged = _merged_classes(self.classes, runs)
        before = self.recent.slices
        recent = _renumbered(before, merged)
        numbers = {(each.key, each.runs): number for number, each in classes.items()}
        members = {number: each.members for number, each in classes.items()}
        paged = self._paged_members(stepped) if merged else {}
        next_number = self.next_number
        for each in stepped:
            if each.number is not None:
                joined = merged.get(each.number, each.number)
                members[joined] = members.get(joined, 0) - 1
            number = numbers.setdefault((each.key, each.runs), next_number)
            if number == next_number:
                classes[number] = SliceClass(each.key, each.runs, 0)
                next_number += 1
            members[number] = members.get(number, 0) + 1
            recent[each.name] = CarriedSlice(number, each.events)
        classes = {
            number: each if each.members == count else SliceClass(each.key, each.runs, count)
            for number, each in classes.items()
            if (count := members[number])
        }
        if not classes.keys() >= {each.number for each in recent.values()}:
            recent = {name: each for name, each in recent.items() if each.number in classes}
        if self.merged or merged:
            merged = {old: merged.get(new, new) for old, new in self.merged.items()} | {
                old: new for old, new in merged.items() if paged.get(old)
            }
            merged = {old: new for old, new in merged.items() if new in classes}
        return _paged(classes, merged, recent, self.pages, next_number) if classes else CarriedSlices()


def _merged_classes(
    before: Mapping[int, SliceClass], runs: Mapping[int, bytes]
) -> tuple[dict[int, SliceClass], dict[int, int]]:
    """Return the classes with their runs now, and the numbers of those that are no longer classes.

    Classes whose runs are equal now become the one with most members.
    """
    classes: dict[int, SliceClass] = {}
    numbers: dict[tuple[int, bytes], int] = {}
    merged: dict[int, int] = {}
    ordered = before.items()
    if len(before) > 1:
        ordered = sorted(ordered, key=lambda pair: (-pair[1].members, pair[0]))
    for number, each in ordered:
        now = runs.get(number)
        if now is None:
            continue
        same = numbers.setdefault((each.key, now), number)
        if same == number:
            classes[number] = each if now == each.runs else SliceClass(each.key, now, each.members)
        else:
            merged[number] = same
            members = classes[same].members + each.members
            classes[same] = msgspec.structs.replace(classes[same], members=members)
    return classes, merged


def _renumbered(slices: Mapping[str, CarriedSlice], merged: Mapping[int, int]) -> dict[str, CarriedSlice]:
    """Return the slices with the numbers of the classes that theirs became."""
    if not merged:
        return dict(slices)
    return {
        name: CarriedSlice(merged.get(each.number, each.number), each.events) for name, each in slices.items()
    }


def _paged(
    classes: dict[int, SliceClass],
    merged: dict[int, int],
    recent: dict[str, CarriedSlice],
    pages: tuple[SlicePage, ...],
    next_number: int,
) -> CarriedSlices:
    """Return slices, with a new page of the recent ones if these are many."""
    if len(recent) <= RECENT_MAX:
        return CarriedSlices(classes, merged, SlicePage.of(0, recent), pages, next_number)
    count, level = unmerged(pages)
    chosen = pages[:count]
    live = sum(each.members for each in classes.values())
    stored = sum(len(page.slices) for page in pages)
    if stored + len(merged) > 2 * live + UNREFERENCED_MIN:
        chosen, level = (), level + 1
    newest = _newest(pages[len(chosen) :]) | recent
    renumbered = _renumbered(newest, merged)
    live_slices = {name: each for name, each in renumbered.items() if each.number in classes}
    pages = (*chosen, SlicePage.of(level, live_slices))
    named = {each.number for page in chosen for each in page.slices.values()} if merged else set[int]()
    merged = {old: new for old, new in merged.items() if old in named}
    return CarriedSlices(classes, merged, NO_SLICES, pages, next_number)


def _newest(pages: Iterable[SlicePage]) -> dict[str, CarriedSlice]:
    """Return the slices of pages, from the oldest page to the newest."""
    found: dict[str, CarriedSlice] = {}
    for page in pages:
        found.update(page.slices)
    return found


def slice_name(key: int, value: str) -> str:
    """Return the name of a slice."""
    return f"{key} {value}"


def slice_value(name: str) -> str:
    """Return the value of the slice with that name."""
    return name.partition(" ")[2]
