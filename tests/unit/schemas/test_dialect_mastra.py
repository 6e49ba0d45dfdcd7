"""Mastra's spans of model calls, as its exporter writes them."""

from __future__ import annotations

import json
from typing import Any

from tracline.schemas.event import Content
from tracline.schemas.span_content import SpanContent, SpanRole

from .dialect_spans import content_of, words

CALL = {"toolCallId": "c1", "toolName": "look", "args": {"id": 1}}
CALLED = [("assistant", None, [("c1", "look", '{"id":1}')], [])]
PROMPT = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi", "providerOptions": {}}]},
    ]
}


def mastra(kind: str, values: dict[str, Any], **more: Any) -> SpanContent:
    """Return the content of a span of a type; `said` are the attributes under the type."""
    attributes = {f"mastra.{kind}.{name}": json.dumps(value) for name, value in values.items()}
    return content_of({"mastra.span.type": kind, "gen_ai.operation.name": kind, **attributes, **more})


def test_a_generation_has_the_conversation() -> None:
    """It has the messages as the model got them, and the answer with all calls made for it."""
    content = mastra("model_generation", {"input": PROMPT, "output": {"text": "Hello", "toolCalls": [CALL]}})
    assert (content.role, words(content.input)) == (
        SpanRole.CHAT,
        [("instruction", "Be brief.", [], []), ("user", "Hi", [], [])],
    )
    assert words(content.output) == [("assistant", "Hello", CALLED[0][2], [])]


def test_a_step_has_the_models_output_of_one_call() -> None:
    """Its input is an outline, in which calls are text: it is not read."""
    outline = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "[tool: look]"}]
    model = {"mastra.metadata.modelMetadata": '{"modelId": "birch-2"}'}
    content = mastra("model_step", {"input": outline, "output": {"text": "", "toolCalls": [CALL]}}, **model)
    assert (content.role, content.model, content.input, words(content.output)) == (
        SpanRole.CHAT,
        "birch-2",
        None,
        CALLED,
    )
    spoken = mastra("model_step", {"output": {"text": "Hello", "toolCalls": []}})
    assert words(spoken.output) == [("assistant", "Hello", [], [])]


def test_an_inference_that_called_tools_has_lost_the_calls() -> None:
    """Its messages hold the text alone: they are no answer where the model called tools."""
    values = {
        "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "Well"}]}]'
    }
    model = {**values, "gen_ai.operation.name": "chat", "gen_ai.response.model": "birch-2"}
    called = mastra("model_inference", {}, **model, **{"gen_ai.response.finish_reasons": '["tool-calls"]'})
    assert (called.role, called.model, called.output) == (SpanRole.CHAT, "birch-2", None)
    assert called.content is Content.ABSENT
    stopped = mastra("model_inference", {}, **model, **{"gen_ai.response.finish_reasons": '["stop"]'})
    assert words(stopped.output) == [("assistant", "Well", [], [])]


def test_an_agents_run_has_request_and_answer() -> None:
    """The names of agents and sessions stand where the conventions and Mastra's metadata have them."""
    named = {"gen_ai.agent.name": "desk", "mastra.metadata.sessionId": "s1"}
    values = {"input": [{"role": "user", "content": "Hi"}], "output": {"text": "Hello", "files": []}}
    content = mastra("agent_run", values, **{**named, "gen_ai.operation.name": "invoke_agent"})
    assert (content.role, content.agent, content.session) == (SpanRole.AGENT, "desk", "s1")
    assert (words(content.input), words(content.output)) == (
        [("user", "Hi", [], [])],
        [("assistant", "Hello", [], [])],
    )
    assert not any(name.startswith("mastra.agent_run") for name in content.attributes)


def test_earlier_versions_write_messages_of_a_generation() -> None:
    """These are read as the conventions have them, and a chunk of a stream has no content."""
    messages = [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
    model = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages)}
    assert words(mastra("model_generation", {}, **model).input) == [("user", "Hi", [], [])]
    assert mastra("model_chunk", {"output": {"text": "He"}}).role is SpanRole.OTHER
