"""The followed rules with `for_each`, and their slices from the states before a batch to those after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ....rules.incremental.carried_slices import CarriedSlices, SteppedSlice
from ....rules.labels.labelled_rows import LabelledRows
from .batch_slots import BatchSlots
from .followed_session import FollowedSession
from .key_slices import KeySlices
from .slice_runs import StoredRuns, runs_by_value, slices_of


class RuleSlices(NamedTuple):
    """The slices of a rule's `for_each` in a batch, and the rule's place among the rules with it."""

    slices: KeySlices | None
    column: int


class SlicedRules:
    """The followed rules by `for_each`, whose numbers are in the order of rules.

    `keys` has for each followed rule the number of its `for_each` in the labeler, None without one.
    """

    def __init__(self, keys: Sequence[int | None]) -> None:
        self._keys = tuple(dict.fromkeys(key for key in keys if key is not None))
        self.places: tuple[tuple[int, ...], ...] = tuple(
            tuple(place for place, of_rule in enumerate(keys) if of_rule == key) for key in self._keys
        )
        """The places of the rules with each `for_each` among the followed ones."""
        self._columns = {
            place: (key, column)
            for key, places in enumerate(self.places)
            for column, place in enumerate(places)
        }

    def of_batch(self, labelled: LabelledRows, slots: BatchSlots) -> SlicedBatch:
        """Return the slices of a batch."""
        none = CarriedSlices()
        before = [none if state is None else slices_of(state, self.places) for state in slots.states]
        members = [
            KeySlices(number, slots, before, labelled.labels.slices[key])
            for number, key in enumerate(self._keys)
        ]
        return SlicedBatch(self, before, members)

    def column(self, place: int) -> tuple[int, int] | None:
        """Return the number of a rule's `for_each` and its place among the rules with it, None without."""
        return self._columns.get(place)

    def runs(self, state: FollowedSession) -> Mapping[int, list[tuple[str, StoredRuns]]]:
        """Return by number of a `for_each` the value and the runs of each slice of a state."""
        return runs_by_value(slices_of(state, self.places))


class SlicedBatch:
    """The slices of a batch; `before` are those of each slot, and `members` has those of each `for_each`."""

    def __init__(
        self, rules: SlicedRules, before: Sequence[CarriedSlices], members: Sequence[KeySlices]
    ) -> None:
        self._rules, self._before, self._members = rules, before, members

    def of_rule(self, place: int) -> RuleSlices:
        """Return the slices of the rule at a place."""
        column = self._rules.column(place)
        return RuleSlices(None, 0) if column is None else RuleSlices(self._members[column[0]], column[1])

    def after(self, runs: Sequence[Sequence[StoredRuns]]) -> Iterator[CarriedSlices]:
        """Yield the slices of each slot after the batch; `runs` has those of the members by `for_each`."""
        classes: list[dict[int, bytes]] = [{} for _ in self._before]
        stepped: list[list[SteppedSlice]] = [[] for _ in self._before]
        for members, its_runs in zip(self._members, runs, strict=True):
            for slot, number, data in members.classes(its_runs):
                classes[slot][number] = data
            for slot, each in members.stepped(its_runs):
                stepped[slot].append(each)
        for before, its_classes, its_stepped in zip(self._before, classes, stepped, strict=True):
            yield before.after(its_classes, its_stepped) if before.classes or its_stepped else before
