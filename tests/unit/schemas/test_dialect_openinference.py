"""OpenInference's conventions: kinds, flattened messages, values with a type, what was hidden."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tracline.schemas.event import Content
from tracline.schemas.span_content import SpanRole, ToolCall, ToolResult

from .dialect_spans import step_of, words

LLM = {"openinference.span.kind": "LLM", "llm.model_name": "birch-2"}
HEARD = "llm.input_messages"
SAID = "llm.output_messages"


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
    step = step_of(
        {
            **LLM,
            **flat(
                HEARD,
                {"role": "system", "content": "Be brief."},
                {
                    "role": "user",
                    "contents.0.message_content.type": "text",
                    "contents.0.message_content.text": "Hi",
                },
                {"role": "assistant", **CALL},
                {"role": "tool", "content": "rainy", "tool_call_id": "c1", "name": "get_weather"},
            ),
            **flat(SAID, {"role": "assistant", "content": "Rain."}),
        }
    )
    assert (step.role, step.model, step.content) == (SpanRole.CHAT, "birch-2", Content.CAPTURED)
    assert words(step.input) == [
        ("instruction", "Be brief.", [], []),
        ("user", "Hi", [], []),
        ("assistant", None, [("c1", "get_weather", '{"city": "Paris"}')], []),
        ("tool", None, [], [("c1", "get_weather", "rainy")]),
    ]
    assert words(step.output) == [("assistant", "Rain.", [], [])]


def test_messages_stand_in_the_order_of_their_numbers() -> None:
    """The tenth comes after the second, whatever the order of the attributes."""
    told = flat(HEARD, *({"role": "user", "content": str(place)} for place in range(12)))
    step = step_of({**LLM, **dict(sorted(told.items(), reverse=True))})
    assert step.input is not None
    assert [message.text for message in step.input] == [str(place) for place in range(12)]


@pytest.mark.parametrize("gone", [0, 1])
def test_a_place_that_is_left_out_is_no_loss_unless_attributes_were_dropped(gone: int) -> None:
    """The Agents SDK counts calls over all messages, and leaves out messages that it does not know."""
    told = flat(HEARD, *({"role": "user", "content": str(place)} for place in range(3)))
    left = {key: value for key, value in told.items() if not key.startswith(f"{HEARD}.{gone}.")}
    spoken = {**LLM, **left, **flat(SAID, {"role": "assistant", "content": "x"})}
    step = step_of(spoken)
    assert step.input is not None
    assert [message.text for message in step.input] == [str(n) for n in range(3) if n != gone]
    lost = step_of(spoken, dropped=1)
    assert (lost.input, lost.content) == (None, Content.TRUNCATED)


@pytest.mark.parametrize("place", ["999999999999", "-1", "x", "", "²"])
def test_places_that_are_none_are_in_no_list(place: str) -> None:
    """A list's places are numbers of a few digits."""
    told = flat(HEARD, {"role": "user", "content": "Hi"})
    step = step_of({**LLM, f"{HEARD}.{place}.message.content": "odd", **told})
    assert words(step.input) == [("user", "Hi", [], [])]


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
    step = step_of({**LLM, **flat(SAID, {"role": "assistant", **parts})})
    assert words(step.output) == [("assistant", "Rain.", [], [])]


def test_values_are_read_where_messages_are_not_flattened() -> None:
    """`input.value` may hold a request, messages or text; `output.value` a response or text."""
    request = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    response = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Hello"}}]})
    both = {"input.mime_type": "application/json", "output.mime_type": "application/json"}
    for heard, said, types in ((request, response, both), ("Hi", "Hello", {}), (request, "Hello", both)):
        step = step_of({**LLM, "input.value": heard, "output.value": said, **types})
        assert words(step.input) == [("user", "Hi", [], [])]
        assert words(step.output) == [("assistant", "Hello", [], [])]


def test_plain_text_is_not_looked_into() -> None:
    """Where the type says plain text, JSON in it is an author's text."""
    text = '[{"role": "user", "content": "Hi"}]'
    step = step_of({**LLM, "input.value": text, "input.mime_type": "text/plain"})
    assert words(step.input) == [("user", text, [], [])]


def test_a_models_json_is_its_answer_and_a_requests_is_no_message() -> None:
    """An unknown request has no messages; a model may answer in JSON."""
    step = step_of({**LLM, "input.value": '{"temperature": 1}', "output.value": '{"ok": true}'})
    assert (step.input, words(step.output)) == (None, [("assistant", '{"ok": true}', [], [])])


def test_prompts_and_choices_of_completions_are_read() -> None:
    """Text completions have lists of their own."""
    told = {"llm.prompts.0.prompt.text": "Once", "llm.choices.0.completion.text": "upon a time"}
    step = step_of({**LLM, **told})
    assert words(step.input) == [("user", "Once", [], [])]
    assert words(step.output) == [("assistant", "upon a time", [], [])]


