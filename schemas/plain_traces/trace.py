"""Plain traces between two steps, and the groups of their spans in a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from ..sessions.trace import OpenTrace
from ..time import NS_MAX
from ..walk.locate import ROWS
from .requests import SIZE_MAX, PlainRecord, PlainRequest, PlainRequests, PlainRun, WaitingRun

_DECODER = msgspec.msgpack.Decoder(OpenTrace)

TracePart: TypeAlias = tuple[PlainRequest, PlainRun]
"""Spans of a trace: a run of a request."""


class PlainTrace(msgspec.Struct, frozen=True, gc=False):
    """A trace without an object a span: one whose spans wait, in `runs`, or are all released, in `stored`.

    `stored` is the trace as it is stored; `scope` are the attributes that precede the ids of sessions.
    `waiting_count` spans with `chars` characters wait; none is released before the watermark is `due`, unless
    the hold is over for `oldest`, the least record time.
    """

    trace_id: str
    touched: int
    stored: bytes = b""
    runs: tuple[WaitingRun, ...] = ()
    scope: tuple[str, ...] = ()
    waiting_count: int = 0
    chars: int = 0
    due: int = NS_MAX
    oldest: int = NS_MAX

    @property
    def is_waiting(self) -> bool:
        """Return whether its spans wait."""
        return bool(self.runs)

    @property
    def records_count(self) -> int:
        """Return how many log records wait: none."""
        return 0

    def is_due(self, watermark: int, until: int) -> bool:
        """Return whether a span may be released."""
        return self.is_waiting and (self.due <= watermark or self.oldest <= until)

    def opened(self) -> OpenTrace:
        """Return the trace with its spans, as the ordinary path has it."""
        if not self.runs:
            return _DECODER.decode(self.stored)
        opened = OpenTrace()
        records = {id(run.record): run.record for run in self.runs}
        for request in _walked([*records.values()], self.scope, ROWS):
            for run in request.runs:
                if run.trace_id == self.trace_id:
                    for reading in request.readings(run):
                        opened.take(reading)
        return opened


def _walked(records: Sequence[PlainRecord], scope: Sequence[str], size: int) -> list[PlainRequest]:
    """Return the requests of records that were plain when they came, with room for so many spans of each."""
    batch = PlainRequests(records, scope, size)
    requests = [request for place in range(len(records)) if (request := batch.at(place)) is not None]
    if len(requests) == len(records):
        return requests
    assert size < SIZE_MAX, "a record of a plain trace is not plain any more"
    return _walked(records, scope, 8 * size)


@dataclass(slots=True)
class PlainGroup:
    """The spans of a plain trace in a step: what it was before, and what has come."""

    before: PlainTrace | None
    parts: list[TracePart] = field(default_factory=list[TracePart])

    def runs(self) -> tuple[WaitingRun, ...]:
        """Return all spans, without the others of their batches."""
        before = () if self.before is None else self.before.runs
        return (*before, *(request.waiting(run) for request, run in self.parts))
