"""Runs that came in several steps, put together for the compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..plain_readings import columns
from ..plain_readings.columns import (
    MISSING,
    PARENT,
    RECORD,
    RESOURCE,
    RESOURCE_STOP,
    SCOPE,
    SCOPE_STOP,
    SENDER,
)
from .requests import SenderFacts, WaitingRun, given_arrays

_TEXTS = range(columns.ERROR, columns.ARGUMENTS + 2, 2)
_OFFSETS = [columns.SPAN, columns.SPAN_STOP, *range(columns.TRACE, PARENT + 1), *_TEXTS]
"""The columns of a reading with offsets in its span; those of missing texts mean nothing."""


class WaitingRuns:
    """Runs of several batches, their records joined: their readings, and what else the loops are given."""

    def __init__(self, runs: Sequence[WaitingRun]) -> None:
        records = {id(run.record): run.record for run in runs}
        places = {number: place for place, number in enumerate(records)}
        bodies = [record.data for record in records.values()]
        begins = [*accumulate(map(len, bodies), initial=0)]
        senders: dict[SenderFacts, int] = {}
        rows: list[tuple[int, ...]] = []
        for run in runs:
            place = places[id(run.record)]
            begin, sender = begins[place], senders.setdefault(run.sender, len(senders))
            shifts = begin - run.begin, begin - run.resource_begin, begin - run.scope_begin
            rows.append((*shifts, place, sender))
        counts = [len(run.readings) for run in runs]
        moved = np.repeat(np.array(rows, np.int64), counts, axis=0)
        self.readings: NDArray[np.int64] = np.concatenate([run.readings for run in runs])
        is_root = self.readings[:, PARENT] == MISSING
        self.readings[:, _OFFSETS] += moved[:, :1]
        self.readings[is_root, PARENT] = MISSING
        self.readings[:, [RESOURCE, RESOURCE_STOP]] += moved[:, 1:2]
        self.readings[:, [SCOPE, SCOPE_STOP]] += moved[:, 2:3]
        self.readings[:, RECORD], self.readings[:, SENDER] = moved[:, 3], moved[:, 4]
        data = np.frombuffer(b"".join(bodies), np.uint8)
        self.given: tuple[Any, ...] = given_arrays(data, [*senders], [*records.values()])
