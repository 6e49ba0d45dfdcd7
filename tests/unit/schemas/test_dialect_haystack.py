"""Haystack's spans: the messages in them stand as Python shows its objects."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest
from tracline.schemas.dialects.names import scopes
from tracline.schemas.event import Content
from tracline.schemas.span_content import SpanContent, SpanRole

from .dialect_spans import content_of, words


class ChatRole(StrEnum):
    """As Haystack has it."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass
class TextContent:
    """As Haystack has it."""

    text: str


@dataclass
class ToolCall:
    """As Haystack has it."""

    tool_name: str
    arguments: dict[str, Any]
    id: str | None = None
    extra: dict[str, Any] | None = None


@dataclass
class ToolCallResult:
    """As Haystack has it."""

    result: Any
    origin: ToolCall
    error: bool


@dataclass
class ReasoningContent:
    """As Haystack has it."""

    reasoning_text: str


@dataclass
class ChatMessage:
    """As Haystack has it."""

    _role: ChatRole
    _content: list[Any]
    _name: str | None = None
    _meta: dict[str, Any] = field(default_factory=dict)


LOOK = ToolCall("look", {"id": 1, "when": None, "now": True}, "c1")
ODD = "It's \"<ChatRole.USER: 'user'>\", _name=None\n{[("
TALK = [
    ChatMessage(ChatRole.USER, [TextContent(ODD)]),
    ChatMessage(ChatRole.ASSISTANT, [ReasoningContent("hm"), LOOK], _meta={"model": object()}),
    ChatMessage(ChatRole.TOOL, [ToolCallResult("user_1", LOOK, error=False)]),
    ChatMessage(ChatRole.TOOL, [ToolCallResult([TextContent("no")], LOOK, error=True)]),
    ChatMessage(ChatRole.ASSISTANT, [TextContent("Hello")]),
]
ARGS = '{"id":1,"when":null,"now":true}'
SPOKEN = [
    ("assistant", None, [("c1", "look", ARGS)], []),
    ("tool", None, [], [("c1", "look", "user_1")]),
    ("tool", None, [], [("c1", "look", "no")]),
    ("assistant", "Hello", [], []),
]


def component(name: str, kind: str, given: Any, back: Any, scope: str = scopes.HAYSTACK) -> SpanContent:
    """Return the content of a component's span."""
    attributes = {"openinference.span.kind": kind, "input.mime_type": "application/json"}
    values = {"input.value": json.dumps(given), "output.value": json.dumps(back)}
    return content_of(
        {**attributes, **values, "output.mime_type": "application/json"}, name=name, scope=scope
    )


def shown(messages: list[ChatMessage]) -> list[str]:
    """Messages as the instrumentation writes them."""
    return [repr(message) for message in messages]


def test_an_agents_run_has_all_messages_in_it() -> None:
    """Its output holds the conversation before it, too: what is new stands behind the last user's message."""
    given = {"messages": shown(TALK[:1]), "streaming_callback": None}
    content = component("Agent.run", "CHAIN", given, {"messages": shown(TALK), "last_message": "x"})
    assert (content.role, words(content.input)) == (SpanRole.AGENT, [("user", ODD, [], [])])
    assert words(content.output) == SPOKEN
    assert [result.error for message in content.output or () for result in message.results] == [
        None,
        "tool_error",
    ]


def test_a_generator_has_calls_and_results() -> None:
    """OpenInference's flattened messages leave out what is no text."""
    content = component(
        "OpenAIChatGenerator.run", "LLM", {"messages": shown(TALK[:3])}, {"replies": shown(TALK[-1:])}
    )
    assert (content.role, words(content.input)) == (SpanRole.CHAT, [("user", ODD, [], []), *SPOKEN[:2]])
    assert words(content.output) == SPOKEN[-1:]


def test_other_spans_are_no_agents() -> None:
    """A pipeline's span holds the same, and other instrumentations name spans as they like."""
    given, back = {"messages": shown(TALK[:1])}, {"messages": shown(TALK)}
    for name, scope in (("Pipeline.run", scopes.HAYSTACK), ("Agent.run", "app")):
        assert component(name, "CHAIN", given, back, scope).role is SpanRole.OTHER


@pytest.mark.parametrize("cut", [20, 60, 90])
def test_messages_that_were_cut_are_none(cut: int) -> None:
    """The rest of one is not read as all of it."""
    broken = [repr(TALK[1])[:cut] if cut > 50 else "ChatMessage(" + "[" * 100_000]
    content = component("X.run", "LLM", {"messages": broken}, {"replies": shown(TALK[-1:])})
    assert (content.input, content.content) == (None, Content.TRUNCATED if cut > 50 else Content.ABSENT)
