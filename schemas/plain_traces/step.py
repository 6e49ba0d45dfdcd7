"""A step over the traces of one source, in which plain ones are resolved without an object a span."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..sessions.pending import (
    EncodedRelease,
    Released,
    RememberedTrace,
    Traces,
    TracesStep,
    TraceWrites,
)
from ..sessions.trace import Changes, OpenTrace
from .requests import PlainRequest
from .resolve import ResolvedTrace, resolved
from .trace import PlainGroup, PlainTrace


class PlainTracesStep(TracesStep):
    """A step that also takes plain requests.

    A trace is plain while all of its spans came in plain requests and none of them was released before the
    others. Whatever else happens to it, the step opens it, and goes on with its spans.
    """

    def __init__(self, traces: Traces, hold: int, keep: int, scope: Sequence[str] = ()) -> None:
        super().__init__(traces, hold, keep)
        self._groups: dict[str, PlainGroup] = {}
        self._resting: dict[str, PlainGroup] = {}
        """The groups of this step whose spans go on waiting."""
        self._scope = tuple(scope)

    def writes(self) -> TraceWrites:
        """Return the changes so far; the step must not go on afterwards."""
        for trace_id in [*self._groups]:
            self._changing(trace_id)
        return super().writes()

    def add_plain(self, request: PlainRequest) -> None:
        """Let the spans of a request wait in their traces."""
        for run in request.runs:
            group = self._groups.get(run.trace_id) or self._new_group(run.trace_id)
            if group is None:
                for reading in request.readings(run):
                    self.add(reading)
                continue
            group.parts.append((request, run))
            self._chars += run.chars
            self._touched.pop(run.trace_id, None)
            self._touched[run.trace_id] = None

    def _new_group(self, trace_id: str) -> PlainGroup | None:
        """Return the group of a trace that comes first in this step; None where it cannot be plain."""
        if trace_id in self._opened:
            return None
        before = self._before.traces.get(trace_id)
        if before is None:
            self._count += 1
        elif not isinstance(before, PlainTrace) or not before.is_waiting:
            return None
        self._waiting.add(trace_id)
        self._changes[trace_id] = Changes()
        group = self._groups[trace_id] = PlainGroup(before)
        return group

    def _changing(self, trace_id: str) -> OpenTrace:
        """Return a trace to be changed; a plain one becomes one with spans."""
        group = self._groups.pop(trace_id, None)
        if group is None:
            return super()._changing(trace_id)
        opened = OpenTrace() if group.before is None else group.before.opened()
        self._opened[trace_id] = opened
        for request, run in group.parts:
            for reading in request.readings(run):
                opened.take(reading)
                self._note(trace_id, reading)
        return opened

    def _find(self, trace_id: str) -> RememberedTrace | None:
        """Return a trace as it is now, not to be changed."""
        return self._changing(trace_id) if trace_id in self._groups else super()._find(trace_id)

    def _release(self, watermark: int, until: int) -> Iterator[Released | EncodedRelease]:
        """Yield the spans that need not wait, those of plain traces as candidates."""
        plain = self._resolved(watermark, until)
        for trace_id in sorted(self._waiting):
            found = plain.get(trace_id)
            if found is not None:
                yield from self._settled(trace_id, found)
            elif trace_id in self._groups or not self._rests(trace_id, watermark, until):
                yield from self._release_trace(trace_id, watermark, until)

    def _resolved(self, watermark: int, until: int) -> dict[str, ResolvedTrace]:
        """Return the plain traces that came or are due, resolved."""
        groups = dict(self._groups)
        for trace_id in self._waiting:
            before = None if trace_id in groups else self._find(trace_id)
            if isinstance(before, PlainTrace) and before.is_due(watermark, until):
                groups[trace_id] = self._again(trace_id) or PlainGroup(before)
        return resolved(groups, self._scope, watermark, until) if groups else {}

    def _again(self, trace_id: str) -> PlainGroup | None:
        """Return the group of a trace that came in this step and rested, to be resolved again.

        It is due after all where too many characters wait.
        """
        group = self._resting.pop(trace_id, None)
        if group is not None:
            del self._opened[trace_id]
            self._changes[trace_id] = Changes()
            self._groups[trace_id] = group
        return group

    def _sizes(self, trace_id: str) -> Iterator[tuple[int, int]]:
        """Yield the record times of what waits of a trace, and how many characters of each time do."""
        found = self._find(trace_id)
        if not isinstance(found, PlainTrace):
            yield from super()._sizes(trace_id)
            return
        for run in found.runs:
            yield run.record.time, run.chars

    def _rests(self, trace_id: str, watermark: int, until: int) -> bool:
        """Return whether a plain trace has nothing to be released."""
        found = self._find(trace_id)
        return isinstance(found, PlainTrace) and not found.is_due(watermark, until)

    def _settled(self, trace_id: str, found: ResolvedTrace) -> Iterator[EncodedRelease]:
        """Take over a resolved trace, and yield its candidates."""
        group = self._groups.pop(trace_id, None)
        if found.released is None and group is None:
            return
        self._opened[trace_id] = found.trace
        self._changes[trace_id] = found.changes
        if found.released is not None:
            self._waiting.discard(trace_id)
            self._chars -= found.freed
            yield found.released
        elif group is not None:
            self._resting[trace_id] = group
