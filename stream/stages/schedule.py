"""A partition of events as the monitor has it in mind: how far it is, and which of its sessions are due."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..messages.monitor_state import PartitionState

PASSED_MAX = 10_000
"""Plans that others have replaced, beside as many as there are sessions."""


@dataclass(slots=True)
class Partition:
    """An events partition: its facts, and when each of its sessions has something to do next.

    `lost` are keys of pieces that no session's record counts.
    """

    facts: PartitionState = field(default_factory=PartitionState)
    lost: list[str] = field(default_factory=list[str])
    due: dict[str, int] = field(default_factory=dict[str, int])
    heap: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def plan(self, session_id: str, due: int | None) -> None:
        """Note when a session has something to do next."""
        if due is None:
            self.due.pop(session_id, None)
        elif self.due.get(session_id) != due:
            self.due[session_id] = due
            heapq.heappush(self.heap, (due, session_id))
        if len(self.heap) > 2 * len(self.due) + PASSED_MAX:
            # A session that goes on is due later each time; what was planned before would stay until then.
            self.heap = [(due, session_id) for session_id, due in self.due.items()]
            heapq.heapify(self.heap)

    def reached(self, watermark: int) -> Iterator[str]:
        """The sessions that have something to do at the watermark, but for those that are unfinished."""
        unfinished: list[tuple[int, str]] = []
        while self.heap and self.heap[0][0] <= watermark:
            due, session_id = heapq.heappop(self.heap)
            if session_id in self.facts.unfinished.values():
                unfinished.append((due, session_id))
            elif self.due.get(session_id) == due:
                yield session_id
        for one in unfinished:
            heapq.heappush(self.heap, one)
