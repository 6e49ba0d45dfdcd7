"""OpenTelemetry's conventions for generative AI: messages, tools and agents, as they are and as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tracline.schemas.dialects.parts.messages import MESSAGES_MAX
from tracline.schemas.event import Content
from tracline.schemas.span_content import SpanRole, ToolCall, ToolResult

from .dialect_spans import SpokenEvent, chat, content_of, words

ASKED = {"type": "tool_call", "id": "c1", "name": "get_weather", "arguments": {"city": "Paris"}}
CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
    {"role": "user", "parts": [{"type": "text", "content": "Weather in Paris?"}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "I look."}, ASKED]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "rainy, 57°F"}]},
]
ANSWER = [{"role": "assistant", "parts": [{"type": "text", "content": "Rain."}], "finish_reason": "stop"}]
INPUT_WORDS = [
    ("instruction", "Be brief.", [], []),
    ("user", "Weather in Paris?", [], []),
    ("assistant", "I look.", [("c1", "get_weather", '{"city":"Paris"}')], []),
    ("tool", None, [], [("c1", None, "rainy, 57°F")]),
]
OUTPUT_WORDS = [("assistant", "Rain.", [], [])]


@pytest.mark.parametrize("write", [json.dumps, list], ids=["JSON text", "structured"])
def test_messages_are_read_from_json_and_from_structured_values(write: Any) -> None:
    """Both forms of `gen_ai.input.messages` in the conventions are read alike."""
    content = content_of(
        chat(gen_ai__input__messages=write(CONVERSATION), gen_ai__output__messages=write(ANSWER))
    )
    assert content.role is SpanRole.CHAT
    assert words(content.input) == INPUT_WORDS
    assert words(content.output) == OUTPUT_WORDS
    assert (content.model, content.content) == ("birch-2", Content.CAPTURED)


def test_the_answering_model_goes_before_the_one_asked_for() -> None:
    """`gen_ai.response.model` is who spoke."""
    assert content_of(chat(gen_ai__response__model="birch-2-0613")).model == "birch-2-0613"


PLAIN = [
    {"role": "user", "content": "Weather in Paris?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "rainy"}]},
]
ANTHROPIC = [
    {"role": "user", "content": [{"type": "text", "text": "Weather in Paris?"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "tool_use", "id": "c1", "name": "get_weather", "input": '{"city": "Paris"}'},
        ],
    },
    {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "rainy"}]},
]
BEDROCK = [
    {"role": "user", "content": [{"text": "Weather in Paris?"}]},
    {
        "role": "assistant",
        "content": [{"toolUse": {"toolUseId": "c1", "name": "get_weather", "input": '{"city": "Paris"}'}}],
    },
    {"role": "tool", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "rainy"}]}}]},
]
GEMINI = [
    {"role": "user", "parts": [{"text": "Weather in Paris?"}]},
    {
        "role": "model",
        "parts": [{"functionCall": {"id": "c1", "name": "get_weather", "args": '{"city": "Paris"}'}}],
    },
    {"role": "tool", "parts": [{"functionResponse": {"id": "c1", "response": "rainy"}}]},
]
RESPONSES = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather in Paris?"}]},
    {"type": "reasoning", "summary": []},
    {
        "type": "function_call",
        "id": "x",
        "call_id": "c1",
        "name": "get_weather",
        "arguments": '{"city": "Paris"}',
    },
    {"type": "function_call_output", "call_id": "c1", "output": "rainy"},
]
LANGCHAIN = [
    {"id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": "Weather in Paris?"}},
    {
        "id": ["langchain", "schema", "messages", "AIMessageChunk"],
        "kwargs": {
            "content": "",
            "tool_calls": [{"id": "c1", "name": "get_weather", "args": '{"city": "Paris"}'}],
        },
    },
    {"type": "tool", "data": {"content": "rainy", "tool_call_id": "c1"}},
]


@pytest.mark.parametrize("spelling", [PLAIN, ANTHROPIC, BEDROCK, GEMINI, RESPONSES, LANGCHAIN])
def test_messages_may_be_written_as_a_models_interface_has_them(spelling: list[dict[str, Any]]) -> None:
    """OpenAI's chat and responses, Anthropic's, Bedrock's, Gemini's and LangChain's messages agree."""
    content = content_of(chat(gen_ai__input__messages=json.dumps(spelling)))
    assert content.input is not None
    rows = [(row[0], row[1] or None, *row[2:]) for row in words(content.input) or []]
    assert rows == [
        ("user", "Weather in Paris?", [], []),
        ("assistant", None, [("c1", "get_weather", '{"city": "Paris"}')], []),
        ("tool", None, [], [("c1", None, "rainy")]),
    ]


