"""Changes of rules' status in occurrences, batch by batch, each with the status that it changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...schemas.records.session_status import SessionStatus
from ..model.arrays import Mask

_ORDER = (SessionStatus.APPLIED, SessionStatus.VIOLATED, SessionStatus.UNJUDGED)
"""The order of the changes of one rule in one batch; the last one that a rule had is its previous status."""

_BEFORE, _NEVER = -1, np.iinfo(np.int64).max


class RuleChange(NamedTuple):
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


class RuleStep(NamedTuple):
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

    def note(self, status: SessionStatus, steps: Iterable[RuleStep]) -> None:
        """Note the steps by which rules first have a status."""
        first = self._first[status]
        for step in steps:
            first[step.slot, step.column] = min(step.batch, int(first[step.slot, step.column]))

    def before(self, status: SessionStatus, step: RuleStep) -> SessionStatus | None:
        """Return the last status in the order of statuses that the rule had before this step to a status."""
        found = None
        for each, first in self._first.items():
            batch = int(first[step.slot, step.column])
            is_earlier = batch == step.batch and _ORDER.index(each) < _ORDER.index(status)
            found = each if batch < step.batch or is_earlier else found
        return found
