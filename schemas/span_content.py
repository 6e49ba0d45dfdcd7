"""The content of one span for an agent's session, in one form for all dialects.

The dialects (`schemas/dialects/`) read the content of spans; session assembly makes events of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from .event import Content

INPUT, OUTPUT = "in", "out"
"""The halves of a conversation, or of a tool's run, in one span."""
RETOLD = "retold "
"""Prefix of a `SpanContent.response_id` that replaces a missing one where two spans describe one call."""


class SpanRole(StrEnum):
    """The role of a span in a session."""

    CHAT = "chat"
    """A call of a model."""
    TOOL = "tool"
    """A tool's run."""
    AGENT = "agent"
    """An agent's run; the span may have messages itself, as a model's has."""
    OTHER = "other"
    """Anything else; the span may still name its session."""


class Role(StrEnum):
    """The author of a message; instructions are no events."""

    INSTRUCTION = "instruction"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ToolCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A requested call of a tool; `args` is JSON text, None where the arguments were not captured."""

    call_id: str | None
    tool: str | None
    args: str | None
    content: Content = Content.CAPTURED


class ToolResult(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The result of a tool, JSON text or plain; `error` is the error type of a failed run."""

    call_id: str | None
    tool: str | None
    result: str | None
    error: str | None = None
    content: Content = Content.CAPTURED


class Message(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One message of a model's input or output: its text (None without one), calls and results."""

    role: Role
    text: str | None = None
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    content: Content = Content.CAPTURED


class SpanContent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename={"role": "part"}):
    """The content of one span, without anything inherited from other spans.

    `session` is the span's session key; `own_conversation` is whether the key is a conversation id, which a
    sub-agent's run may have separately. `response_id` identifies a model's answer: two spans with the same
    one describe one call. `input` and `output` are None where messages were not captured (then `content`
    gives the reason), and empty where there were none, as in a failed call. `call` and `result` are a tool
    run's. `error` is the error type of a failed span. `ends` marks the end of the session. `nested` is
    whether the span belongs to a sub-agent, None where it has no such attribute. `attributes` are further
    ones that rules may name. `lacks` are the halves for which log records may have the content.
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
    attributes: Mapping[str, str] = {}
    lacks: tuple[str, ...] = ()

    @property
    def chars(self) -> int:
        """Return the number of characters in its texts and attributes."""
        chars = sum(len(name) + len(value) for name, value in self.attributes.items())
        for message in (*(self.input or ()), *(self.output or ())):
            if message.text:
                chars += len(message.text)
            if message.calls or message.results:
                chars += sum(map(_length, (*message.calls, *message.results)))
        return chars + _length(self.call) + _length(self.result)


def _length(half: ToolCall | ToolResult | None) -> int:
    """Return the number of characters in the texts of a call or a result."""
    if half is None:
        return 0
    body = half.args if isinstance(half, ToolCall) else half.result
    return sum(len(text) for text in (half.call_id, half.tool, body) if text)