@pytest.mark.parametrize("field", ["response", "result", "output", "content"])
def test_a_result_stands_under_any_of_its_names(field: str) -> None:
    """The conventions have `response`; earlier versions and others have other names."""
    parts = [{"type": "tool_call_response", "id": "c1", field: {"sky": "grey"}}]
    content = content_of(chat(gen_ai__input__messages=[{"role": "tool", "parts": parts}]))
    assert words(content.input) == [("tool", None, [], [("c1", None, '{"sky":"grey"}')])]


def test_text_parts_are_lines_and_thoughts_and_pictures_are_not() -> None:
    """Reasoning has no recipient, and bytes in base64 are no text."""
    parts = [
        {"type": "reasoning", "content": "secret plan"},
        {"type": "text", "content": "one"},
        {"type": "blob", "modality": "image", "content": "aGVsbG8="},
        {"type": "text", "content": "two"},
    ]
    picture = {"role": "user", "parts": [parts[2]]}
    content = content_of(chat(gen_ai__input__messages=[{"role": "user", "parts": parts}, picture]))
    assert words(content.input) == [("user", "one\ntwo", [], []), ("user", "", [], [])]


def test_calls_of_the_models_own_tools_are_calls() -> None:
    """A tool that the provider runs is called and answers inside one message."""
    parts = [
        {"type": "server_tool_call", "id": "s1", "name": "search", "server_tool_call": {"query": "x"}},
        {"type": "server_tool_call_response", "id": "s1", "server_tool_call_response": {"hits": 2}},
    ]
    content = content_of(chat(gen_ai__output__messages=[{"role": "assistant", "parts": parts}]))
    calls, results = [("s1", "search", '{"query":"x"}')], [("s1", None, '{"hits":2}')]
    assert words(content.output) == [("assistant", None, calls, results)]


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        ({"is_error": True}, "tool_error"),
        ({"status": "error"}, "tool_error"),
        ({"error": "timeout"}, "timeout"),
    ],
)
def test_a_flagged_result_failed(flag: dict[str, Any], error: str) -> None:
    """The flag of a message is its result's error; text that reads like one is not."""
    part = {"type": "tool_result", "tool_use_id": "c1", "content": "Error: no", **flag}
    content = content_of(chat(gen_ai__input__messages=[{"role": "user", "content": [part]}]))
    assert content.input is not None
    assert content.input[0].results[0] == ToolResult("c1", None, "Error: no", error)


# What is not there


def test_uncaptured_and_empty_content_differ() -> None:
    """Without the attribute the messages are not known; `[]` means that there were none."""
    content = content_of(chat())
    assert (content.input, content.output, content.content) == (None, None, Content.ABSENT)
    content = content_of(chat(gen_ai__input__messages="[]", gen_ai__output__messages=ANSWER))
    assert (content.input, content.content) == ((), Content.CAPTURED)


@pytest.mark.parametrize("cut", range(1, 40, 6))
def test_messages_cut_at_a_limit_are_truncated(cut: int) -> None:
    """JSON that an attribute limit cut is none, wherever it was cut."""
    content = content_of(chat(gen_ai__input__messages=json.dumps(CONVERSATION)[:cut]))
    assert (content.input, content.content) == (None, Content.ABSENT)
    content = content_of(
        chat(gen_ai__input__messages=json.dumps(CONVERSATION)[:cut], gen_ai__output__messages=ANSWER)
    )
    assert (content.input, content.content) == (None, Content.TRUNCATED)


