"""The followed rules with `for_each`, and their slices from the states before a batch to those after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ....rules.incremental.carried_slices import CarriedSlices, SteppedSlice
from ....rules.labels.labelled_rows import LabelledRows
from ....rules.model.arrays import I32
from .batch_slots import BatchSlots
from .followed_session import FollowedSession
from .key_slices import KeySlices
from .slice_runs import StoredRuns, runs_by_value, slices_of


class SlicedRules:
    """The followed rules by `for_each`, whose numbers are in the order of rules.

    `keys` has for each followed rule the number of its `for_each` in the labeler, None without one.
    """

    def __init__(self, keys: Sequence[int | None]) -> None:
        self._labels = tuple(dict.fromkeys(key for key in keys if key is not None))
        numbers = {key: number for number, key in enumerate(self._labels)}
        self.keys: tuple[int | None, ...] = tuple(None if key is None else numbers[key] for key in keys)
        """The number of the `for_each` of each followed rule."""
        self.places: tuple[tuple[int, ...], ...] = tuple(
            tuple(place for place, of_rule in enumerate(keys) if of_rule == key) for key in self._labels
        )
        """The places of the rules with each `for_each` among the followed ones."""

    def of_batch(self, labelled: LabelledRows, slots: BatchSlots) -> SlicedBatch:
        """Return the slices of a batch."""
        none = CarriedSlices()
        before = [none if state is None else slices_of(state, self.places) for state in slots.states]
        members = [
            KeySlices(number, slots, before, labelled.labels.slices[key])
            for number, key in enumerate(self._labels)
        ]
        return SlicedBatch(self.places, before, members, slots)

    def column(self, place: int) -> tuple[int, int] | None:
        """Return the number of a rule's `for_each` and its place among the rules with it, None without."""
        key = self.keys[place]
        return None if key is None else (key, self.places[key].index(place))

    def runs(self, state: FollowedSession) -> Mapping[int, list[tuple[str, StoredRuns]]]:
        """Return by number of a `for_each` the value and the runs of each slice of a state."""
        return runs_by_value(slices_of(state, self.places))


class SlicedBatch:
    """The slices of a batch; `before` are those of each slot, and `members` has those of each `for_each`.

    `places` are the rules with each `for_each`, and `keys` has them beside the members. `event_slices` are
    the members of the rows of slots.
    """

    def __init__(
        self,
        places: Sequence[Sequence[int]],
        before: Sequence[CarriedSlices],
        members: Sequence[KeySlices],
        slots: BatchSlots,
    ) -> None:
        self._before, self._members = before, members
        self.keys = [(of_key, each.members) for of_key, each in zip(places, members, strict=True)]
        rows: I32 = np.empty((len(members), len(slots.rows)), dtype=np.int32)
        for key, each in enumerate(members):
            rows[key] = each.event_slices
        self.event_slices: I32 = rows

    def values(self, key: int, member: int) -> Iterator[str]:
        """Yield the values of the slices that a member of a `for_each` stands for."""
        return self._members[key].values(member)

    def after(self, runs: Sequence[Sequence[bytes]]) -> Iterator[CarriedSlices]:
        """Yield the slices of each slot after the batch; `runs` has those of the members by `for_each`."""
        classes: list[dict[int, bytes]] = [{} for _ in self._before]
        stepped: list[list[SteppedSlice]] = [[] for _ in self._before]
        for members, its_runs in zip(self._members, runs, strict=True):
            members.add_after(its_runs, classes, stepped)
        for before, its_classes, its_stepped in zip(self._before, classes, stepped, strict=True):
            yield before.after(its_classes, its_stepped) if before.classes or its_stepped else before
