"""Messages in the exact form of the conventions are read quickly, and as any other message is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from tracline.schemas import dialects
from tracline.schemas.dialects import read_content
from tracline.schemas.dialects.parts import messages
from tracline.schemas.otlp.protobuf import decode_protobuf
from tracline.schemas.span import Span, Value
from tracline.schemas.span_content import Role, SpanContent

from ..support.conversations.agent_spans import spans
from ..support.conversations.recordings import FOLDER, names, requests_of
from ..support.conversations.scripts import random_session
from ..support.conversations.span_plan import Dialect, Manner
from .test_dialects import SPANS

TEXTS: tuple[Value, ...] = (
    "",
    "a",
    "é",
    "\ud800",
    "[REDACTED]",
    "[1]",
    None,
    1,
    True,
    1.5,
    {},
    ["a"],
    {"a": [1]},
)
PARTS: list[Value] = [
    *({"type": "text", "content": text} for text in TEXTS),
    *({"type": "tool_call", "id": id_, "name": "f", "arguments": text} for id_ in ("c", 7) for text in TEXTS),
    *({"type": "tool_call", "id": name, "name": name, "arguments": "{}"} for name in TEXTS),
    *({"type": "tool_call_response", "id": id_, "response": text} for id_ in ("c", "") for text in TEXTS),
    *(
        {"type": "tool_call_response", "id": "c", key: "r"}
        for key in ("result", "output", "error", "isError")
    ),
    *({"type": kind, "content": "a"} for kind in ("reasoning", "Text", "", 1, "tool_call", "blob")),
    {"type": "text", "text": "a"},
    {"type": "text", "content": "a", "thought": True},
    {"type": "text", "content": "a", "message_content": {"type": "tool_call"}},
    {"type": "tool_call", "name": "f", "arguments": {}, "functionCall": {"name": "g"}},
    {"type": "tool_call_response", "id": "c", "response": {"type": "error-text", "value": "x"}},
    {"type": "tool_call_response", "response": "r", "name": "f"},
    "a",
    None,
]
NAMES: tuple[Value, ...] = (
    "user",
    "assistant",
    "system",
    "tool",
    "User",
    "MessageRole.USER",
    "stranger",
    "",
    None,
)
MORE: tuple[dict[str, Value], ...] = (
    *(
        {},
        {"finish_reason": "stop"},
        {"finish_reason": None},
        {"content": "b"},
        {"tool_calls": [{"name": "g"}]},
    ),
    *(
        {"type": "reasoning"},
        {"refusal": "no"},
        {"tool.name": "h"},
        {"message": {"role": "user", "content": "c"}},
    ),
)


def small() -> Iterator[dict[str, Value]]:
    """Yield messages with up to two parts, in all roles and with further fields."""
    for name, more, first in product(NAMES, MORE, PARTS):
        yield {"role": name, "parts": [first], **more}
    for name, first, second in product(NAMES[:4], PARTS, PARTS[::6]):
        yield {"role": name, "parts": [first, second]}
    for name, more in product(NAMES, MORE):
        yield from ({"role": name, "parts": parts, **more} for parts in ([], None, "a", {}))


def test_small_messages_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """All messages of up to two parts are read as without the quick way, which reads many of them."""
    values = [*small()]
    found = [messages._read(value, Role.USER) for value in values]  # pyright: ignore[reportPrivateUsage]
    quick = sum(messages._plain_message(value) is not None for value in values)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(messages, "_plain_message", lambda _value: None)  # pyright: ignore[reportUnknownLambdaType]
    assert found == [messages._read(value, Role.USER) for value in values]  # pyright: ignore[reportPrivateUsage]
    assert quick > len(values) / 20


def without_quick_ways(span: Span) -> SpanContent:
    """Return a span's content by all dialects, each message read by the ordinary way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "_plain_message", lambda _value: None)  # pyright: ignore[reportUnknownLambdaType]
        patch.setattr(messages, "CACHED_BYTES_MAX", -1)
        patch.setattr(dialects, "_GENAI", dialects._ALL)  # pyright: ignore[reportPrivateUsage]
        return read_content(span)


@pytest.mark.parametrize("name", names())
def test_recordings_are_read_alike(name: str) -> None:
    """Every span of a recording has the same content without the quick ways."""
    for data in requests_of(FOLDER / name / "otlp" / "requests.pb.zst"):
        for span in decode_protobuf(data).spans:
            assert read_content(span) == without_quick_ways(span)


@pytest.mark.parametrize(("dialect", "structured"), list(product(Dialect, (False, True))))
def test_generated_spans_are_read_alike(dialect: Dialect, structured: bool) -> None:
    """Spans of all dialects have the same content without the quick ways."""
    for seed in range(4):
        for span in spans(random_session(seed), Manner(dialect=dialect, structured=structured)):
            assert read_content(span) == without_quick_ways(span)


@given(SPANS)
@settings(max_examples=60, deadline=None)
def test_any_span_is_read_alike(span: Span) -> None:
    """Known names with any value have the same content without the quick ways."""
    assert read_content(span) == without_quick_ways(span)
