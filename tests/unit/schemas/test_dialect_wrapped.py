"""Frameworks' wrappers of arguments and results of tools, opened where they are known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tracline.schemas.dialects.names import scopes
from tracline.schemas.event import Content
from tracline.schemas.span_content import SpanRole, ToolCall, ToolResult

from .dialect_spans import content_of

STRANDS = "strands.telemetry.tracer"
LLAMA_INDEX = "openinference.instrumentation.llama_index"
SMOLAGENTS = "openinference.instrumentation.smolagents"
LANGCHAIN = "openinference.instrumentation.langchain"
TOOL = {"openinference.span.kind": "TOOL", "tool.name": "look"}
GENAI_TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}


def arguments(attributes: dict[str, Any], scope: str) -> Any:
    """Return the arguments of the call on a tool's span."""
    call = content_of({**TOOL, **attributes}, scope=scope).call
    assert call is not None
    return None if call.args is None else json.loads(call.args)


# Results


@pytest.mark.parametrize(
    ("written", "result"),
    [
        ('[{"text": "Error: no such user"}]', "Error: no such user"),
        ('[{"text": "one"}, {"text": "two"}]', "one\ntwo"),
        ('[{"text": "{\\"id\\": 1}"}]', '{"id": 1}'),
        ('[{"json": {"id": 1}}]', '{"id":1}'),
        ('[{"image": {}}]', '[{"image": {}}]'),
        ("plain", "plain"),
    ],
)
def test_strands_writes_the_parts_that_the_model_gets(written: str, result: str) -> None:
    """They hold the tool's result; what is not text stays as it was written."""
    content = content_of({**GENAI_TOOL, "gen_ai.tool.call.result": written}, scope=STRANDS)
    assert content.result == ToolResult(None, "look", result)


def test_results_of_others_stay_as_they_were_written() -> None:
    """A tool may return what looks like parts; only its own quotes are taken off a text."""
    for written in ('[{"text": "user_1"}]', '{"result": "user_1"}'):
        content = content_of({**GENAI_TOOL, "gen_ai.tool.call.result": written})
        assert content.result == ToolResult(None, "look", written)
    quoted = content_of({**GENAI_TOOL, "gen_ai.tool.call.result": '"Error: no such user"'})
    assert quoted.result == ToolResult(None, "look", "Error: no such user")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"blocks": [{"text": "user_1"}], "raw_output": "user_1", "is_error": False}, None),
        ({"content": "user_1", "raw_output": {"id": 1}, "is_error": True}, "tool_error"),
    ],
)
def test_llama_indexs_tool_output_is_opened(body: dict[str, Any], error: str | None) -> None:
    """The text that the model gets is the result, and the flag is whether the tool failed."""
    attributes = {**TOOL, "output.value": json.dumps({**body, "tool_name": "look", "raw_input": {}})}
    assert content_of(attributes, scope=LLAMA_INDEX).result == ToolResult(None, "look", "user_1", error)


def test_googles_function_response_is_opened() -> None:
    """It names the call that it answers; a result of any other name is the tool's own."""
    response = {"id": "c1", "name": "look", "response": {"result": "user_1"}}
    content = content_of({**TOOL, "output.value": json.dumps(response)})
    assert content.result == ToolResult("c1", "look", '{"result":"user_1"}')
    renamed = json.dumps({**response, "name": "other"})
    assert content_of({**TOOL, "output.value": renamed}).result == ToolResult(None, "look", renamed)


# Arguments


@pytest.mark.parametrize(
    ("scope", "written"),
    [
        (SMOLAGENTS, {"args": [], "sanitize_inputs_outputs": True, "kwargs": {"id": 1}}),
        (SMOLAGENTS, {"args": [1], "sanitize_inputs_outputs": True, "kwargs": {}}),
        (LLAMA_INDEX, {"kwargs": {"id": 1}}),
        (LLAMA_INDEX, {"id": 1}),
    ],
)
def test_arguments_are_those_of_the_function_that_was_called(scope: str, written: dict[str, Any]) -> None:
    """Those given by place have the names of the tool's parameters."""
    schema = json.dumps({"id": {"type": "integer", "description": "which"}})
    assert arguments({"input.value": json.dumps(written), "tool.parameters": schema}, scope) == {"id": 1}


def test_arguments_without_names_stay_as_they_were_written() -> None:
    """Of other instrumentations, too: a tool may take what is called `kwargs`."""
    nameless = {"args": [1, 2], "kwargs": {}}
    assert arguments({"input.value": json.dumps(nameless)}, SMOLAGENTS) == nameless
    assert arguments({"input.value": '{"kwargs": {"id": 1}}'}, "") == {"kwargs": {"id": 1}}


def test_langchains_only_argument_has_lost_its_name() -> None:
    """The bare value is no arguments: they are absent. What is an object is all of them."""
    content = content_of({**TOOL, "input.value": "#W3003"}, scope=LANGCHAIN)
    assert content.call == ToolCall(None, "look", None, Content.ABSENT)
    assert arguments({"input.value": '{"id": 1, "now": true}'}, LANGCHAIN) == {"id": 1, "now": True}
    content = content_of({**TOOL, "input.value": "__REDACTED__"}, scope=LANGCHAIN)
    assert content.call == ToolCall(None, "look", None, Content.REDACTED)


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_node_of_a_graph_names_its_call(wrapped: bool) -> None:
    """LangGraph gives a node one call, from 1.0 on with its state; only LangChain's spans are asked."""
    call = {"name": "look", "args": {"id": 1}, "id": "c1", "type": "tool_call"}
    given = json.dumps({"tool_call": call, "state": {}} if wrapped else [call])
    attributes = {"openinference.span.kind": "CHAIN", "input.value": given}
    content = content_of(attributes, scope=LANGCHAIN)
    assert (content.role, content.call) == (SpanRole.OTHER, ToolCall("c1", "look", '{"id":1}'))
    assert content_of(attributes).call is None
    assert content_of({**attributes, "input.value": json.dumps([call, call])}, scope=LANGCHAIN).call is None


@pytest.mark.parametrize("method", ["__call__", "acall"])
def test_dspys_tools_have_the_names_of_their_spans(method: str) -> None:
    """Behind the tool's name stands the method; other instrumentations name spans as they like."""
    attributes = {
        "openinference.span.kind": "TOOL",
        "input.value": '{"kwargs": {"id": 1}}',
        "output.value": '"x"',
    }
    content = content_of(attributes, name=f"shop.look.{method}", scope=scopes.DSPY)
    assert (content.call, content.result) == (
        ToolCall(None, "shop.look", '{"id":1}'),
        ToolResult(None, "shop.look", "x"),
    )
    unnamed = content_of(attributes, name=f"look.{method}").call
    assert unnamed is not None
    assert unnamed.tool == f"look.{method}"
