"""Spans that lost attributes to an SDK's limits: a part of a conversation never counts as the whole."""

from __future__ import annotations

import json
import logging
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from tracline.schemas.dialects import read_content
from tracline.schemas.event import Content
from tracline.schemas.span import Span, SpanEvent
from tracline.schemas.span_content import Role, SpanContent, SpanRole

KIND = {"openinference.span.kind": "LLM"}
REQUEST = {"llm.request.type": "chat"}
LINES = [("system", "be kind"), ("user", "hi"), ("assistant", "hello"), ("user", "help")]


def flat(message: str) -> dict[str, Any]:
    """The lines as attributes, each role before its content, as instrumentations set them."""
    return {
        message.format(place) + field: value
        for place, line in enumerate(LINES)
        for field, value in zip(("role", "content"), line, strict=True)
    }


OPENINFERENCE = {
    **KIND,
    **flat("llm.input_messages.{}.message."),
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "gladly",
}
OPENLLMETRY = {
    **REQUEST,
    **flat("gen_ai.prompt.{}."),
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "gladly",
}
BOTH = pytest.mark.parametrize(
    "attributes", [OPENINFERENCE, OPENLLMETRY], ids=["OpenInference", "OpenLLMetry"]
)


def content_of(attributes: dict[str, Any], **more: Any) -> SpanContent:
    """Return the content of a span with these attributes."""
    return read_content(Span("1" * 32, "2" * 16, None, "a call", 1, 2, attributes, **more))


def answers(content: SpanContent) -> list[str | None]:
    """The texts of a step's output."""
    assert content.output is not None
    return [message.text for message in content.output]


@BOTH
def test_all_of_the_attributes_are_all_of_the_messages(attributes: dict[str, Any]) -> None:
    """Nothing was cut: the input is there."""
    content = content_of(attributes)
    assert content.input is not None
    assert [(message.role, message.text) for message in content.input][1:] == [
        (Role(role), text) for role, text in LINES[1:]
    ]
    assert answers(content) == ["gladly"]
    assert content.content is Content.CAPTURED


