"""Chat messages as judged events."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tracline.schemas.chat.decode import MESSAGES_MAX, DecodedConversation, decode
from tracline.schemas.chat.find import InputFlaw, RecordedConversation, conversations
from tracline.schemas.event import Event
from tracline.schemas.time import NS, parse_time
from tracline.schemas.tolerant_json import encode, read_json


def read(*messages: Any, header: dict[str, object] | None = None, **about: Any) -> DecodedConversation:
    """One conversation of these messages, decoded."""
    return decode(RecordedConversation(list(messages), header or {}, "session 1"), **about)


def rows_of(decoded: DecodedConversation) -> list[tuple[str, str | None]]:
    """Return each event's kind with its text, tool or result."""
    return [(event.kind.value, event.text or event.result or event.tool) for event in decoded.events]


def codes(decoded: DecodedConversation) -> list[tuple[str, str]]:
    """Return where the flaws are and their codes."""
    return [(flaw.place, flaw.code) for flaw in decoded.flaws]


def call(tool: str, call_id: str | None = None, arguments: Any = "{}") -> dict[str, Any]:
    """A nested OpenAI call."""
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}


def asks(*calls: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    """An assistant message with calls."""
    return {"role": "assistant", "content": text, "tool_calls": list(calls)}


def answers(content: Any, call_id: str | None = None, **more: Any) -> dict[str, Any]:
    """A tool message."""
    named = {} if call_id is None else {"tool_call_id": call_id}
    return {"role": "tool", "content": content, **named, **more}


def results(decoded: DecodedConversation) -> list[Event]:
    """The results among the events."""
    return [event for event in decoded.events if event.kind == "tool_result"]


def test_a_conversation_becomes_events_in_message_order() -> None:
    """Text comes before its message's calls, those in their order; `end` is last; `seq` counts from 1."""
    decoded = read(
        {"role": "system", "content": "policy"},
        {"role": "user", "content": "hi"},
        asks(call("find", "1"), call("look", "2"), text="wait"),
        answers("ann", "1"),
        answers("none", "2"),
        {"role": "assistant", "content": "bye"},
    )
    assert rows_of(decoded) == [
        ("user", "hi"),
        ("assistant", "wait"),
        ("tool_call", "find"),
        ("tool_call", "look"),
        ("tool_result", "ann"),
        ("tool_result", "none"),
        ("assistant", "bye"),
        ("end", None),
    ]
    assert [event.seq for event in decoded.events] == list(range(1, 9))
    assert len({event.event_id for event in decoded.events}) == 8
    assert (decoded.instructions, decoded.flaws) == (1, ())


@pytest.mark.parametrize(
    "asked",
    [
        asks({"id": "c", "type": "function", "function": {"name": "t", "arguments": '{"a":1}'}}),
        asks({"id": "c", "name": "t", "arguments": {"a": 1}, "requestor": "assistant"}),
        asks({"id": "c", "name": "t", "args": {"a": 1}, "type": "tool_call"}),
        asks({"call_id": "c", "type": "custom", "custom": {"name": "t", "input": '{"a":1}'}}),
    ],
)
def test_the_spellings_of_a_call_are_one_event(asked: dict[str, Any]) -> None:
    """Nested, flat and custom calls, arguments as text or as an object, are equal."""
    event = read(asked).events[0]
    assert (event.kind, event.tool, event.call_id, event.args) == ("tool_call", "t", "c", '{"a":1}')


def test_the_legacy_function_call_and_its_result() -> None:
    """A `function_call` has no id; the `function` message that names it answers it."""
    decoded = read(
        {"role": "assistant", "content": None, "function_call": {"name": "t", "arguments": '{"a":1}'}},
        {"role": "function", "name": "t", "content": "R"},
    )
    assert rows_of(decoded)[:2] == [("tool_call", "t"), ("tool_result", "R")]
    assert (decoded.events[1].args, decoded.events[1].call_id) == ('{"a":1}', None)


def test_a_result_belongs_to_the_nearest_earlier_unanswered_call_of_its_id() -> None:
    """Reused ids: each result carries the arguments of its own call; one too many carries none."""
    decoded = read(
        asks(call("t", "x", '"first"')),
        answers("1", "x"),
        asks(call("t", "x", '"second"')),
        asks(call("t", "x", '"third"')),
        answers("3", "x"),
        answers("2", "x"),
        answers("0", "x"),
    )
    assert [(event.result, event.args, event.tool) for event in results(decoded)] == [
        ("1", '"first"', "t"),
        ("3", '"third"', "t"),
        ("2", '"second"', "t"),
        ("0", None, None),
    ]


def test_results_without_ids_answer_the_calls_of_the_latest_message_in_order() -> None:
    """By name where they have one; a result with an id of no call has no call."""
    decoded = read(
        asks(call("old", None, '"o"')),
        asks(call("a", None, '"a1"'), call("b", "id", '"b1"'), call("a", None, '"a2"')),
        answers("1", name="a"),
        answers("2"),
        answers("3", name="a"),
        answers("4", name="old"),
        answers("5", "nobody", name="old"),
        answers("6"),
    )
    assert [(event.result, event.args) for event in results(decoded)] == [
        ("1", '"a1"'),
        ("2", '"b1"'),
        ("3", '"a2"'),
        ("4", '"o"'),
        ("5", None),
        ("6", None),
    ]


def test_tau2_results_name_their_call_in_their_own_id() -> None:
    """A tool message's `id` is the call's where a call has it; it is an attribute where none has."""
    decoded = read(
        asks({"id": "c", "name": "t", "arguments": {}}),
        {"role": "tool", "id": "c", "content": "R", "error": False},
        asks(call("u", "d")),
        {"role": "tool", "id": "message 4", "content": "S"},
    )
    first, second = results(decoded)
    assert (first.call_id, first.tool, first.attributes) == ("c", "t", {})
    assert (second.call_id, second.tool, second.attributes) == ("d", "u", {"id": "message 4"})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        (
            ["a", {"type": "input_text", "text": "b"}, {"type": "image_url", "image_url": {"url": "u"}}],
            "a\nb",
        ),
        ([], ""),
        (None, None),
        ("", ""),
    ],
)
def test_content_is_text_or_parts_or_null(content: object, text: str | None) -> None:
    """Text parts stand on lines of their own; parts that are no text are left out; null is captured."""
    event = read({"role": "user", "content": content}).events[0]
    assert (event.kind, event.text, event.content) == ("user", text, "captured")


