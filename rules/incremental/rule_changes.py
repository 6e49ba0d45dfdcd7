"""Changes of rules' status in occurrences, batch by batch, each with the status that it changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...schemas.records.session_status import SessionStatus
from ..engine.kernel import Findings
from ..model.arrays import I64, Mask

_ORDER = (SessionStatus.APPLIED, SessionStatus.VIOLATED, SessionStatus.UNJUDGED)
"""The order of the changes of one rule in one batch; the last one that a rule had is its previous status."""

_BEFORE, _NEVER = -1, np.iinfo(np.int64).max


class StatusSteps(NamedTuple):
    """Changes of rules' status as columns: batches, the places of their events, slots and columns of rules.

    `certain` is 0 where a rule comes to apply in some of the runs that follow the unknown and not in all,
    else 1.
    """

    batches: I64
    places: I64
    slots: I64
    columns: I64
    certain: I64

    @classmethod
    def of(cls, found: Findings, batches: Sequence[int]) -> StatusSteps:
        """Return the steps of findings, given the batch of each."""
        slots, columns = found.slots.astype(np.int64), found.columns.astype(np.int64)
        certain = np.ones(len(batches), dtype=np.int64)
        return cls(np.array(batches, dtype=np.int64), found.stamps, slots, columns, certain)

    def take(self, which: I64) -> StatusSteps:
        """Return the steps at these places, in that order."""
        return StatusSteps(*(column[which] for column in self))


def joined_steps(parts: Sequence[StatusSteps]) -> StatusSteps:
    """Return the steps of all parts, concatenated."""
    nothing = StatusSteps(*[np.empty(0, dtype=np.int64)] * len(StatusSteps._fields))
    return StatusSteps(*map(np.concatenate, zip(nothing, *parts, strict=True)))


class StatusBatches:
    """The batch in which each rule (by column) first had each status in each slot."""

    def __init__(self, applied: Mask, violated: Mask, unjudged: Mask) -> None:
        """Begin with the masks of those that had the status before all batches."""
        masks = zip(_ORDER, (applied, violated, unjudged), strict=True)
        self._first: dict[SessionStatus, NDArray[np.int64]] = {
            status: np.where(mask, _BEFORE, _NEVER) for status, mask in masks
        }

    def note(self, status: SessionStatus, steps: StatusSteps) -> None:
        """Note the steps by which rules first have a status."""
        np.minimum.at(self._first[status], (steps.slots, steps.columns), steps.batches)

    def before(self, status: SessionStatus, steps: StatusSteps) -> list[SessionStatus | None]:
        """Return the last status in the order of statuses that each rule had before its step to a status."""
        found = np.full(len(steps.slots), len(_ORDER), dtype=np.int64)
        for place, each in enumerate(_ORDER):
            first = self._first[each][steps.slots, steps.columns]
            is_earlier = (first == steps.batches) & (place < _ORDER.index(status))
            found[(first < steps.batches) | is_earlier] = place
        names, places = (*_ORDER, None), found.tolist()
        return [names[place] for place in places]