def test_what_was_hidden_is_redacted() -> None:
    """`__REDACTED__` stands for a whole value or for a text."""
    step = step_of(
        {**LLM, "input.value": "__REDACTED__", **flat(SAID, {"role": "assistant", "content": "x"})}
    )
    assert (step.input, step.content) == (None, Content.REDACTED)
    step = step_of({**LLM, **flat(HEARD, {"role": "user", "content": "__REDACTED__"})})
    assert step.input is not None
    assert (step.input[0].text, step.input[0].content) == (None, Content.REDACTED)


def test_an_empty_list_leaves_no_attribute() -> None:
    """A model that answered, without any attribute of its input, had none; hidden inputs leave a mark."""
    spoken = {**LLM, **flat(SAID, {"role": "assistant", "content": "Hello"})}
    step = step_of(spoken)
    assert (step.input, step.content) == ((), Content.CAPTURED)
    hidden = step_of({**spoken, "input.value": "__REDACTED__"})
    assert (hidden.input, hidden.content) == (None, Content.REDACTED)
    assert step_of({**spoken, "gen_ai.operation.name": "chat"}).input is None
    assert step_of(LLM).input is None


# Tools and agents


@pytest.mark.parametrize("key", ["tool_call.id", "tool.id"])
def test_a_tools_run_is_read(key: str) -> None:
    """Name, id, arguments and result, as they were written."""
    told = {"tool.name": "look", key: "c1", "input.value": '{"id": 1}', "output.value": '{"found": true}'}
    step = step_of({"openinference.span.kind": "TOOL", **told})
    assert (step.role, step.call, step.result) == (
        SpanRole.TOOL,
        ToolCall("c1", "look", '{"id": 1}'),
        ToolResult(None, "look", '{"found": true}'),
    )


def test_a_langchain_tools_message_is_unwrapped() -> None:
    """Its content is the result; the id of its call and a flagged error are known from it."""
    message = json.dumps({"type": "tool", "content": "no such user", "tool_call_id": "c1", "status": "error"})
    step = step_of({"openinference.span.kind": "TOOL", "tool.name": "look", "output.value": message})
    assert step.result == ToolResult("c1", "look", "no such user", "tool_error")
    assert step.call == ToolCall("c1", "look", None, Content.ABSENT)


def test_a_tool_without_a_name_has_its_spans() -> None:
    """The parameters that a tool takes are not those that it was given."""
    schema = json.dumps({"type": "object", "properties": {"id": {}}})
    step = step_of({"openinference.span.kind": "TOOL", "tool.parameters": schema}, name="look")
    assert step.call == ToolCall(None, "look", None, Content.ABSENT)
    step = step_of({"openinference.span.kind": "TOOL", "tool.parameters": '{"id": 1}'}, name="look")
    assert step.call == ToolCall(None, "look", '{"id": 1}')


def test_agents_have_a_name_and_may_have_messages() -> None:
    """What is neither text nor messages is no message of an agent's."""
    told = {
        "openinference.span.kind": "AGENT",
        "agent.name": "desk",
        "input.value": "Hi",
        "output.value": "Hello",
    }
    step = step_of(told)
    assert (step.role, step.agent) == (SpanRole.AGENT, "desk")
    assert (words(step.input), words(step.output)) == (
        [("user", "Hi", [], [])],
        [("assistant", "Hello", [], [])],
    )
    step = step_of({**told, "input.value": '{"topic": "x"}', "output.value": '{"done": 1}'})
    assert (step.input, step.output) == (None, None)


def test_a_node_of_a_graph_names_an_agent_that_nothing_else_names() -> None:
    """`agent.name` goes before `graph.node.name`, that before the node's id."""
    told = {"openinference.span.kind": "AGENT", "graph.node.id": "n1"}
    assert step_of(told).agent == "n1"
    assert step_of({**told, "graph.node.name": "triage"}).agent == "triage"
    assert step_of({**told, "graph.node.name": "triage", "agent.name": "desk"}).agent == "desk"
    assert step_of({**told, "openinference.span.kind": "CHAIN"}).agent is None


@pytest.mark.parametrize(
    "kind", ["CHAIN", "RETRIEVER", "RERANKER", "EMBEDDING", "GUARDRAIL", "EVALUATOR", "PROMPT", "?"]
)
def test_other_kinds_have_no_conversation(kind: str) -> None:
    """They may still name the session."""
    step = step_of({"openinference.span.kind": kind, "input.value": "x", "session.id": "s1"})
    assert (step.role, step.session, step.input) == (SpanRole.OTHER, "s1", None)


def test_a_span_that_speaks_two_conventions_is_read_whole() -> None:
    """OpenTelemetry's attributes fill the gaps of OpenInference's."""
    told = {**LLM, "gen_ai.operation.name": "chat", "gen_ai.output.messages": '[{"role":"model","parts":[]}]'}
    step = step_of({**told, **flat(HEARD, {"role": "user", "content": "Hi"})})
    assert (words(step.input), words(step.output)) == (
        [("user", "Hi", [], [])],
        [("assistant", None, [], [])],
    )