def test_hidden_messages_and_texts_are_redacted() -> None:
    """A whole attribute, one text or one call's arguments may be hidden."""
    content = content_of(chat(gen_ai__input__messages="[REDACTED]", gen_ai__output__messages=ANSWER))
    assert (content.input, content.content) == (None, Content.REDACTED)
    hidden = [
        {"role": "user", "parts": [{"type": "text", "content": "__REDACTED__"}]},
        {"role": "assistant", "parts": [{**ASKED, "arguments": "[REDACTED]"}]},
    ]
    content = content_of(chat(gen_ai__input__messages=hidden))
    assert content.input is not None
    assert (content.input[0].text, content.input[0].content) == (None, Content.REDACTED)
    assert content.input[1].calls == (ToolCall("c1", "get_weather", None, Content.REDACTED),)


def test_parts_without_their_content_were_not_captured() -> None:
    """Some keep the shape of a conversation and leave out its texts."""
    messages = [
        {"role": "user", "parts": [{"type": "text"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "get_weather"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "name": "get_weather"}]},
    ]
    content = content_of(chat(gen_ai__input__messages=messages))
    assert content.input is not None
    assert (content.input[0].text, content.input[0].content) == (None, Content.ABSENT)
    assert content.input[1].calls == (ToolCall("c1", "get_weather", None, Content.ABSENT),)
    assert content.input[2].results == (ToolResult("c1", "get_weather", None, content=Content.ABSENT),)


@pytest.mark.parametrize("error", ["no such order " * 100, "half of \udc00", {"type": ["x"]}, True])
def test_a_result_that_is_flagged_failed_whatever_its_error_is_called(error: object) -> None:
    """An error that is no type's name, or too long for one, is none the less one."""
    message = {"role": "tool", "tool_call_id": "c1", "content": "", "error": error}
    content = content_of(chat(gen_ai__input__messages=[message]))
    assert content.input is not None
    assert [result.error for result in content.input[0].results] == ["tool_error"]


@pytest.mark.parametrize(
    ("role", "read"),
    [
        ("MessageRole.USER", ("user", "yes")),
        ("User ", ("user", "yes")),
        ("CHATBOT", ("assistant", "yes")),
        ("ipython", ("tool", None)),
    ],
)
def test_roles_in_the_spellings_of_frameworks(role: str, read: tuple[str, str | None]) -> None:
    """Enumerations, capitals, and what some models call their speakers."""
    content = content_of(chat(gen_ai__input__messages=[{"role": role, "content": "yes"}]))
    assert content.input is not None
    assert [(message.role.value, message.text) for message in content.input] == [read]


def test_no_unknown_role_passes_for_the_customer() -> None:
    """A message with an unknown role does not pass for the customer's."""
    messages = [{"role": "critic", "content": "yes, go ahead"}, {"role": "user", "content": "no"}]
    content = content_of(chat(gen_ai__input__messages=messages))
    assert content.input is not None
    assert [(message.text, message.content) for message in content.input] == [
        (None, Content.ABSENT),
        ("no", Content.CAPTURED),
    ]
    content = content_of(chat(gen_ai__output__messages=[{"role": "writer", "content": "so"}]))
    assert words(content.output) == [("assistant", "so", [], [])]


PAY = {"id": "c", "function": {"name": "pay", "arguments": "{}"}}


@pytest.mark.parametrize(
    "asked",
    [
        {"tool_calls": [PAY]},
        {"tool_calls": PAY},
        {"tool_calls": json.dumps([PAY])},
        {"function_call": {"id": "c", "name": "pay", "arguments": "{}"}},
        {"function_call": json.dumps({"id": "c", "name": "pay", "arguments": "{}"})},
    ],
)
def test_calls_are_read_in_any_wrapping(asked: dict[str, Any]) -> None:
    """A list, one call, or JSON of either in a field of its own."""
    content = content_of(chat(gen_ai__output__messages=[{"role": "assistant", "content": "so", **asked}]))
    assert words(content.output) == [("assistant", "so", [("c", "pay", "{}")], [])]


@pytest.mark.parametrize("field", ["tool_calls", "function_call"])
@pytest.mark.parametrize(
    ("asked", "content"),
    [
        ('[{"id": "c", "func', Content.TRUNCATED),
        (["pay"], Content.TRUNCATED),
        (7, Content.TRUNCATED),
        ("[REDACTED]", Content.REDACTED),
        ([], Content.CAPTURED),
        (None, Content.CAPTURED),
    ],
)
def test_a_message_without_its_calls_is_not_whole(field: str, asked: object, content: Content) -> None:
    """Something was requested, but it is not known what; an empty list is nothing."""
    step = content_of(chat(gen_ai__output__messages=[{"role": "assistant", "content": "so", field: asked}]))
    assert step.output is not None
    assert [(message.calls, message.content) for message in step.output] == [((), content)]


