"""The resolution of the plain traces of a step, in few compiled calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..plain_readings.columns import (
    CANDIDATE_COLUMNS,
    CANDIDATES,
    CANDIDATES_STOP,
    CHANGES,
    CHANGES_STOP,
    DUE,
    FREED,
    GROUP_COLUMNS,
    OPEN,
    RELEASED,
    RESULT_COLUMNS,
    STATUS,
    WHOLE,
    WHOLE_STOP,
)
from ..sessions.pending import EncodedRelease
from ..sessions.trace import EncodedChanges
from .requests import PlainRecord, PlainRequests, WaitingRun
from .resolve_loops import resolve
from .state_loops import DIGEST_SIZE
from .trace import PlainGroup, PlainTrace
from .trace_loops import ABOVE_MAX, KEY_COLUMNS, LINK_COLUMNS, SESSIONS_MAX, SPANS_MAX, WITHIN_COLUMNS
from .waiting import WaitingRuns

ROOM = 1 << 19
"""Bytes that a call may write at first: so few that the allocator has them at hand."""


class _Trace(NamedTuple):
    """A trace to be resolved: its group, the number of its spans, and how many of them were known before."""

    trace_id: str
    group: PlainGroup
    size: int
    known: int


class ResolvedTrace(msgspec.Struct, frozen=True, gc=False):
    """A plain trace after a step, its changes, the characters freed, and its candidates if it is released."""

    trace: PlainTrace
    changes: EncodedChanges
    freed: int
    released: EncodedRelease | None


def resolved(
    groups: Mapping[str, PlainGroup], scope: tuple[str, ...], watermark: int, until: int
) -> dict[str, ResolvedTrace]:
    """Return the traces that wait, or are released whole; the ordinary path has to resolve the others.

    `until` is the record time up to which spans only wait for their end.
    """
    fresh: dict[int, dict[str, PlainGroup]] = {}
    carried: dict[str, PlainGroup] = {}
    for trace_id, group in groups.items():
        batch = group.parts[0][0].batch if group.parts else None
        if group.before is None and all(request.batch is batch for request, _ in group.parts):
            fresh.setdefault(id(batch), {})[trace_id] = group
        else:
            carried[trace_id] = group
    found: dict[str, ResolvedTrace] = {}
    for together in fresh.values():
        resolver, traces = _fresh(together)
        found.update(_resolved(resolver, traces, scope, watermark, until))
    if carried:
        resolver, traces = _carried(carried)
        found.update(_resolved(resolver, traces, scope, watermark, until))
    return found


def _fresh(groups: Mapping[str, PlainGroup]) -> tuple[_ResolveArrays, list[_Trace]]:
    """Return the traces whose spans all came in one batch."""
    rows: list[int] = []
    traces: list[_Trace] = []
    batch: PlainRequests | None = None
    for trace_id, group in groups.items():
        begin = len(rows)
        for request, run in group.parts:
            batch = request.batch
            rows += range(run.first, run.stop)
        traces.append(_Trace(trace_id, group, len(rows) - begin, 0))
    assert batch is not None, "a trace has spans"
    return _ResolveArrays(batch.given, batch.readings, np.array(rows, np.int64), traces), traces


def _carried(groups: Mapping[str, PlainGroup]) -> tuple[_ResolveArrays, list[_Trace]]:
    """Return the traces whose spans came in several steps, put together."""
    runs: list[WaitingRun] = []
    traces: list[_Trace] = []
    for trace_id, group in groups.items():
        of_trace = group.runs()
        runs += of_trace
        known = 0 if group.before is None else group.before.waiting_count
        traces.append(_Trace(trace_id, group, sum([len(run.readings) for run in of_trace]), known))
    batch = WaitingRuns(runs)
    members: NDArray[np.int64] = np.arange(len(batch.readings), dtype=np.int64)
    return _ResolveArrays(batch.given, batch.readings, members, traces), traces


def _resolved(
    arrays: _ResolveArrays, traces: Sequence[_Trace], scope: tuple[str, ...], watermark: int, until: int
) -> Iterator[tuple[str, ResolvedTrace]]:
    """Yield the traces that wait or are released."""
    begin, room = 0, ROOM
    while begin < len(traces):
        stop, written, rows, places = arrays.resolve(begin, watermark, until, room)
        for trace, row in zip(traces[begin:stop], rows, strict=True):
            if row[STATUS] != OPEN:
                yield trace.trace_id, _trace(trace, scope, row, written, places)
        if stop == begin:
            room *= 2
        begin = stop


class _ResolveArrays:
    """The arrays that the compiled loop needs."""

    def __init__(
        self,
        given: tuple[Any, ...],
        readings: NDArray[np.int64],
        members: NDArray[np.int64],
        traces: Sequence[_Trace],
    ) -> None:
        stops = [*accumulate([trace.size for trace in traces], initial=0)]
        known = [trace.known for trace in traces]
        rows = [*zip(stops, stops[1:], known, strict=False)]
        groups = np.array(rows, np.int64).reshape(-1, GROUP_COLUMNS)
        self._given = (*given, readings, members, groups)
        self._results: NDArray[np.int64] = np.empty((len(groups), RESULT_COLUMNS), np.int64)
        self._candidates: NDArray[np.int64] = np.empty((len(members), CANDIDATE_COLUMNS), np.int64)
        self._room: tuple[NDArray[np.int64], ...] = (
            np.empty((SPANS_MAX, LINK_COLUMNS), np.int64),
            np.empty((SESSIONS_MAX + 1, KEY_COLUMNS), np.int64),
            np.empty((ABOVE_MAX + 1, WITHIN_COLUMNS), np.int64),
        )

    def resolve(
        self, begin: int, watermark: int, until: int, room: int
    ) -> tuple[int, memoryview, list[list[int]], list[list[int]]]:
        """Resolve groups from one on, with so much room.

        Return the group behind them, what was written, their results, and the places of their candidates.
        """
        out: NDArray[np.uint8] = np.empty(room, np.uint8)
        stop, _, made = resolve(
            *self._given, begin, watermark, until, *self._room, out, self._candidates, self._results
        )
        results = cast("list[list[int]]", self._results[begin:stop].tolist())
        return stop, out.data, results, cast("list[list[int]]", self._candidates[:made].tolist())


def compile_loops() -> None:
    """Compile the loops, or load them from the cache."""
    batch = PlainRequests([PlainRecord(b"", 0, 0, bytes(DIGEST_SIZE))])
    nothing: NDArray[np.int64] = np.empty(0, np.int64)
    _ResolveArrays(batch.given, batch.readings, nothing, ()).resolve(0, 0, 0, 1)


def _trace(
    trace: _Trace,
    scope: tuple[str, ...],
    row: Sequence[int],
    written: memoryview,
    places: Sequence[Sequence[int]],
) -> ResolvedTrace:
    """Return a trace of its result."""
    trace_id, group, size, _ = trace
    touched, before = 0, group.before
    for request, _ in group.parts:
        touched = max(touched, request.record.time)
    if before is not None:
        touched = max(touched, before.touched)
    whole = bytes(written[row[WHOLE] : row[WHOLE_STOP]])
    done = bytes(written[row[CHANGES] : row[CHANGES_STOP]])
    changes = EncodedChanges(whole, done, row[FREED])
    if row[STATUS] == RELEASED:
        made = [
            (bytes(written[begin_of:behind_of]), bytes(written[begin:behind]))
            for begin, behind, begin_of, behind_of in places[row[CANDIDATES] : row[CANDIDATES_STOP]]
        ]
        return ResolvedTrace(PlainTrace(trace_id, touched, whole), changes, row[FREED], EncodedRelease(made))
    chars = sum([run.chars for _, run in group.parts], 0 if before is None else before.chars)
    runs = group.runs()
    oldest = min([run.record.time for run in runs])
    waits = PlainTrace(trace_id, touched, b"", runs, scope, size, chars, row[DUE], oldest)
    return ResolvedTrace(waits, changes, 0, None)
