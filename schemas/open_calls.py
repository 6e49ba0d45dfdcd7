"""The pairing of results with calls, where a log reuses call ids or has none."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class OpenCall:
    """A requested call of a tool, with the index of its message, and whether it was answered."""

    message: int
    call_id: str | None
    tool: str | None
    args: str | None
    nested: bool
    answered: bool = False


class OpenCalls:
    """The calls of one conversation that wait for their results.

    Recorded logs reuse call ids, so a result belongs to the nearest earlier unanswered call of its id. A
    result without an id belongs to the first unanswered call, of its tool where it names one, in the latest
    message that has such a call. Every operation takes constant time on average, whatever the log holds.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, list[OpenCall]] = {}
        self._by_tool: dict[str | None, list[deque[OpenCall]]] = {}
        self._added: list[OpenCall] = []
        """The last calls, which `_by_tool` lacks: most results have the id of their call."""

    def add(self, call: OpenCall) -> None:
        """Add a requested call, after all that were added before."""
        if call.call_id is not None:
            self._by_id.setdefault(call.call_id, []).append(call)
        self._added.append(call)

    def answer(self, call_id: str | None, tool: str | None, *, strict: bool) -> OpenCall | None:
        """Return the call that a result answers, and close it.

        With `strict` a result with an id answers a call with that id or none; otherwise an id that no open
        call has is ignored.
        """
        found = self._of_id(call_id) if call_id is not None else None
        if found is None and not (strict and call_id is not None):
            found = self._of_tool(tool)
        if found is not None:
            found.answered = True
            while self._added and self._added[-1].answered:
                self._added.pop()
        return found

    def _of_id(self, call_id: str) -> OpenCall | None:
        """Return the last open call with that id, and look at it no more: it is about to be answered."""
        waiting = self._by_id.get(call_id)
        found = None
        while waiting and (found is None or found.answered):
            found = waiting.pop()
        if waiting is not None and not waiting:
            del self._by_id[call_id]
        return None if found is None or found.answered else found

    def _of_tool(self, tool: str | None) -> OpenCall | None:
        self._group()
        groups = self._by_tool.get(tool, [])
        while groups:
            while groups[-1] and groups[-1][0].answered:
                groups[-1].popleft()
            if groups[-1]:
                return groups[-1][0]
            groups.pop()
        return None

    def _group(self) -> None:
        """Put the last calls that are open into `_by_tool`."""
        for call in self._added:
            for tool in () if call.answered else {call.tool, None}:
                groups = self._by_tool.setdefault(tool, [])
                if not groups or groups[-1][-1].message != call.message:
                    groups.append(deque())
                groups[-1].append(call)
        self._added = []