def test_fields_that_are_null_hide_no_content() -> None:
    """Frameworks write out all fields that a message may have."""
    message = {"role": "user", "contents": None, "parts": None, "content": "hi"}
    assert words(content_of(chat(gen_ai__input__messages=[message])).input) == [("user", "hi", [], [])]


def test_a_call_that_fails_before_an_answer_has_its_input() -> None:
    """Its output is not missing: there was none."""
    content = content_of(chat(gen_ai__input__messages=CONVERSATION, error__type="timeout"), failed=True)
    assert (content.error, content.output, content.content) == ("timeout", (), Content.CAPTURED)


def test_more_messages_than_the_limit_are_not_read() -> None:
    """The limit is named, and what exceeds it is marked as cut."""
    many = [{"role": "user", "content": "x"}] * (MESSAGES_MAX + 1)
    content = content_of(chat(gen_ai__input__messages=many, gen_ai__output__messages=ANSWER))
    assert (content.input, content.content) == (None, Content.TRUNCATED)
    content = content_of(chat(gen_ai__input__messages=many[1:], gen_ai__output__messages=ANSWER))
    assert content.input is not None
    assert len(content.input) == MESSAGES_MAX


def test_half_an_emoji_and_numbers_beyond_json_do_not_lose_a_message() -> None:
    """Characters that JSON in UTF-8 cannot carry are replaced, and the text beside them stays."""
    messages = (
        '[{"role": "user", "content": "ok \\ud83d"}, {"role": "assistant", "content": null, "tool_calls": '
    )
    messages += '[{"id": "c1", "name": "pay", "arguments": {"amount": NaN}}]}]'
    content = content_of(chat(gen_ai__input__messages=messages))
    assert words(content.input) == [
        ("user", "ok \N{REPLACEMENT CHARACTER}", [], []),
        ("assistant", None, [("c1", "pay", '{"amount":"NaN"}')], []),
    ]


def test_arguments_too_deep_for_json_are_cut_and_the_call_stays() -> None:
    """A call has its tool where its arguments cannot be read."""
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    content = content_of(
        chat(gen_ai__output__messages=[{"role": "assistant", "parts": [{**ASKED, "arguments": deep}]}])
    )
    assert content.output is not None
    assert content.output[0].calls == (ToolCall("c1", "get_weather", None, Content.TRUNCATED),)


# Other places, other names


@pytest.mark.parametrize(
    ("prompt", "completion"),
    [
        (json.dumps(CONVERSATION), json.dumps({"text": "Rain.", "finish_reason": "stop"})),
        (json.dumps({"messages": CONVERSATION}), "Rain."),
        (
            json.dumps({"model": "x", "messages": CONVERSATION}),
            json.dumps({"choices": [{"message": ANSWER[0]}]}),
        ),
    ],
)
def test_the_attributes_of_before_are_read(prompt: str, completion: str) -> None:
    """`gen_ai.prompt` and `gen_ai.completion` held requests, responses, messages, or text."""
    content = content_of(chat(gen_ai__prompt=prompt, gen_ai__completion=completion))
    assert (words(content.input), words(content.output)) == (INPUT_WORDS, OUTPUT_WORDS)


def opened(value: Any) -> Any:
    """A field as it stands in a body, where JSON in it needs no quotes."""
    return json.loads(value) if isinstance(value, str) and value[:1] in "[{" else value


