"""Ids of calls and results in a conversation's history that do not pair."""

from __future__ import annotations

import pytest
from tracline.schemas.claims.span_claims import claims_of, with_ids_of_results
from tracline.schemas.event import Kind
from tracline.schemas.span_content import Message, Role, SpanContent, SpanRole, ToolCall, ToolResult

USER = Message(Role.USER, "Hi")


def asked(*ids: str) -> Message:
    """A message that calls a tool for each id."""
    return Message(
        Role.ASSISTANT, calls=tuple(ToolCall(call_id, f"tool {call_id[-1]}", "{}") for call_id in ids)
    )


def answered(*ids: str, tool: str | None = None) -> Message:
    """A message with a result for each id."""
    return Message(
        Role.TOOL, results=tuple(ToolResult(call_id, tool, f"result {call_id[-1]}") for call_id in ids)
    )


def test_results_pair_in_order_with_as_many_calls_before_them() -> None:
    """The item's id gives way to the call's, however the messages are cut; the tool is then known."""
    messages = (
        USER,
        asked("fc_a"),
        answered("a"),
        asked("fc_b"),
        asked("fc_c"),
        answered("b"),
        answered("c"),
    )
    claims, _ = claims_of(SpanContent(SpanRole.CHAT, input=messages, output=()), 1, 2)
    of_tools = [(claim.kind, claim.call_id, claim.tool) for claim in claims if claim.kind is not Kind.USER]
    call, result = Kind.TOOL_CALL, Kind.TOOL_RESULT
    assert of_tools == [
        *((call, "a", "tool a"), (result, "a", "tool a")),
        *((call, "b", "tool b"), (call, "c", "tool c"), (result, "b", "tool b"), (result, "c", "tool c")),
    ]


@pytest.mark.parametrize(
    "messages",
    [
        (asked("fc_a", "fc_b"), answered("a")),
        (asked("fc_a"), answered("a", "b")),
        (asked("fc_a"), USER, answered("a")),
        (asked("fc_a"), answered("a", tool="other")),
        (asked("a", "fc_b"), answered("a", "b")),
    ],
)
def test_where_the_counts_or_names_differ_the_tool_is_unknown(messages: tuple[Message, ...]) -> None:
    """The call of a result is not known."""
    assert with_ids_of_results(messages) == messages


def test_ids_that_pair_stay() -> None:
    """Also in another order than that of the calls."""
    messages = (asked("a", "b"), answered("b", "a"))
    assert with_ids_of_results(messages) == messages
