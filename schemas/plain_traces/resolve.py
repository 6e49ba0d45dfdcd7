"""The resolution of the plain traces of a step, in few compiled calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import TypeAlias, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..sessions.pending import EncodedRelease
from ..sessions.trace import EncodedChanges
from .columns import (
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
from .requests import PlainRecord, PlainRequests
from .resolve_loops import resolve
from .state_loops import DIGEST_SIZE
from .trace import PlainGroup, PlainTrace, TracePart, requests_of, runs_of
from .trace_loops import ABOVE_MAX, KEY_COLUMNS, LINK_COLUMNS, SESSIONS_MAX, SPANS_MAX, WITHIN_COLUMNS

ROOM = 1 << 19
"""Bytes that a call may write at first: so few that the allocator has them at hand."""
_Members: TypeAlias = Sequence[tuple[str, PlainGroup, Sequence[TracePart], int]]
"""Traces of one batch: the id, the group, all of its spans, and how many of them were known before."""


class ResolvedTrace(msgspec.Struct, frozen=True, gc=False):
    """A plain trace after a step, its changes, the characters freed, and its candidates if it is released."""

    trace: PlainTrace
    changes: EncodedChanges
    freed: int
    released: EncodedRelease | None


def resolved(
    groups: Mapping[str, PlainGroup], scope: Sequence[str], watermark: int, until: int
) -> dict[str, ResolvedTrace]:
    """Return the traces that wait, or are released whole; the ordinary path has to resolve the others.

    `until` is the record time up to which spans only wait for their end.
    """
    fresh: dict[int, list[tuple[str, PlainGroup, Sequence[TracePart], int]]] = {}
    batches: dict[int, PlainRequests] = {}
    again: dict[str, PlainGroup] = {}
    for trace_id, group in groups.items():
        batch = group.parts[0][0].batch if group.parts else None
        if group.before is None and batch is not None and _are_of(batch, group.parts):
            batches[id(batch)] = batch
            fresh.setdefault(id(batch), []).append((trace_id, group, group.parts, 0))
        else:
            again[trace_id] = group
    found: dict[str, ResolvedTrace] = {}
    for number, members in fresh.items():
        found.update(_resolved(batches[number], members, watermark, until))
    if again:
        found.update(_walked_again(again, scope, watermark, until))
    return found


def _are_of(batch: PlainRequests, parts: Sequence[TracePart]) -> bool:
    return all(request.batch is batch for request, _ in parts)


def _walked_again(
    groups: Mapping[str, PlainGroup], scope: Sequence[str], watermark: int, until: int
) -> Iterator[tuple[str, ResolvedTrace]]:
    """Yield the traces whose spans came in several steps: their records are walked together."""
    records = [*{id(record): record for group in groups.values() for record in group.records}.values()]
    requests = requests_of(records, scope)
    by_record = {id(request.record): request for request in requests}
    members: list[tuple[str, PlainGroup, Sequence[TracePart], int]] = []
    for trace_id, group in groups.items():
        of_trace = [by_record[id(record)] for record in group.records]
        parts = [(request, run) for request in of_trace for run in runs_of(request, trace_id)]
        members.append((trace_id, group, parts, 0 if group.before is None else group.before.waiting_count))
    return _resolved(requests[0].batch, members, watermark, until)


def _resolved(
    batch: PlainRequests, traces: _Members, watermark: int, until: int
) -> Iterator[tuple[str, ResolvedTrace]]:
    """Yield the traces of a batch that wait or are released."""
    rows = [[row for _, run in parts for row in range(run.first, run.stop)] for _, _, parts, _ in traces]
    members = np.array([*chain.from_iterable(rows)], np.int64)
    stops = [*accumulate(map(len, rows), initial=0)]
    known = [number for _, _, _, number in traces]
    groups = np.array([*zip(stops, stops[1:], known, strict=False)], np.int64).reshape(-1, GROUP_COLUMNS)
    resolver = _ResolveArrays(batch, members, groups)
    begin, room = 0, ROOM
    while begin < len(traces):
        stop, written, rows_of, places = resolver.resolve(begin, watermark, until, room)
        for (trace_id, group, _, _), row in zip(traces[begin:stop], rows_of, strict=True):
            if row[STATUS] != OPEN:
                yield trace_id, _trace(trace_id, group, batch.scope, row, written, places)
        if stop == begin:
            room *= 2
        begin = stop


class _ResolveArrays:
    """The arrays that the compiled loop needs."""

    def __init__(self, batch: PlainRequests, members: NDArray[np.int64], groups: NDArray[np.int64]) -> None:
        self._given = (*batch.shared, batch.readings, members, groups)
        self._results: NDArray[np.int64] = np.empty((len(groups), RESULT_COLUMNS), np.int64)
        self._candidates: NDArray[np.int64] = np.empty((len(members), CANDIDATE_COLUMNS), np.int64)
        self._room: tuple[NDArray[np.int64], ...] = (
            np.empty((SPANS_MAX, LINK_COLUMNS), np.int64),
            np.empty((SESSIONS_MAX + 1, KEY_COLUMNS), np.int64),
            np.empty((ABOVE_MAX + 1, WITHIN_COLUMNS), np.int64),
        )

    def resolve(
        self, begin: int, watermark: int, until: int, room: int
    ) -> tuple[int, bytes, list[list[int]], list[list[int]]]:
        """Resolve groups from one on, with so much room.

        Return the group behind them, what was written, their results, and the places of their candidates.
        """
        out: NDArray[np.uint8] = np.empty(room, np.uint8)
        stop, size, made = resolve(
            *self._given, begin, watermark, until, *self._room, out, self._candidates, self._results
        )
        results = cast("list[list[int]]", self._results[begin:stop].tolist())
        return stop, out[:size].tobytes(), results, cast("list[list[int]]", self._candidates[:made].tolist())


def compile_loops() -> None:
    """Compile the loops, or load them from the cache."""
    batch = PlainRequests([PlainRecord(b"", 0, 0, bytes(DIGEST_SIZE))])
    nothing: NDArray[np.int64] = np.empty(0, np.int64)
    _ResolveArrays(batch, nothing, nothing.reshape(-1, GROUP_COLUMNS)).resolve(0, 0, 0, 1)


def _trace(
    trace_id: str,
    group: PlainGroup,
    scope: tuple[str, ...],
    row: Sequence[int],
    written: bytes,
    places: Sequence[Sequence[int]],
) -> ResolvedTrace:
    """Return a trace of its result."""
    before, records = group.before, [request.record for request, _ in group.parts]
    touched = max([record.time for record in records], default=0)
    touched = touched if before is None else max(touched, before.touched)
    whole, done = written[row[WHOLE] : row[WHOLE_STOP]], written[row[CHANGES] : row[CHANGES_STOP]]
    changes = EncodedChanges(whole, done, row[FREED])
    if row[STATUS] == RELEASED:
        made = [
            (written[begin_of:behind_of], written[begin:behind])
            for begin, behind, begin_of, behind_of in places[row[CANDIDATES] : row[CANDIDATES_STOP]]
        ]
        return ResolvedTrace(PlainTrace(trace_id, touched, whole), changes, row[FREED], EncodedRelease(made))
    spans, chars = _waiting(group)
    oldest = min(record.time for record in group.records)
    waits = PlainTrace(trace_id, touched, b"", group.records, scope, spans, chars, row[DUE], oldest)
    return ResolvedTrace(waits, changes, 0, None)


def _waiting(group: PlainGroup) -> tuple[int, int]:
    """Return how many spans of a group wait, and their characters."""
    before = group.before
    spans, chars = (0, 0) if before is None else (before.waiting_count, before.chars)
    return (
        spans + sum(run.stop - run.first for _, run in group.parts),
        chars + sum(run.chars for _, run in group.parts),
    )
