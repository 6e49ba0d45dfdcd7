"""Changes of rules' status in occurrences, batch by batch, each with the status that it changes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...schemas.records.session_status import SessionStatus
from ..model.arrays import I64, Mask

_ORDER = (SessionStatus.APPLIED, SessionStatus.VIOLATED, SessionStatus.UNJUDGED)
"""The order of the changes of one rule in one batch; the last one that a rule had is its previous status."""

_BEFORE, _NEVER = -1, np.iinfo(np.int64).max


class RuleChange(msgspec.Struct, frozen=True, gc=False):
    """A change of a rule's status in an occurrence, with the time and the agent of the event of the change.

    `rule` is the rule's number and `previous` its status before the change: `unjudged` if it ever was,
    else `violated` or `applied`. `is_certain` is false where the rule comes to apply in some of the runs that
    follow the unknown and not in all.
    """

    session_id: str
    occurrence: int
    time: int
    agent: str | None
    rule: int
    previous: SessionStatus | None = None
    is_certain: bool = True


class RuleStep(msgspec.Struct, frozen=True, gc=False):
    """A change of a rule's status in a batch, as numbers: the place of its event, its slot and column."""

    batch: int
    place: int
    slot: int
    column: int
    is_certain: bool = True


class StatusBatches:
    """The batch in which each rule (by column) first had each status in each slot."""

    def __init__(self, applied: Mask, violated: Mask, unjudged: Mask) -> None:
        """Begin with the masks of those that had the status before all batches."""
        masks = zip(_ORDER, (applied, violated, unjudged), strict=True)
        self._first: dict[SessionStatus, NDArray[np.int64]] = {
            status: np.where(mask, _BEFORE, _NEVER) for status, mask in masks
        }

    def note(self, status: SessionStatus, steps: Sequence[RuleStep]) -> None:
        """Note the steps by which rules first have a status."""
        slots, columns, batches = _numbers(steps)
        np.minimum.at(self._first[status], (slots, columns), batches)

    def before(self, status: SessionStatus, steps: Sequence[RuleStep]) -> list[SessionStatus | None]:
        """Return the last status in the order of statuses that each rule had before its step to a status."""
        slots, columns, batches = _numbers(steps)
        found = np.full(len(steps), len(_ORDER), dtype=np.int64)
        for place, each in enumerate(_ORDER):
            first = self._first[each][slots, columns]
            is_earlier = (first == batches) & (place < _ORDER.index(status))
            found[(first < batches) | is_earlier] = place
        places: list[int] = found.tolist()
        return [None if place == len(_ORDER) else _ORDER[place] for place in places]


def _numbers(steps: Sequence[RuleStep]) -> tuple[I64, I64, I64]:
    """Return the slots, the columns and the batches of steps."""
    fields = [(step.slot, step.column, step.batch) for step in steps]
    slots, columns, batches = np.array(fields, dtype=np.int64).reshape(-1, 3).T
    return slots, columns, batches
