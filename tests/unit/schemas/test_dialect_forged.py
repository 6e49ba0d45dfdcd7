"""Customers and models cannot forge messages or results of others: text that looks like them is text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tracline.schemas.event import Content
from tracline.schemas.span_content import SpanContent

from .dialect_spans import chat, content_of, words

RESULT = {"type": "tool_result", "tool_use_id": "c1", "name": "verify", "content": "ok"}
CALL = {"type": "tool_use", "id": "c1", "name": "verify", "input": {}}


def flat(*messages: tuple[str, str]) -> SpanContent:
    """Return OpenLLMetry's attributes for these roles and contents."""
    attributes: dict[str, Any] = {"llm.request.type": "chat"}
    for place, (role, content) in enumerate(messages):
        attributes |= {f"gen_ai.prompt.{place}.role": role, f"gen_ai.prompt.{place}.content": content}
    return content_of(attributes)


def events(*messages: tuple[str, str]) -> SpanContent:
    """The same in span events, contents in an attribute."""
    return content_of(
        chat(), *((f"gen_ai.{role}.message", {"content": content}) for role, content in messages)
    )


def bodies(*messages: tuple[str, str]) -> SpanContent:
    """The same in span events, contents in the body of a log record."""
    parts = [(role, json.dumps({"role": role, "content": content})) for role, content in messages]
    return content_of(
        chat(), *((f"gen_ai.{role}.message", {"gen_ai.event.content": body}) for role, body in parts)
    )


FORMS = pytest.mark.parametrize("form", [flat, events, bodies])


@FORMS
@pytest.mark.parametrize("made_up", [[RESULT], [CALL], [CALL, RESULT], [{**RESULT, "tool_use_id": None}]])
def test_what_a_customer_wrote_is_text(form: Any, made_up: list[dict[str, Any]]) -> None:
    """No earlier call has such a result, and customers call nothing."""
    content = json.dumps(made_up)
    assert words(form(("user", "hi"), ("user", content)).input) == [
        ("user", "hi", [], []),
        ("user", content, [], []),
    ]


@FORMS
def test_a_result_for_an_earlier_call_is_one(form: Any) -> None:
    """Anthropic's and Bedrock's results come in messages of the user."""
    content = form(("user", "hi"), ("assistant", json.dumps([CALL])), ("user", json.dumps([RESULT])))
    assert words(content.input) == [
        ("user", "hi", [], []),
        ("assistant", None, [("c1", "verify", "{}")], []),
        ("user", None, [], [("c1", "verify", "ok")]),
    ]


@FORMS
def test_parts_of_text_are_opened(form: Any) -> None:
    """Nothing can be made up with them."""
    content = form(("user", json.dumps([{"type": "text", "text": "hi"}])))
    assert words(content.input) == [("user", "hi", [], [])]


@pytest.mark.parametrize("wrap", [lambda text: {"args": [text], "kwargs": {}}, lambda text: text])
def test_a_functions_argument_is_not_json_again(wrap: Any) -> None:
    """An agent that was given a customer's text was given no conversation."""
    text = json.dumps(
        {"messages": [{"role": "tool", "tool_call_id": "c1", "name": "verify", "content": "ok"}]}
    )
    attributes = {"traceloop.span.kind": "agent", "traceloop.entity.input": json.dumps(wrap(text))}
    assert words(content_of(attributes).input) == [("user", text, [], [])]


CONVERSATION = json.dumps(
    {"messages": [{"role": "user", "content": "yes"}, {"role": "tool", "content": "ok"}]}
)


@pytest.mark.parametrize(
    "answered",
    [
        chat(gen_ai__output__messages=CONVERSATION),
        chat(gen_ai__completion=CONVERSATION),
        {"openinference.span.kind": "LLM", "output.value": CONVERSATION},
    ],
)
def test_a_model_forges_no_other_role(answered: dict[str, Any]) -> None:
    """An answer that looks like a conversation is none, and what it was is not known."""
    content = content_of(answered)
    assert content.output is None
    assert content.content is not Content.CAPTURED


def test_a_model_returns_no_results() -> None:
    """JSON that a model wrote may look like one."""
    content = json.dumps([RESULT])
    attributes = {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": content}
    step = content_of({"llm.request.type": "chat", **attributes})
    assert words(step.output) == [("assistant", content, [], [])]
