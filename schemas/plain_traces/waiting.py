"""Runs that came in several steps, put together for the compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import columns
from .columns import MISSING, PARENT, RECORD, SENDER
from .requests import SenderNames, WaitingRun, given_arrays

_TEXTS = range(columns.ERROR, columns.ARGUMENTS + 2, 2)
_OFFSETS = [*range(columns.SPAN, PARENT + 1), *_TEXTS]
"""The columns of a reading with offsets; those of missing texts mean nothing."""


class WaitingRuns:
    """Runs of several batches, their records joined: their readings, and what else the loops are given."""

    def __init__(self, runs: Sequence[WaitingRun]) -> None:
        records = {id(run.record): run.record for run in runs}
        places = {number: place for place, number in enumerate(records)}
        bodies = [record.data for record in records.values()]
        begins = [*accumulate(map(len, bodies), initial=0)]
        senders: dict[SenderNames, int] = {}
        rows: list[tuple[int, int, int]] = []
        for run in runs:
            place = places[id(run.record)]
            rows.append((begins[place] - run.begin, place, senders.setdefault(run.sender, len(senders))))
        counts = [len(run.readings) for run in runs]
        moved = np.repeat(np.array(rows, np.int64), counts, axis=0)
        self.readings: NDArray[np.int64] = np.concatenate([run.readings for run in runs])
        is_root = self.readings[:, PARENT] == MISSING
        self.readings[:, _OFFSETS] += moved[:, :1]
        self.readings[is_root, PARENT] = MISSING
        self.readings[:, RECORD], self.readings[:, SENDER] = moved[:, 1], moved[:, 2]
        data = np.frombuffer(b"".join(bodies), np.uint8)
        self.given: tuple[Any, ...] = given_arrays(data, [*senders], [*records.values()])
