"""OpenInference's conventions: kinds, flattened messages, values with a type, what was hidden."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tracline.schemas.event import Content
from tracline.schemas.span_content import SpanRole, ToolCall, ToolResult

from .dialect_spans import content_of, words

LLM = {"openinference.span.kind": "LLM", "llm.model_name": "birch-2"}
INPUT = "llm.input_messages"
OUTPUT = "llm.output_messages"


def flat(prefix: str, *messages: dict[str, Any]) -> dict[str, Any]:
    """Messages as attributes behind a prefix."""
    return {
        f"{prefix}.{place}.message.{name}": value
        for place, message in enumerate(messages)
        for name, value in message.items()
    }


CALL = {
    "tool_calls.0.tool_call.id": "c1",
    "tool_calls.0.tool_call.function.name": "get_weather",
    "tool_calls.0.tool_call.function.arguments": '{"city": "Paris"}',
}


def test_flattened_messages_are_read() -> None:
    """Content as text or as parts, calls, results; the same as in other conventions."""
    content = content_of(
        {
            **LLM,
            **flat(
                INPUT,
                {"role": "system", "content": "Be brief."},
                {
                    "role": "user",
                    "contents.0.message_content.type": "text",
                    "contents.0.message_content.text": "Hi",
                },
                {"role": "assistant", **CALL},
                {"role": "tool", "content": "rainy", "tool_call_id": "c1", "name": "get_weather"},
            ),
            **flat(OUTPUT, {"role": "assistant", "content": "Rain."}),
        }
    )
    assert (content.role, content.model, content.content) == (SpanRole.CHAT, "birch-2", Content.CAPTURED)
    assert words(content.input) == [
        ("instruction", "Be brief.", [], []),
        ("user", "Hi", [], []),
        ("assistant", None, [("c1", "get_weather", '{"city": "Paris"}')], []),
        ("tool", None, [], [("c1", "get_weather", "rainy")]),
    ]
    assert words(content.output) == [("assistant", "Rain.", [], [])]


def test_messages_stand_in_the_order_of_their_numbers() -> None:
    """The tenth comes after the second, whatever the order of the attributes."""
    attributes = flat(INPUT, *({"role": "user", "content": str(place)} for place in range(12)))
    content = content_of({**LLM, **dict(sorted(attributes.items(), reverse=True))})
    assert content.input is not None
    assert [message.text for message in content.input] == [str(place) for place in range(12)]


@pytest.mark.parametrize("gone", [0, 1])
def test_a_place_that_is_left_out_is_no_loss_unless_attributes_were_dropped(gone: int) -> None:
    """The Agents SDK counts calls over all messages, and leaves out messages that it does not know."""
    attributes = flat(INPUT, *({"role": "user", "content": str(place)} for place in range(3)))
    left = {key: value for key, value in attributes.items() if not key.startswith(f"{INPUT}.{gone}.")}
    spoken = {**LLM, **left, **flat(OUTPUT, {"role": "assistant", "content": "x"})}
    content = content_of(spoken)
    assert content.input is not None
    assert [message.text for message in content.input] == [str(n) for n in range(3) if n != gone]
    lost = content_of(spoken, dropped=1)
    assert (lost.input, lost.content) == (None, Content.TRUNCATED)


@pytest.mark.parametrize("place", ["999999999999", "-1", "x", "", "²"])
def test_places_that_are_none_are_in_no_list(place: str) -> None:
    """A list's places are numbers of a few digits."""
    attributes = flat(INPUT, {"role": "user", "content": "Hi"})
    content = content_of({**LLM, f"{INPUT}.{place}.message.content": "odd", **attributes})
    assert words(content.input) == [("user", "Hi", [], [])]


def test_reasoning_and_pictures_are_no_text() -> None:
    """Parts of other types are left out of the text."""
    parts = {
        "contents.0.message_content.type": "reasoning",
        "contents.0.message_content.text": "hm",
        "contents.1.message_content.type": "image",
        "contents.1.message_content.image.image.url": "data:,",
        "contents.2.message_content.type": "text",
        "contents.2.message_content.text": "Rain.",
    }
    content = content_of({**LLM, **flat(OUTPUT, {"role": "assistant", **parts})})
    assert words(content.output) == [("assistant", "Rain.", [], [])]


def test_values_are_read_where_messages_are_not_flattened() -> None:
    """`input.value` may hold a request, messages or text; `output.value` a response or text."""
    request = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    response = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Hello"}}]})
    both = {"input.mime_type": "application/json", "output.mime_type": "application/json"}
    for request_text, response_text, types in (
        (request, response, both),
        ("Hi", "Hello", {}),
        (request, "Hello", both),
    ):
        content = content_of({**LLM, "input.value": request_text, "output.value": response_text, **types})
        assert words(content.input) == [("user", "Hi", [], [])]
        assert words(content.output) == [("assistant", "Hello", [], [])]


def test_plain_text_is_not_looked_into() -> None:
    """If the type is plain text, JSON in it is an author's text."""
    text = '[{"role": "user", "content": "Hi"}]'
    content = content_of({**LLM, "input.value": text, "input.mime_type": "text/plain"})
    assert words(content.input) == [("user", text, [], [])]


def test_a_models_json_is_its_answer_and_a_requests_is_no_message() -> None:
    """An unknown request has no messages; a model may answer in JSON."""
    content = content_of({**LLM, "input.value": '{"temperature": 1}', "output.value": '{"ok": true}'})
    assert (content.input, words(content.output)) == (None, [("assistant", '{"ok": true}', [], [])])


