"""The Vercel AI SDK's telemetry: prompts, responses and tools of versions 4 to 6."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tracline.schemas.event import Content
from tracline.schemas.span_content import SpanRole, ToolCall, ToolResult

from .dialect_spans import content_of, words

INNER = {
    "ai.operationId": "ai.streamText.doStream",
    "ai.telemetry.functionId": "desk",
    "ai.model.id": "birch-2",
    "gen_ai.request.model": "birch-2",
}


def prompt(args: str, output: dict[str, Any]) -> str:
    """A conversation as the SDK writes it, with the names of a call's arguments and of a result."""
    return json.dumps(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning", "text": "hm"},
                    {"type": "tool-call", "toolCallId": "c1", "toolName": "look", args: {"id": 1}},
                ],
            },
            {
                "role": "tool",
                "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "look", **output}],
            },
        ]
    )


@pytest.mark.parametrize(
    ("args", "output", "result"),
    [
        ("args", {"result": {"found": True}}, '{"found":true}'),
        ("input", {"output": {"type": "json", "value": {"found": True}}}, '{"found":true}'),
        ("input", {"output": {"type": "text", "value": "found"}}, "found"),
        ("input", {"output": {"type": "content", "value": [{"type": "text", "text": "found"}]}}, "found"),
    ],
)
def test_messages_of_all_versions_are_read(args: str, output: dict[str, Any], result: str) -> None:
    """Since version 5 a call has an `input` and a result an `output` with a type."""
    content = content_of({**INNER, "ai.prompt.messages": prompt(args, output), "ai.response.text": "Yes."})
    assert (content.role, content.agent, content.model, content.content) == (
        SpanRole.CHAT,
        "desk",
        "birch-2",
        Content.CAPTURED,
    )
    assert words(content.input) == [
        ("instruction", "Be brief.", [], []),
        ("user", "Hi", [], []),
        ("assistant", None, [("c1", "look", '{"id":1}')], []),
        ("tool", None, [], [("c1", "look", result)]),
    ]
    assert words(content.output) == [("assistant", "Yes.", [], [])]


@pytest.mark.parametrize(
    "output",
    [
        {"output": {"type": "error-text", "value": "no"}},
        {"output": {"type": "execution-denied", "reason": "no"}},
    ],
)
def test_a_results_type_shows_that_it_failed(output: dict[str, Any]) -> None:
    """Errors and refusals are flagged, and their text is the result."""
    content = content_of({**INNER, "ai.prompt.messages": prompt("input", output)})
    assert content.input is not None
    assert content.input[3].results == (ToolResult("c1", "look", "no", "tool_error"),)


def test_a_tools_error_is_no_type_of_errors() -> None:
    """The text of an error is no error type."""
    part = {"type": "tool-error", "toolCallId": "c1", "toolName": "look", "error": "no such user: Ada"}
    content = content_of({**INNER, "ai.prompt.messages": json.dumps([{"role": "tool", "content": [part]}])})
    assert content.input is not None
    assert content.input[0].results == (ToolResult("c1", "look", "no such user: Ada", "tool_error"),)


@pytest.mark.parametrize("args", ['{"id": 1}', {"id": 1}])
def test_responses_are_text_and_calls(args: Any) -> None:
    """The arguments of a call are JSON text or a value."""
    calls = json.dumps([{"toolCallId": "c1", "toolName": "look", "input": args}])
    content = content_of({**INNER, "ai.response.text": "I look.", "ai.response.toolCalls": calls})
    text = args if isinstance(args, str) else '{"id":1}'
    assert words(content.output) == [("assistant", "I look.", [("c1", "look", text)], [])]


def test_an_object_is_the_models_answer() -> None:
    """The text of it, as it was written."""
    content = content_of({**INNER, "ai.operationId": "ai.generateObject", "ai.response.object": '{"a": 1}'})
    assert words(content.output) == [("assistant", '{"a": 1}', [], [])]


@pytest.mark.parametrize(
    "asked",
    [
        {"prompt": "Hi"},
        {"system": "Be brief.", "prompt": "Hi"},
        {"messages": [{"role": "user", "content": "Hi"}]},
        {"prompt": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
    ],
)
def test_an_outer_span_has_the_request(asked: dict[str, Any]) -> None:
    """`ai.prompt` holds a prompt or messages; it is a model's call as well as the inner one."""
    content = content_of({"ai.operationId": "ai.generateText", "ai.prompt": json.dumps(asked)})
    assert (content.role, words(content.input)) == (SpanRole.CHAT, [("user", "Hi", [], [])])


def test_without_recording_nothing_is_known() -> None:
    """Inputs and outputs are recorded, or not, each by itself."""
    content = content_of({**INNER, "ai.response.finishReason": "stop"})
    assert (content.role, content.input, content.output, content.content) == (
        SpanRole.CHAT,
        None,
        None,
        Content.ABSENT,
    )


def test_calls_that_were_cut_or_hidden_are_marked() -> None:
    """Half a list of calls is none."""
    content = content_of({**INNER, "ai.prompt.messages": "[]", "ai.response.toolCalls": '[{"toolCallId": "c'})
    assert (content.output, content.content) == (None, Content.TRUNCATED)
    content = content_of({**INNER, "ai.prompt.messages": "[]", "ai.response.toolCalls": "[REDACTED]"})
    assert (content.output, content.content) == (None, Content.REDACTED)


@pytest.mark.parametrize(
    ("result", "text"), [('"found"', "found"), ('{"output":1}', '{"output":1}'), ("[]", "[]")]
)
def test_a_tools_run_is_read(result: str, text: str) -> None:
    """Its result is JSON; a string loses its quotes."""
    attributes = {"ai.toolCall.name": "look", "ai.toolCall.id": "c1", "ai.toolCall.args": '{"id":1}'}
    content = content_of({"ai.operationId": "ai.toolCall", **attributes, "ai.toolCall.result": result})
    assert (content.role, content.call, content.result) == (
        SpanRole.TOOL,
        ToolCall("c1", "look", '{"id":1}'),
        ToolResult("c1", "look", text),
    )


@pytest.mark.parametrize("operation", ["ai.embed", "ai.embed.doEmbed", "ai.embedMany", "ai.rerank"])
def test_other_operations_have_no_conversation(operation: str) -> None:
    """Embedded texts are neither messages nor attributes."""
    content = content_of({"ai.operationId": operation, "ai.value": '"secret"', "ai.values": ['"secret"']})
    assert (content.role, content.attributes) == (SpanRole.OTHER, {"ai.operationId": operation})


def test_calls_that_are_no_list_are_not_passed_over() -> None:
    """One call without its list is a call; what is none was cut."""
    attributes = {"ai.operationId": "ai.generateText.doGenerate", "ai.response.text": "so"}
    content = content_of(
        {**attributes, "ai.response.toolCalls": '{"toolCallId": "c", "toolName": "pay", "args": "{}"}'}
    )
    assert words(content.output) == [("assistant", "so", [("c", "pay", "{}")], [])]
    odd = content_of({**attributes, "ai.response.toolCalls": "[7]"})
    assert odd.output is not None
    assert [message.content for message in odd.output] == [Content.TRUNCATED]