def test_content_that_is_not_there_was_not_captured() -> None:
    """A message, call or result with a missing field, not a null, is `absent`."""
    decoded = read({"role": "user"}, asks({"id": "c", "name": "t"}), {"role": "tool", "tool_call_id": "c"})
    assert [event.content for event in decoded.events] == ["absent", "absent", "absent", "captured"]


def test_a_refusal_is_the_assistants_message() -> None:
    """The refusal's text is the event's where there is no other."""
    event = read({"role": "assistant", "content": None, "refusal": "I can't"}).events[0]
    assert (event.text, event.attributes) == ("I can't", {"refusal": "true"})


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        ({}, None),
        ({"error": False}, None),
        ({"error": None}, None),
        ({"error": True}, "tool_error"),
        ({"is_error": True}, "tool_error"),
        ({"status": "error"}, "tool_error"),
        ({"error": "timeout"}, "timeout"),
        ({"error": {"type": "not_found", "message": "..."}}, "not_found"),
        ({"error": {"message": "..."}}, "tool_error"),
    ],
)
def test_an_error_is_what_the_log_flags(flag: dict[str, Any], error: str | None) -> None:
    """Only a flag makes an error, whatever the result's text begins with."""
    assert read(answers("Error: not found", "c", **flag)).events[0].error == error


def test_results_that_are_no_text_are_json() -> None:
    """Objects and lists that a tool returned are their JSON text; text parts are text."""
    decoded = read(
        answers({"b": 1, "a": [None]}),
        answers([1, 2]),
        answers([{"type": "text", "text": "x"}]),
        answers(None),
    )
    assert [event.result for event in results(decoded)] == ['{"b":1,"a":[null]}', "[1,2]", "x", None]


def test_the_customers_own_tools_are_nested() -> None:
    """tau2 lets the customer call tools too: neither those calls nor their results are the agent's."""
    decoded = read(
        {"role": "user", "content": None, "tool_calls": [{"id": "1", "name": "reboot", "arguments": {}}]},
        {"role": "tool", "id": "1", "content": "ok", "requestor": "user"},
        asks({"id": "2", "name": "look", "arguments": {}, "requestor": "assistant"}),
    )
    assert [(event.kind, event.nested) for event in decoded.events] == [
        ("tool_call", True),
        ("tool_result", True),
        ("tool_call", False),
        ("end", False),
    ]
    assert decoded.events[0].attributes == {"requestor": "user"}


