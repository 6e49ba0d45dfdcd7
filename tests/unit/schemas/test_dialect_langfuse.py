"""Langfuse's SDKs and MLflow: the content of observations of models, tools and agents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tracline.schemas.event import Content
from tracline.schemas.span_content import SpanRole, ToolCall, ToolResult

from ...support.dialect_spans import content_of, words

TOOLS = [{"type": "function", "function": {"name": "look"}}]
REQUEST = json.dumps({"tools": TOOLS, "messages": [{"role": "user", "content": "Größe 42?"}]})
CALLS = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"id": 1}'}}]
ANSWER = json.dumps({"role": "assistant", "tool_calls": CALLS, "content": None})


def observed(kind: str, **more: Any) -> dict[str, Any]:
    """The attributes of one of Langfuse's observations."""
    named = {f"langfuse.observation.{name}": value for name, value in more.items()}
    return {"langfuse.observation.type": kind, **named}


def test_a_generation_of_langfuse_is_a_models_call() -> None:
    """Messages stand in a request beside its tools, and the answer as a message; the session is a key."""
    attributes = {**observed("generation", input=REQUEST, output=ANSWER), "session.id": "s1"}
    content = content_of({**attributes, "langfuse.observation.model.name": "birch-2"})
    assert (content.role, content.model, content.session) == (SpanRole.CHAT, "birch-2", "s1")
    assert words(content.input) == [("user", "Größe 42?", [], [])]
    assert words(content.output) == [("assistant", None, [("c1", "look", '{"id": 1}')], [])]


def test_a_streamed_answer_of_langfuse_is_its_text() -> None:
    """Plain text is a message."""
    content = content_of(observed("generation", input="Hi", output="Hello"))
    assert words(content.input) == [("user", "Hi", [], [])]
    assert words(content.output) == [("assistant", "Hello", [], [])]


@pytest.mark.parametrize("given", ['{"id": 1}', '{"args": [], "kwargs": {"id": 1}}'])
def test_a_tool_of_langfuse_has_its_spans_name(given: str) -> None:
    """Its arguments stand as they are, or as the call of the decorated function."""
    content = content_of(observed("tool", input=given, output="user_1"), name="look")
    assert content.call is not None
    assert (content.role, content.call.tool, json.loads(content.call.args or "")) == (
        SpanRole.TOOL,
        "look",
        {"id": 1},
    )
    assert content.result == ToolResult(None, "look", "user_1")


def test_a_tool_of_langchain_in_langfuse_names_its_call() -> None:
    """LangChain's message of a tool has the id of the call that it answers."""
    message = json.dumps({"type": "tool", "content": "user_1", "tool_call_id": "c1", "status": "success"})
    content = content_of(observed("TOOL", input='{"id": 1}', output=message), name="look")
    assert content.result == ToolResult("c1", "look", "user_1")
    assert content.call == ToolCall("c1", "look", '{"id": 1}')


def test_a_level_of_error_is_a_failure_with_any_message() -> None:
    """The message of a status is free text: no error type, and no attribute."""
    content = content_of(
        observed("tool", input="{}", level="ERROR", status_message="Anna's order"), name="look"
    )
    assert (content.error, "langfuse.observation.status_message" in content.attributes) == ("error", False)
    assert content_of(observed("tool", input="{}", level="WARNING"), name="look").error is None


def test_an_agent_of_langfuse_has_its_spans_name() -> None:
    """The state of a program is no message; other observations have no content."""
    content = content_of(observed("agent", input="Hi", output='{"state": 1}'), name="desk")
    assert (content.role, content.agent, words(content.input)) == (
        SpanRole.AGENT,
        "desk",
        [("user", "Hi", [], [])],
    )
    assert content.output is None
    for kind in ("span", "chain", "retriever", "event", "embedding", "guardrail", "evaluator"):
        assert content_of(observed(kind, input="Hi", output="Hello")).role is SpanRole.OTHER


def test_content_that_langfuse_was_not_given_is_absent() -> None:
    """Nothing is made of what is not there."""
    content = content_of(observed("generation"))
    assert (content.role, content.input, content.output, content.content) == (
        SpanRole.CHAT,
        None,
        None,
        Content.ABSENT,
    )
    assert content_of(observed("tool"), name="look").call == ToolCall(None, "look", None, Content.ABSENT)


def test_mlflows_spans_are_read() -> None:
    """Every value is JSON, text and the type too."""
    model = {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": REQUEST, "mlflow.spanOutputs": ANSWER}
    content = content_of({**model, "mlflow.trace.session": '"s1"'})
    assert (content.role, content.session) == (SpanRole.CHAT, "s1")
    assert words(content.output) == [("assistant", None, [("c1", "look", '{"id": 1}')], [])]
    tool = {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": '{"id": 1}', "mlflow.spanOutputs": '"user_1"'}
    content = content_of(tool, name="look")
    assert (content.call, content.result) == (
        ToolCall(None, "look", '{"id": 1}'),
        ToolResult(None, "look", "user_1"),
    )
    assert content_of({"mlflow.spanType": '"PARSER"', "mlflow.spanOutputs": '"x"'}).role is SpanRole.OTHER


def test_a_function_may_call_its_keywords_as_it_likes() -> None:
    """MLflow and Langfuse write the parameters of the traced function: `def run(**args)` has one."""
    tool = {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": '{"args": {"id": 1}}'}
    assert content_of(tool, name="look").call == ToolCall(None, "look", '{"id":1}')
    both = {**tool, "mlflow.spanInputs": '{"args": {"id": 1}, "id": 2}'}
    assert content_of(both, name="look").call == ToolCall(None, "look", '{"args": {"id": 1}, "id": 2}')