EACH: list[SpokenEvent] = [
    ("gen_ai.system.message", {"content": "Be brief."}),
    ("gen_ai.user.message", {"content": "Weather in Paris?"}),
    (
        "gen_ai.assistant.message",
        {
            "content": "I look.",
            "tool_calls": json.dumps(
                [{"id": "c1", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}]
            ),
        },
    ),
    ("gen_ai.tool.message", {"id": "c1", "content": "rainy, 57°F"}),
    ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": json.dumps({"content": "Rain."})}),
]
BODIES: list[SpokenEvent] = [
    (name, {"gen_ai.event.content": json.dumps({key: opened(value) for key, value in body.items()})})
    for name, body in EACH
]
ONCE: list[SpokenEvent] = [
    (
        "gen_ai.client.inference.operation.details",
        {"gen_ai.input.messages": json.dumps(CONVERSATION), "gen_ai.output.messages": json.dumps(ANSWER)},
    )
]
PROMPTS: list[SpokenEvent] = [
    ("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps(CONVERSATION)}),
    ("gen_ai.content.completion", {"gen_ai.completion": json.dumps(ANSWER)}),
]


@pytest.mark.parametrize(
    "events", [EACH, BODIES, ONCE, PROMPTS], ids=["each", "bodies", "details", "content"]
)
def test_messages_in_span_events_are_read(events: list[SpokenEvent]) -> None:
    """An event a message, as fields or as a JSON body; one event for all; the two of 1.27."""
    content = content_of(chat(), *events)
    assert (words(content.input), words(content.output)) == (INPUT_WORDS, OUTPUT_WORDS)


def test_parts_in_a_message_event_are_opened() -> None:
    """Strands writes Bedrock's parts as JSON into each event."""
    used = json.dumps([{"text": "I look."}, {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}}])
    content = content_of(
        chat(),
        ("gen_ai.user.message", {"content": '[{"text": "Hi"}]'}),
        ("gen_ai.choice", {"message": used, "finish_reason": "tool_use"}),
    )
    assert words(content.input) == [("user", "Hi", [], [])]
    assert words(content.output) == [("assistant", "I look.", [("c1", "look", "{}")], [])]


def test_text_that_looks_like_json_stays_text() -> None:
    """A customer may write brackets, and a model may answer in JSON."""
    content = content_of(chat(), ("gen_ai.user.message", {"content": "[urgent] help"}))
    assert words(content.input) == [("user", "[urgent] help", [], [])]
    answer = '{"prompt": "draw a cat", "role": "admin"}'
    assert words(content_of(chat(gen_ai__completion=answer)).output) == [("assistant", answer, [], [])]


def test_any_agents_outputs_are_calls_or_text() -> None:
    """`gen_ai.output` of any-agent lists calls by `tool.name` and `tool.args`, or is the model's answer."""
    calls = json.dumps([{"tool.name": "write", "tool.args": {"text": "2025"}}, {"tool.name": "stop"}])
    content = content_of({"gen_ai.operation.name": "call_llm", "gen_ai.output": calls})
    assert content.role is SpanRole.CHAT
    assert words(content.output) == [
        ("assistant", None, [(None, "write", '{"text":"2025"}')], []),
        ("assistant", None, [(None, "stop", None)], []),
    ]
    content = content_of({"gen_ai.operation.name": "call_llm", "gen_ai.output": '{"steps": [1, 2]}'})
    assert words(content.output) == [("assistant", '{"steps": [1, 2]}', [], [])]