def test_times_are_the_messages_own() -> None:
    """Without a zone they are UTC, or local to the given zone; the occurrence is the first event's time."""
    messages = [{"role": "user", "content": t, "timestamp": f"2026-02-17T10:00:0{t}.5"} for t in "12"]
    first, second, end = read(*messages).events
    assert first.time == first.occurrence == second.occurrence == parse_time("2026-02-17T10:00:01.5Z")
    assert second.time == end.time == first.time + NS
    tokyo = read(*messages, zone=ZoneInfo("Asia/Tokyo"))
    assert tokyo.events[0].time == first.time - 9 * 3600 * NS


def test_missing_times_are_those_of_the_neighbours() -> None:
    """A message without a time has that of the one before; the first ones that of the first that has one."""
    decoded = read(
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b", "created_at": 100},
        {"role": "user", "content": "c"},
        {"role": "user", "content": "d", "created_at": 90},
        {"role": "user", "content": "e"},
    )
    assert [event.time // NS for event in decoded.events] == [100, 100, 100, 90, 90, 100]
    assert [event.text for event in decoded.events] == ["a", "b", "c", "d", "e", None]


def test_without_any_time_messages_stand_one_second_apart() -> None:
    """The epoch plus the message's index; events of one message share its time."""
    decoded = read({"role": "system", "content": "s"}, asks(call("t"), text="x"), answers("r"))
    assert [event.time for event in decoded.events] == [NS, NS, 2 * NS, 2 * NS]


def test_the_session_id_is_the_logs_own() -> None:
    """An id of the conversation's, else task, trial and digest; equal messages give equal digests."""
    hello = {"role": "user", "content": "hi"}
    assert read(hello, header={"id": "x", "session_id": 7}).session_id == "7"
    assert read(hello, header={"id": "x", "task_id": 1}).session_id == "x"
    bare = read(hello)
    assert bare.session_id == bare.digest[:16]
    assert read(hello, header={"task_id": 3, "trial": 0}).session_id == f"3/0/{bare.digest[:16]}"
    assert read({"content": "hi", "role": "user"}).digest == bare.digest
    assert read({"content": "ho", "role": "user"}).digest != bare.digest


def test_who_and_what_else() -> None:
    """The message, else the conversation, names agent, model, service; other plain fields are attributes."""
    message = {"role": "assistant", "content": "x", "name": "triage", "model": "m2", "turn": 3, "ok": True}
    decoded = read(
        {**message, "usage": {"prompt_tokens": 5}, "raw": {"deep": 1}, "long": "x" * 2000},
        {"role": "user", "content": "y", "name": "ann"},
        header={"agent": "front", "model": "m1", "service": "shop"},
    )
    first, second = decoded.events[:2]
    assert (first.agent, first.model, first.service) == ("triage", "m2", "shop")
    assert (second.agent, second.model, second.service) == ("front", "m1", "shop")
    assert first.attributes == {"turn": "3", "ok": "true", "usage.prompt_tokens": "5"}
    assert second.attributes == {"name": "ann"}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (None, "chat-message"),
        ("hi", "chat-message"),
        ({}, "chat-role"),
        ({"role": "wizard", "content": "x"}, "chat-role"),
        ({"role": ["user"], "content": "x"}, "chat-role"),
        ({"role": "user", "content": 5}, "chat-content"),
        ({"role": "user", "content": [5]}, "chat-content"),
        ({"role": "user", "content": [{"type": "tool_result", "content": "x"}]}, "chat-content"),
        ({"role": "assistant", "tool_calls": "x"}, "chat-calls"),
        ({"role": "tool", "tool_call_id": {}, "content": "x"}, "chat-id"),
        ({"role": "tool", "tool_call_id": "x" * 5000, "content": "x"}, "chat-id"),
        ({"role": "user", "content": "x", "timestamp": "noon"}, "chat-time"),
        ({"role": "user", "content": "x", "timestamp": {}}, "chat-time"),
    ],
)
def test_a_message_that_cannot_be_read_is_a_flaw(message: object, code: str) -> None:
    """It is named by place and code; the messages beside it are read."""
    decoded = read({"role": "user", "content": "a"}, message, {"role": "user", "content": "b"})
    assert codes(decoded) == [("session 1, message 2", code)]
    assert [event.text for event in decoded.events] == ["a", "b", None]


