"""Events back to the messages of an agent's model: the other way of `schemas/chat/decode.py`.

What the model does not see is left out: events of sub-agents, of the user's own tools, and of unknown kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..event import Event, Kind
from ..open_calls import OpenCall, OpenCalls

ChatMessage = dict[str, Any]
"""A message as OpenAI's chat completions have it."""


def chat_messages(events: Iterable[Event]) -> list[ChatMessage]:
    """Return the events of a session, in judged order, as messages that a model accepts.

    A call has the id of its event if no earlier call has it, else a new one. Calls that were not answered
    before the next message of the user or the assistant get an empty answer, and a result that answers no
    open call gets a call before it.
    """
    written = _Written()
    for event in events:
        if not event.nested:
            written.add(event)
    return written.messages


def open_calls(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return the calls at the end of a conversation that have no answer yet."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message["role"] != "tool":
            return [call for call in message.get("tool_calls", ()) if call["id"] not in answered]
        answered.add(message["tool_call_id"])
    return []


def answer_of(call: ChatMessage, content: str) -> ChatMessage:
    """Return the message that answers a call."""
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


@dataclass(slots=True)
class _Written:
    """The messages so far; `opened` are their calls by the ids that they have there."""

    messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    calls: OpenCalls = field(default_factory=OpenCalls)
    opened: dict[str, OpenCall] = field(default_factory=dict[str, OpenCall])

    def add(self, event: Event) -> None:
        """Add an event."""
        match event.kind:
            case Kind.USER | Kind.ASSISTANT:
                self._answer_open()
                self.messages.append({"role": event.kind.value, "content": event.text or ""})
            case Kind.TOOL_CALL:
                self._call(event)
            case Kind.TOOL_RESULT:
                self._result(event)
            case _:
                pass

    def _call(self, event: Event) -> ChatMessage:
        """Add a call to the assistant's last message, or to a new one where results have followed it."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            self._answer_open()
            self.messages.append({"role": "assistant", "content": None})
        function = {"name": event.tool or "unknown", "arguments": event.args or "{}"}
        call: ChatMessage = {"id": self._free_id(event.call_id), "type": "function", "function": function}
        self.messages[-1].setdefault("tool_calls", []).append(call)
        opened = OpenCall(len(self.messages), event.call_id, event.tool, event.args, nested=False)
        self.calls.add(opened)
        self.opened[call["id"]] = opened
        return call

    def _result(self, event: Event) -> None:
        found = self.calls.answer(event.call_id, event.tool, strict=event.call_id is not None)
        waiting = open_calls(self.messages)
        call = next((call for call in waiting if self.opened[call["id"]] is found), None)
        if call is None:
            call = self._call(event)
            self.opened[call["id"]].answered = True
        self.messages.append(answer_of(call, event.result or ""))

    def _answer_open(self) -> None:
        self.messages += [answer_of(call, "") for call in open_calls(self.messages)]

    def _free_id(self, wanted: str | None) -> str:
        number = len(self.opened) + 1
        while wanted is None or wanted in self.opened:
            wanted, number = f"call_{number}", number + 1
        return wanted