def test_googles_adk_is_read() -> None:
    """Its model spans have no operation; `{}` stands where content was not to be captured."""
    request = {"model": "m", "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    response = {"content": {"role": "model", "parts": [{"function_call": {"name": "look", "args": {}}}]}}
    attributes = {
        "gen_ai.system": "gcp.vertex.agent",
        "gen_ai.request.model": "m",
        "gen_ai.usage.output_tokens": 3,
    }
    names = ("gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response")
    content = content_of({**attributes, names[0]: json.dumps(request), names[1]: json.dumps(response)})
    assert words(content.input) == [("user", "Hi", [], [])]
    assert words(content.output) == [("assistant", None, [(None, "look", "{}")], [])]
    content = content_of({**attributes, names[0]: "{}", names[1]: "{}"})
    assert (content.role, content.input, content.output) == (SpanRole.CHAT, None, None)


# Parts


@pytest.mark.parametrize(
    ("attributes", "part"),
    [
        ({"gen_ai.operation.name": "chat"}, SpanRole.CHAT),
        ({"gen_ai.operation.name": "text_completion"}, SpanRole.CHAT),
        ({"gen_ai.operation.name": "generate_content"}, SpanRole.CHAT),
        ({"gen_ai.operation.name": "ask", "gen_ai.output.messages": "[]"}, SpanRole.CHAT),
        ({"gen_ai.operation.name": "ask", "gen_ai.response.finish_reasons": ["stop"]}, SpanRole.CHAT),
        ({"gen_ai.operation.name": "ask"}, SpanRole.OTHER),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.usage.output_tokens": 1}, SpanRole.OTHER),
        ({"gen_ai.operation.name": "invoke_agent"}, SpanRole.AGENT),
        ({"gen_ai.operation.name": "create_agent"}, SpanRole.AGENT),
        ({"gen_ai.operation.name": "invoke_workflow"}, SpanRole.AGENT),
        ({"gen_ai.operation.name": "execute_tool"}, SpanRole.TOOL),
        ({"gen_ai.tool.name": "look"}, SpanRole.TOOL),
        ({"http.request.method": "GET"}, SpanRole.OTHER),
    ],
)
def test_a_span_has_the_role_of_its_operation(attributes: dict[str, Any], part: SpanRole) -> None:
    """Unknown operations are model calls if a model answered."""
    assert content_of(attributes).role is part


def test_an_agents_output_does_not_repeat_its_input() -> None:
    """Graphs return the whole conversation; their output is what follows the customer's message."""
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    content = content_of(
        {**attributes, "gen_ai.input.messages": messages[:1], "gen_ai.output.messages": messages}
    )
    assert (content.role, content.agent) == (SpanRole.AGENT, "desk")
    assert (words(content.input), words(content.output)) == (
        [("user", "Hi", [], [])],
        [("assistant", "Hello", [], [])],
    )


# Tools

TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.id": "c1"}


@pytest.mark.parametrize(
    ("given", "returned"),
    [
        ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
        ("gen_ai.tool.args", "gen_ai.output"),
        ("tool_arguments", "tool_response"),
        ("gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response"),
        ("input.value", "output.value"),
        ("input", "output"),
        ("gen_ai.tool.args", "gen_ai.tool.output"),
    ],
)
def test_a_tools_run_is_read_by_all_names(given: str, returned: str) -> None:
    """Text stays as it was written, a structured value becomes JSON text."""
    content = content_of({**TOOL, given: '{"id": 1}', returned: {"found": True}})
    assert content.call == ToolCall("c1", "look", '{"id": 1}')
    assert content.result == ToolResult("c1", "look", '{"found":true}')
    assert (content.role, content.input, content.output) == (SpanRole.TOOL, None, None)


def test_a_run_without_content_names_its_tool() -> None:
    """Capture is off in most: tool, id, error and time are there all the same."""
    content = content_of({**TOOL, "error.type": "timeout"}, failed=True)
    assert content.call == ToolCall("c1", "look", None, Content.ABSENT)
    assert content.result == ToolResult("c1", "look", None, content=Content.ABSENT)
    assert content.error == "timeout"


def test_a_run_that_failed_returned_nothing() -> None:
    """If its arguments were captured, a missing result of a failed run is none, not one unknown."""
    content = content_of({**TOOL, "gen_ai.tool.call.arguments": "{}", "error.type": "timeout"}, failed=True)
    assert content.result == ToolResult("c1", "look", None, content=Content.CAPTURED)


@pytest.mark.parametrize(
    "events",
    [
        [
            ("gen_ai.tool.message", {"role": "tool", "content": '{"id": 1}', "id": "c1"}),
            ("gen_ai.choice", {"message": '[{"text": "found"}]', "id": "c1"}),
        ],
        [
            (
                "gen_ai.client.inference.operation.details",
                {
                    "gen_ai.input.messages": json.dumps(
                        [{"role": "tool", "parts": [{**ASKED, "arguments": '{"id": 1}'}]}]
                    )
                },
            ),
            (
                "gen_ai.client.inference.operation.details",
                {
                    "gen_ai.output.messages": json.dumps(
                        [
                            {
                                "role": "tool",
                                "parts": [
                                    {
                                        "type": "tool_call_response",
                                        "id": "c1",
                                        "response": [{"text": "found"}],
                                    }
                                ],
                            }
                        ]
                    )
                },
            ),
        ],
    ],
    ids=["each", "details"],
)
def test_a_run_in_span_events_is_read(events: list[SpokenEvent]) -> None:
    """Strands writes a tool's arguments and result as messages, in its older and its newer way."""
    content = content_of(TOOL, *events)
    assert content.call == ToolCall("c1", "look", '{"id": 1}')
    assert content.result is not None
    assert (content.result.call_id, content.result.result) == ("c1", "found")
