"""OpenLLMetry's conventions: flattened prompts, workflows' parts, functions' arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tracline.schemas.event import Content
from tracline.schemas.span_content import SpanRole, ToolCall, ToolResult

from .dialect_spans import content_of, words

CHAT: dict[str, Any] = {"llm.request.type": "chat", "gen_ai.system": "x", "gen_ai.request.model": "birch-2"}
PROMPT: dict[str, Any] = {
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "Be brief.",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": '[{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {}}]',
    "gen_ai.prompt.2.role": "assistant",
    "gen_ai.prompt.2.tool_calls.0.id": "c1",
    "gen_ai.prompt.2.tool_calls.0.name": "look",
    "gen_ai.prompt.2.tool_calls.0.arguments": '{"id": 1}',
    "gen_ai.prompt.3.role": "tool",
    "gen_ai.prompt.3.tool_call_id": "c1",
    "gen_ai.prompt.3.content": "[1, 2]",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "Two.",
    "gen_ai.completion.0.finish_reason": "stop",
}
INPUT_WORDS = [
    ("instruction", "Be brief.", [], []),
    ("user", "Hi", [], []),
    ("assistant", None, [("c1", "look", '{"id": 1}')], []),
    ("tool", None, [], [("c1", None, "[1, 2]")]),
]


@pytest.mark.parametrize("old", [False, True])
def test_flattened_prompts_and_completions_are_read(old: bool) -> None:
    """Parts that were written into the content as JSON are opened; other text stays as it is."""
    names = {"gen_ai.prompt": "llm.prompts", "gen_ai.completion": "llm.completions"} if old else {}
    attributes = dict(PROMPT)
    for new, before in names.items():
        attributes = {key.replace(new, before): value for key, value in attributes.items()}
    content = content_of({**CHAT, **attributes})
    assert (content.role, content.model, content.content) == (SpanRole.CHAT, "birch-2", Content.CAPTURED)
    assert words(content.input) == INPUT_WORDS
    assert words(content.output) == [("assistant", "Two.", [], [])]


def test_flattened_prompts_are_read_under_an_operations_name_too() -> None:
    """Newer versions name the operation and may still flatten the messages."""
    content = content_of({"gen_ai.operation.name": "chat", **PROMPT})
    assert words(content.input) == INPUT_WORDS


@pytest.mark.parametrize(
    ("request_type", "part"),
    [("completion", SpanRole.CHAT), ("rerank", SpanRole.OTHER), ("embedding", SpanRole.OTHER)],
)
def test_the_type_of_the_request_decides_the_role(request_type: str, part: SpanRole) -> None:
    """An embedded text is no conversation, though it stands in `gen_ai.prompt`, too."""
    attributes = {
        "llm.request.type": request_type,
        "gen_ai.prompt.0.content": "x",
        "gen_ai.request.model": "m",
    }
    assert content_of(attributes).role is part


@pytest.mark.parametrize("kind", ["workflow", "task", "unknown"])
def test_workflows_and_tasks_are_others(kind: str) -> None:
    """They are functions of the program."""
    content = content_of(
        {"traceloop.span.kind": kind, "traceloop.entity.input": '{"args": ["Hi"], "kwargs": {}}'}
    )
    assert (content.role, content.input, content.attributes) == (
        SpanRole.OTHER,
        None,
        {"traceloop.span.kind": kind},
    )


@pytest.mark.parametrize(
    ("given", "args"),
    [
        ('{"args": [], "kwargs": {"id": 1}}', '{"id":1}'),
        ('{"args": ["a"], "kwargs": {}}', '{"args": ["a"], "kwargs": {}}'),
        ('{"input_str": "x", "inputs": {"id": 1}, "kwargs": {}}', '{"id":1}'),
        ('{"input_str": "x", "kwargs": {}}', "x"),
        ('{"inputs": {"id": 1}}', '{"inputs": {"id": 1}}'),
        ("plain", "plain"),
    ],
)
def test_a_tools_arguments_are_taken_out_of_the_functions_call(given: str, args: str) -> None:
    """Arguments by name are the tool's; those by place stay as they were written."""
    attributes = {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "look",
        "traceloop.entity.input": given,
    }
    assert content_of(attributes).call == ToolCall(None, "look", args)


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        ('"found"', "found"),
        ('{"found": true}', '{"found": true}'),
        ('{"output": {"found": true}, "kwargs": {}}', '{"found":true}'),
        ('{"output": "mine"}', '{"output": "mine"}'),
        ("[1, 2]", "[1, 2]"),
        ('"cut', '"cut'),
    ],
)
def test_a_tools_result_is_read_as_its_message(returned: str, result: str) -> None:
    """A string loses its quotes, other JSON stays as it was written."""
    attributes = {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "look",
        "traceloop.entity.output": returned,
    }
    assert content_of(attributes).result == ToolResult(None, "look", result)


def test_a_langchain_tools_message_names_its_call() -> None:
    """LangChain writes its message with all that makes it again."""
    made = {
        "id": ["langchain", "schema", "messages", "ToolMessage"],
        "kwargs": {"content": "ok", "tool_call_id": "c1"},
    }
    attributes = {"traceloop.span.kind": "tool", "traceloop.entity.name": "look"}
    content = content_of(
        {**attributes, "traceloop.entity.output": json.dumps({"output": made, "kwargs": {}})}
    )
    assert (content.call, content.result) == (
        ToolCall("c1", "look", None, Content.ABSENT),
        ToolResult("c1", "look", "ok"),
    )


def test_agents_have_a_name_and_may_have_messages() -> None:
    """One text is a message; arguments of other kinds are not."""
    attributes = {"traceloop.span.kind": "agent", "traceloop.entity.name": "desk"}
    content = content_of(
        {
            **attributes,
            "traceloop.entity.input": '{"args": ["Hi"], "kwargs": {}}',
            "traceloop.entity.output": '"Hello"',
        }
    )
    assert (content.role, content.agent) == (SpanRole.AGENT, "desk")
    assert (words(content.input), words(content.output)) == (
        [("user", "Hi", [], [])],
        [("assistant", "Hello", [], [])],
    )
    graph = {"inputs": {"messages": [{"role": "user", "content": "Hi"}]}, "tags": []}
    content = content_of(
        {**attributes, "traceloop.entity.input": json.dumps(graph), "traceloop.entity.output": '{"n": 1}'}
    )
    assert (words(content.input), content.output) == ([("user", "Hi", [], [])], None)