@BOTH
@pytest.mark.parametrize("stored", range(3, 10))
def test_what_pythons_sdk_forgets_is_not_taken_for_nothing(
    attributes: dict[str, Any], stored: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The SDK keeps the last attributes of a span, and counts the others: nothing is taken for the whole."""
    caplog.set_level(logging.ERROR, logger="opentelemetry.attributes")
    tracer = TracerProvider(span_limits=SpanLimits(max_span_attributes=stored)).get_tracer("cut")
    span: Any = tracer.start_span("a call")
    for name, value in attributes.items():
        span.set_attribute(name, value)
    left = dict(span.attributes)
    assert len(left) == stored < len(attributes)
    content = content_of(left, dropped_attributes=span.dropped_attributes)
    assert (content.role, content.input) == (SpanRole.CHAT, None)
    assert content.content in (Content.TRUNCATED, Content.ABSENT)


def test_a_dump_that_counts_nothing_is_cut_where_it_has_as_many_attributes_as_the_limit() -> None:
    """Python's SDK keeps 128 attributes and forgets the first; its dumps have no count of the dropped."""
    attributes = {f"llm.input_messages.{place}.message.content": "x" for place in range(1, 127)}
    full = {"openinference.span.kind": "LLM", **attributes, "llm.output_messages.0.message.content": "gladly"}
    content = content_of(full)
    assert (content.input, content.content, answers(content)) == (None, Content.TRUNCATED, ["gladly"])
    roles = {f"llm.input_messages.{place}.message.role": "user" for place in range(1, 3)}
    assert content_of({"openinference.span.kind": "LLM", **roles}).input is not None


@BOTH
def test_a_span_that_lost_all_its_input_had_one(attributes: dict[str, Any]) -> None:
    """Only the answer is left of it, and not even the kind of the span."""
    content = content_of(dict(list(attributes.items())[-2:]))
    assert content.role is SpanRole.CHAT
    assert (content.input, content.content) == (None, Content.ABSENT)
    assert answers(content) == ["gladly"]


@BOTH
@pytest.mark.parametrize("stored", [*range(1, 10), None])
def test_a_span_that_lost_attributes_has_no_whole_list(
    attributes: dict[str, Any], stored: int | None
) -> None:
    """Most SDKs forget what was set last, which leaves no hole; only the span's count shows it."""
    left = dict(list(attributes.items())[:stored])
    content = content_of(left, dropped_attributes=1)
    assert (content.role, content.input, content.output) == (SpanRole.CHAT, None, None)
    assert content.content in (Content.TRUNCATED, Content.ABSENT)


MESSAGES = json.dumps([{"role": "user", "content": "hi"}])
ANSWER = json.dumps([{"role": "assistant", "content": "hello"}])
GENAI = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": MESSAGES}
VERCEL = {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": MESSAGES}


def test_a_list_in_one_attribute_is_whole_though_others_were_dropped() -> None:
    """Messages as JSON are there or not: those that are not were not captured."""
    for attributes in (GENAI, VERCEL):
        content = content_of(attributes, dropped_attributes=9)
        assert content.input is not None
        assert [message.text for message in content.input] == ["hi"]
        assert (content.output, content.content) == (None, Content.ABSENT)
    content = content_of({**GENAI, "gen_ai.output.messages": ANSWER}, dropped_attributes=9)
    assert (answers(content), content.content) == (["hello"], Content.CAPTURED)


@pytest.mark.parametrize(
    "attributes",
    [
        {**GENAI, "output.value": "hello"},
        {**VERCEL, "ai.response.text": "hello"},
        {**KIND, "input.value": MESSAGES, "output.value": "hello"},
    ],
)
def test_a_text_without_its_calls_is_not_the_whole_message(attributes: dict[str, Any]) -> None:
    """The attribute with the calls may be among the dropped."""
    assert answers(content_of(attributes)) == ["hello"]
    content = content_of(attributes, dropped_attributes=1)
    assert (content.output, content.content) == (None, Content.TRUNCATED)


def test_the_ai_sdks_text_and_calls_are_the_whole_answer() -> None:
    """If both are there, nothing of the answer can have been dropped."""
    calls = json.dumps([{"toolCallId": "c", "toolName": "pay", "args": "{}"}])
    attributes = {**VERCEL, "ai.response.text": "", "ai.response.toolCalls": calls}
    content = content_of(attributes, dropped_attributes=1)
    assert content.output is not None
    assert [call.tool for message in content.output for call in message.calls] == ["pay"]


def test_a_model_with_a_possibly_dropped_input_had_one() -> None:
    """Without an attribute of its input OpenInference's model had none, unless some were dropped."""
    attributes = {name: value for name, value in OPENINFERENCE.items() if "input" not in name}
    assert content_of(attributes).input == ()
    assert content_of(attributes, dropped_attributes=1).input is None


def test_what_failed_may_have_spoken_where_something_was_dropped() -> None:
    """A failed call without an output had none, and a failed tool returned nothing, if nothing is missing."""
    assert content_of(GENAI, failed=True).output == ()
    run = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "f",
        "gen_ai.tool.call.arguments": "{}",
    }
    returned = content_of(run, failed=True).result
    assert returned is not None
    assert returned.content is Content.CAPTURED
    for name in ("dropped_attributes", "dropped_events"):
        content = content_of(GENAI, failed=True, **{name: 1})
        assert (content.output, content.content) == (None, Content.ABSENT)
        returned = content_of(run, failed=True, **{name: 1}).result
        assert returned is not None
        assert returned.content is Content.ABSENT


def test_an_output_that_was_cut_is_missing_though_the_call_failed() -> None:
    """It answered something before it failed."""
    content = content_of({**GENAI, "gen_ai.output.messages": ANSWER[:-5]}, failed=True)
    assert (content.output, content.content) == (None, Content.TRUNCATED)


SPOKEN = (
    SpanEvent("gen_ai.user.message", 1, {"content": "hi"}),
    SpanEvent("gen_ai.choice", 2, {"message": '{"role": "assistant", "content": "hello"}'}),
)
SYSTEM = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai"}


def test_events_of_which_some_were_dropped_are_not_the_conversation() -> None:
    """SDKs keep 128 events of a span; and of an event not all attributes."""
    content = content_of(SYSTEM, events=SPOKEN)
    assert answers(content) == ["hello"]
    content = content_of(SYSTEM, events=SPOKEN, dropped_events=1)
    assert (content.input, content.output, content.content) == (None, None, Content.TRUNCATED)
    content = content_of(SYSTEM, events=(msgspec.structs.replace(SPOKEN[0], dropped=1), SPOKEN[1]))
    assert (content.input, content.content) == (None, Content.TRUNCATED)
    assert answers(content) == ["hello"]


def test_one_event_for_all_messages_is_whole_though_others_were_dropped() -> None:
    """It is there or it is not."""
    attributes = {"gen_ai.input.messages": MESSAGES, "gen_ai.output.messages": ANSWER}
    event = SpanEvent("gen_ai.client.inference.operation.details", 1, attributes)
    assert answers(content_of(SYSTEM, events=(event,), dropped_events=3)) == ["hello"]


@BOTH
def test_a_message_that_lost_its_role_has_none(attributes: dict[str, Any]) -> None:
    """Of several messages each has a role; the one without may be anybody's."""
    for name in attributes:
        if name.endswith(".role") and ("prompt" in name or "input" in name):
            content = content_of({key: value for key, value in attributes.items() if key != name})
            assert (content.input, content.content) == (None, Content.TRUNCATED)


def test_a_prompt_alone_needs_no_role() -> None:
    """Completions have one prompt and no roles."""
    content = content_of({**REQUEST, "gen_ai.prompt.0.content": "Once upon"})
    assert content.input is not None
    assert [(message.role, message.text) for message in content.input] == [(Role.USER, "Once upon")]


def test_events_in_an_attribute_are_messages_and_no_attribute() -> None:
    """Pydantic AI wrote what were events into one attribute, as JSON."""
    events = [
        {"event.name": "gen_ai.system.message", "content": "be kind", "role": "system"},
        {"event.name": "gen_ai.user.message", "content": "hi", "role": "user"},
        {"event.name": "gen_ai.tool.message", "id": "c", "name": "look_up", "content": "42"},
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": "so"}},
    ]
    content = content_of({"gen_ai.operation.name": "chat", "events": json.dumps(events)})
    assert content.input is not None
    assert [message.role for message in content.input] == [Role.INSTRUCTION, Role.USER, Role.TOOL]
    assert [(result.call_id, result.result) for result in content.input[2].results] == [("c", "42")]
    assert answers(content) == ["so"]
    assert content.attributes == {"gen_ai.operation.name": "chat"}


def runs(args: str) -> list[dict[str, Any]]:
    """A tool's run with these arguments, in each dialect."""
    wrapped = f'{{"args": [], "kwargs": {args}' if args.startswith("{") else args
    wrapped += "}" if args.endswith("}") else ""
    return [
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": args},
        {"openinference.span.kind": "TOOL", "input.value": args},
        {"traceloop.span.kind": "tool", "traceloop.entity.input": wrapped},
        {"ai.operationId": "ai.toolCall", "ai.toolCall.args": args},
    ]


def asked(args: str) -> list[dict[str, Any]]:
    """A model that asks for a tool, the arguments in an attribute of their own."""
    called = "llm.output_messages.0.message.tool_calls.0.tool_call.function."
    return [
        {**OPENINFERENCE, f"{called}name": "pay", f"{called}arguments": args},
        {
            **OPENLLMETRY,
            "gen_ai.completion.0.tool_calls.0.name": "pay",
            "gen_ai.completion.0.tool_calls.0.arguments": args,
        },
    ]


def calls_with(args: str) -> list[tuple[str | None, Content]]:
    """Return the arguments of the calls in these attributes."""
    calls = [content_of(run).call for run in runs(args)]
    outputs = [content_of(attributes).output or () for attributes in asked(args)]
    calls += [call for output in outputs for message in output for call in message.calls]
    assert len(calls) == 6
    return [(call.args, call.content) for call in calls if call is not None]


@pytest.mark.parametrize("cut", range(1, 37))
def test_arguments_that_end_before_their_time_were_cut(cut: int) -> None:
    """SDKs limit how long an attribute may be; no rule judges by the rest of cut arguments."""
    args = '{"to":"caf\u00e9 \\"7\\"","sum":[12.5,null]}'
    assert len(args) == 37
    for left, content in calls_with(args[:cut]):
        assert content is Content.TRUNCATED
        assert left is not None
        assert left.endswith(args[:cut])
    assert {content for _, content in calls_with(args)} == {Content.CAPTURED}


@pytest.mark.parametrize("args", ["{'to': 'me'}", "pay me", "", "{to: 1}", '{"to": NaN}', "[1"])
def test_arguments_that_are_no_json_are_text(args: str) -> None:
    """Arguments that a model made, or Python's text of a dictionary, stay as they were written."""
    assert (args, Content.CAPTURED) in calls_with(args)
    assert Content.TRUNCATED not in {content for _, content in calls_with(args)}
