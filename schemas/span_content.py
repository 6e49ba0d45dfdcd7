"""What one span says of an agent's session, in words that no dialect owns.

The dialects (`schemas/dialects/`) read spans into steps; session assembly makes events of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from .event import Content

INPUT, OUTPUT = "in", "out"
"""The halves of a conversation, or of a tool's run, that one span tells."""
RETOLD = "retold "
"""Begins a `SpanContent.response_id` that stands for one, of a call that one span begins and another ends."""


class SpanRole(StrEnum):
    """The part that a span plays in a session."""

    CHAT = "chat"
    """A model was called."""
    TOOL = "tool"
    """A tool was run."""
    AGENT = "agent"
    """An agent did what the spans below it tell; it may tell messages itself, as a model does."""
    OTHER = "other"
    """Anything else: it may still say whose session it is."""


class Role(StrEnum):
    """Who speaks in a message; instructions are no events."""

    INSTRUCTION = "instruction"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that was asked for; `args` is JSON text, None where they were not captured."""

    call_id: str | None
    tool: str | None
    args: str | None
    content: Content = Content.CAPTURED


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool returned, JSON text or plain; `error` is the error type where it failed."""

    call_id: str | None
    tool: str | None
    result: str | None
    error: str | None = None
    content: Content = Content.CAPTURED


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a model's input or output: its text (None where it has none), calls, and results."""

    role: Role
    text: str | None = None
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    content: Content = Content.CAPTURED


class SpanContent(msgspec.Struct, frozen=True, rename={"role": "part"}):
    """What a span says itself; what it inherits from others is not here.

    `session` is its own session key; `own_conversation` is whether that is the id of a conversation, which a
    sub-agent's run may have of its own. `response_id` names a model's answer: two spans with the same one
    tell of one call. `input` and `output` are None where messages were not captured (then
    `content` says why), and empty where there were none, as of a call that failed. `call`
    and `result` are those of a tool's run. `error` is the error type of a failed span. `ends` marks the end
    of the session. `nested` is whether it belongs to a sub-agent, where it says so. `attributes` are what
    else a rule may name. `lacks` are the halves whose content may stand in log records.
    """

    role: SpanRole
    session: str | None = None
    agent: str | None = None
    model: str | None = None
    service: str | None = None
    nested: bool | None = None
    input: tuple[Message, ...] | None = None
    output: tuple[Message, ...] | None = None
    content: Content = Content.ABSENT
    call: ToolCall | None = None
    result: ToolResult | None = None
    error: str | None = None
    ends: bool = False
    own_conversation: bool = False
    response_id: str | None = None
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    lacks: tuple[str, ...] = ()

    @property
    def chars(self) -> int:
        """Return how many characters the texts have that it tells, and its attributes."""
        told = sum(len(name) + len(value) for name, value in self.attributes.items())
        for message in (*(self.input or ()), *(self.output or ())):
            if message.text:
                told += len(message.text)
            if message.calls or message.results:
                told += sum(map(_length, (*message.calls, *message.results)))
        return told + _length(self.call) + _length(self.result)


def _length(asked: ToolCall | ToolResult | None) -> int:
    """Return how many characters the texts of a call or a result have."""
    if asked is None:
        return 0
    said = asked.args if isinstance(asked, ToolCall) else asked.result
    return sum(len(text) for text in (asked.call_id, asked.tool, said) if text)