def test_prompts_and_choices_of_completions_are_read() -> None:
    """Text completions have lists of their own."""
    attributes = {"llm.prompts.0.prompt.text": "Once", "llm.choices.0.completion.text": "upon a time"}
    content = content_of({**LLM, **attributes})
    assert words(content.input) == [("user", "Once", [], [])]
    assert words(content.output) == [("assistant", "upon a time", [], [])]


def test_what_was_hidden_is_redacted() -> None:
    """`__REDACTED__` stands for a whole value or for a text."""
    content = content_of(
        {**LLM, "input.value": "__REDACTED__", **flat(OUTPUT, {"role": "assistant", "content": "x"})}
    )
    assert (content.input, content.content) == (None, Content.REDACTED)
    content = content_of({**LLM, **flat(INPUT, {"role": "user", "content": "__REDACTED__"})})
    assert content.input is not None
    assert (content.input[0].text, content.input[0].content) == (None, Content.REDACTED)


def test_an_empty_list_leaves_no_attribute() -> None:
    """A model that answered, without any attribute of its input, had none; hidden inputs leave a mark."""
    spoken = {**LLM, **flat(OUTPUT, {"role": "assistant", "content": "Hello"})}
    content = content_of(spoken)
    assert (content.input, content.content) == ((), Content.CAPTURED)
    hidden = content_of({**spoken, "input.value": "__REDACTED__"})
    assert (hidden.input, hidden.content) == (None, Content.REDACTED)
    assert content_of({**spoken, "gen_ai.operation.name": "chat"}).input is None
    assert content_of(LLM).input is None


# Tools and agents


@pytest.mark.parametrize("key", ["tool_call.id", "tool.id"])
def test_a_tools_run_is_read(key: str) -> None:
    """Name, id, arguments and result, as they were written."""
    attributes = {
        "tool.name": "look",
        key: "c1",
        "input.value": '{"id": 1}',
        "output.value": '{"found": true}',
    }
    content = content_of({"openinference.span.kind": "TOOL", **attributes})
    assert (content.role, content.call, content.result) == (
        SpanRole.TOOL,
        ToolCall("c1", "look", '{"id": 1}'),
        ToolResult("c1", "look", '{"found": true}'),
    )


def test_a_langchain_tools_message_is_unwrapped() -> None:
    """Its content is the result; the id of its call and a flagged error are known from it."""
    message = json.dumps({"type": "tool", "content": "no such user", "tool_call_id": "c1", "status": "error"})
    content = content_of({"openinference.span.kind": "TOOL", "tool.name": "look", "output.value": message})
    assert content.result == ToolResult("c1", "look", "no such user", "tool_error")
    assert content.call == ToolCall("c1", "look", None, Content.ABSENT)


def test_a_tool_without_a_name_has_its_spans() -> None:
    """The parameters that a tool takes are not those that it was given."""
    schema = json.dumps({"type": "object", "properties": {"id": {}}})
    content = content_of({"openinference.span.kind": "TOOL", "tool.parameters": schema}, name="look")
    assert content.call == ToolCall(None, "look", None, Content.ABSENT)
    content = content_of({"openinference.span.kind": "TOOL", "tool.parameters": '{"id": 1}'}, name="look")
    assert content.call == ToolCall(None, "look", '{"id": 1}')


def test_agents_have_a_name_and_may_have_messages() -> None:
    """A value that is neither text nor messages is no message of an agent's."""
    attributes = {
        "openinference.span.kind": "AGENT",
        "agent.name": "desk",
        "input.value": "Hi",
        "output.value": "Hello",
    }
    content = content_of(attributes)
    assert (content.role, content.agent) == (SpanRole.AGENT, "desk")
    assert (words(content.input), words(content.output)) == (
        [("user", "Hi", [], [])],
        [("assistant", "Hello", [], [])],
    )
    content = content_of({**attributes, "input.value": '{"topic": "x"}', "output.value": '{"done": 1}'})
    assert (content.input, content.output) == (None, None)


def test_a_node_of_a_graph_names_an_agent_that_nothing_else_names() -> None:
    """`agent.name` goes before `graph.node.name`, that before the node's id."""
    attributes = {"openinference.span.kind": "AGENT", "graph.node.id": "n1"}
    assert content_of(attributes).agent == "n1"
    assert content_of({**attributes, "graph.node.name": "triage"}).agent == "triage"
    assert content_of({**attributes, "graph.node.name": "triage", "agent.name": "desk"}).agent == "desk"
    assert content_of({**attributes, "openinference.span.kind": "CHAIN"}).agent is None


@pytest.mark.parametrize(
    "kind", ["CHAIN", "RETRIEVER", "RERANKER", "EMBEDDING", "GUARDRAIL", "EVALUATOR", "PROMPT", "?"]
)
def test_other_kinds_have_no_conversation(kind: str) -> None:
    """They may still name the session."""
    content = content_of({"openinference.span.kind": kind, "input.value": "x", "session.id": "s1"})
    assert (content.role, content.session, content.input) == (SpanRole.OTHER, "s1", None)


def test_a_span_that_speaks_two_conventions_is_read_whole() -> None:
    """OpenTelemetry's attributes fill the gaps of OpenInference's."""
    attributes = {
        **LLM,
        "gen_ai.operation.name": "chat",
        "gen_ai.output.messages": '[{"role":"model","parts":[]}]',
    }
    content = content_of({**attributes, **flat(INPUT, {"role": "user", "content": "Hi"})})
    assert (words(content.input), words(content.output)) == (
        [("user", "Hi", [], [])],
        [("assistant", None, [], [])],
    )