def test_a_call_that_cannot_be_read_is_a_flaw_of_its_own() -> None:
    """The other calls of its message, and its text, are read."""
    decoded = read(asks(call("a"), {"id": "x"}, "call", call("b"), text="t"))
    assert codes(decoded) == [
        ("session 1, message 1, call 2", "chat-call"),
        ("session 1, message 1, call 3", "chat-call"),
    ]
    assert rows_of(decoded)[:3] == [("assistant", "t"), ("tool_call", "a"), ("tool_call", "b")]


@pytest.mark.parametrize(
    "value", ['"\\ud800"', "NaN", "-Infinity", "1e999", "[" * 300 + "]" * 300], ids=lambda text: text[:8]
)
def test_what_json_cannot_carry_is_a_flaw_of_its_message(value: str) -> None:
    """Lone surrogates, NaN, infinities and deep nesting cost one message, not the file."""
    text = f'[{{"role":"user","content":"a","x":{value}}},{{"role":"user","content":"b"}}]'
    (found,) = conversations(read_json(text.encode()))
    assert isinstance(found, RecordedConversation)
    decoded = decode(found)
    assert codes(decoded) == [("session 1, message 1", "chat-value")]
    assert rows_of(decoded) == [("user", "b"), ("end", None)]


def test_large_integers_are_read_the_same_by_either_reader() -> None:
    """Exact up to 64 bits, doubles beyond, also where a neighbour made the file not quite JSON."""
    strict = read_json(b"[18446744073709551615, 123456789012345678901234567890]")
    lenient = read_json(b"[18446744073709551615, 123456789012345678901234567890, NaN]")
    assert isinstance(strict, list)
    assert isinstance(lenient, list)
    assert lenient[:2] == strict == [18446744073709551615, 1.2345678901234568e29]
    assert encode(lenient) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[1,", b"\xff", b"[" * 100_000, b"{}{}", b'{"a": tru}'])
def test_what_is_not_json_is_a_value_error(data: bytes) -> None:
    """The error has the place, and quotes nothing."""
    with pytest.raises(ValueError, match=r"not JSON at line|not UTF-8 at byte|nested too deeply") as caught:
        read_json(data)
    assert "tru" not in str(caught.value)


def test_a_conversation_without_events_has_no_end() -> None:
    """Without a message there is no session."""
    decoded = read({"role": "system", "content": "policy"})
    assert (decoded.events, decoded.instructions, decoded.flaws) == ((), 1, ())


def test_a_conversation_beyond_its_limit_is_a_flaw() -> None:
    """`MESSAGES_MAX` messages are read, one more are not."""
    flaws = read(*[None] * (MESSAGES_MAX + 1)).flaws
    assert [flaw.code for flaw in flaws] == ["chat-length"]


HELLO = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ([HELLO, HELLO], ["session 1"]),
        ([None, HELLO], ["session 1"]),
        ({"messages": [HELLO]}, ["session 1"]),
        ({"traj": [HELLO], "reward": 1.0}, ["session 1"]),
        ([{"messages": [HELLO]}, {"traj": [HELLO]}], ["session 1", "session 2"]),
        ([[HELLO], [HELLO]], ["session 1", "session 2"]),
        ({"simulations": [{"messages": [HELLO]}], "info": {}}, ["session 1"]),
        ([{"role": "x", "messages": [HELLO]}], ["session 1"]),
        ([], []),
    ],
)
def test_conversations_are_found_in_every_shape(value: object, places: list[str]) -> None:
    """A list of messages, an object with `messages` or `traj`, lists of either, tau2's simulations."""
    found = list(conversations(value))
    assert all(
        isinstance(conversation, RecordedConversation) and HELLO in conversation.messages
        for conversation in found
    )
    assert [conversation.place for conversation in found] == places


@pytest.mark.parametrize(
    "value", [None, 5, "text", {}, {"resourceSpans": []}, {"messages": 5}, [5], [{"a": 1}]]
)
def test_what_is_no_conversation_is_a_flaw(value: object) -> None:
    """Anything else is named, with the place of the member in a list."""
    assert [(type(flaw), flaw.place) for flaw in conversations(value)] == [(InputFlaw, "session 1")]


def test_tau2s_model_is_that_of_its_agent() -> None:
    """The run's header names the model of all its simulations."""
    value = {"info": {"agent_info": {"llm": "gpt"}}, "simulations": [{"id": "s", "messages": [HELLO]}]}
    (found,) = conversations(value)
    assert isinstance(found, RecordedConversation)
    assert decode(found).events[0].model == "gpt"
