"""Chat logs: whatever a log holds, every message is accounted for, and no input ends the process."""

import json
from collections import Counter
from contextlib import suppress
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from tracline.schemas.chat.decode import DecodedConversation, decode
from tracline.schemas.chat.find import RecordedConversation, conversations
from tracline.schemas.event import content_of, event_id
from tracline.schemas.open_calls import OpenCall, OpenCalls
from tracline.schemas.tolerant_json import read_json

IDS = st.sampled_from(["a", "b", "c"])
TOOLS = st.sampled_from(["find", "look"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
"""Values of well-formed JSON."""
VALUES = st.recursive(
    SCALARS | st.integers() | st.sampled_from(["\ud800", float("inf")]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)

CALLS = st.one_of(
    st.fixed_dictionaries(
        {"id": IDS, "function": st.fixed_dictionaries({"name": TOOLS, "arguments": st.text()})}
    ),
    st.fixed_dictionaries({"id": IDS, "name": TOOLS, "arguments": st.dictionaries(st.text(), SCALARS)}),
)
TEXT = st.text(min_size=1)
MESSAGES = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "developer"]), "content": TEXT}),
    st.fixed_dictionaries({"role": st.just("user"), "content": TEXT}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": TEXT}),
    st.fixed_dictionaries(
        {
            "role": st.just("assistant"),
            "content": st.none() | TEXT,
            "tool_calls": st.lists(CALLS, min_size=1, max_size=3),
        }
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": IDS, "content": TEXT}),
    st.fixed_dictionaries({"role": st.just("tool"), "name": TOOLS, "content": TEXT}),
)
"""Messages of a well-formed log; ids are reused, results may lack a call and calls a result."""

HOSTILE = st.one_of(
    MESSAGES,
    VALUES,
    st.dictionaries(
        st.sampled_from(
            [
                "role",
                "content",
                "tool_calls",
                "function_call",
                "tool_call_id",
                "id",
                "name",
                "timestamp",
                "error",
                "usage",
                "model",
            ]
        ),
        VALUES | st.sampled_from(["user", "assistant", "tool"]) | st.lists(CALLS | VALUES, max_size=2),
    ),
)


def read(messages: list[Any]) -> DecodedConversation:
    """The messages decoded as they would be read from a file."""
    return decode(RecordedConversation(messages, {}, "session 1"))


def plainly(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return what a plain loop over the raw messages finds: kind and text, tool or result of each event."""
    events: list[tuple[str, str]] = []
    for message in messages:
        if message["role"] in ("user", "assistant") and message["content"]:
            events.append((message["role"], message["content"]))
        for call in message.get("tool_calls", ()):
            events.append(("tool_call", call.get("function", call)["name"]))
        if message["role"] == "tool":
            events.append(("tool_result", message["content"]))
    return events


@given(st.lists(MESSAGES))
def test_events_are_what_a_plain_loop_over_the_messages_finds(messages: list[dict[str, Any]]) -> None:
    """All of them, in message order, with places from 1; nothing of a well-formed log is a flaw."""
    decoded = read(messages)
    events = decoded.events[:-1]
    found = [(str(event.kind), event.text or event.result or event.tool) for event in events]
    assert found == plainly(messages)
    assert [event.seq for event in decoded.events] == list(range(1, len(decoded.events) + 1))
    assert decoded.flaws == ()
    assert decoded.instructions == sum(m["role"] in ("system", "developer") for m in messages)


@given(st.lists(MESSAGES))
def test_every_result_carries_the_arguments_of_one_earlier_call(messages: list[dict[str, Any]]) -> None:
    """No call is answered twice, none before it was made, and a result is bare only if no call fits."""
    unanswered: list[tuple[str | None, str | None, str | None]] = []
    for event in read(messages).events:
        if event.kind == "tool_call":
            unanswered.append((event.call_id, event.tool, event.args))
        if event.kind == "tool_result" and event.args is not None:
            unanswered.remove((event.call_id, event.tool, event.args))
        elif event.kind == "tool_result":
            assert not any(
                event.call_id in (call_id, None) and event.tool == tool for call_id, tool, _ in unanswered
            )


@given(st.lists(st.tuples(st.booleans(), IDS | st.none(), TOOLS, st.booleans())))
def test_open_calls_agree_with_their_definition(steps: list[tuple[bool, str | None, str, bool]]) -> None:
    """The nearest unanswered call of the id; without one the first in the latest message that has one."""
    calls, opened, message = OpenCalls(), list[OpenCall](), 0
    for asks, call_id, tool, same_message in steps:
        if asks:
            message += not same_message
            opened.append(OpenCall(message, call_id, tool, None, False))
            calls.add(opened[-1])
            continue
        waiting = [call for call in opened if not call.answered]
        if call_id is not None:
            expected = next((call for call in reversed(waiting) if call.call_id == call_id), None)
        else:
            fitting = [call for call in waiting if call.tool == tool]
            expected = next((call for call in fitting if call.message == fitting[-1].message), None)
        assert calls.answer(call_id, tool, strict=True) is expected


@given(st.lists(HOSTILE))
def test_every_hostile_message_is_an_event_an_instruction_or_a_flaw(messages: list[Any]) -> None:
    """Nothing raises, and no message vanishes: each has an event, is an instruction or has a flaw."""
    for index in range(len(messages)):
        alone = read([messages[index]])
        assert alone.events or alone.instructions or alone.flaws
    whole = read(messages)
    alone = [read([message]) for message in messages]
    assert len(whole.flaws) == sum(len(decoded.flaws) for decoded in alone)
    kinds = Counter(event.kind for decoded in alone for event in decoded.events[:-1])
    assert Counter(event.kind for event in whole.events[:-1]) == kinds


@given(st.lists(MESSAGES, min_size=1))
def test_ids_are_of_an_events_content_and_its_ordinal(messages: list[dict[str, Any]]) -> None:
    """Each id is that of its session, occurrence, kind, content, and the number of equals before it."""
    seen: Counter[str] = Counter()
    for event in read(messages).events:
        content = content_of(event)
        key = json.dumps([event.kind, content])
        assert event.event_id == event_id(event.session_id, event.occurrence, event.kind, content, seen[key])
        seen[key] += 1


@given(VALUES)
def test_any_json_is_conversations_or_flaws(value: Any) -> None:
    """Whatever a file holds, finding and decoding its conversations raises nothing."""
    for found in conversations(value):
        if isinstance(found, RecordedConversation):
            assert read(found.messages).digest
        else:
            assert found.code == "chat-shape"


@given(st.binary() | VALUES.map(lambda value: json.dumps(value).encode()))
def test_reading_json_agrees_with_the_library_where_that_reads_it(data: bytes) -> None:
    """`read_json` reads what orjson reads, to the same value; what it refuses raises ValueError at most."""
    try:
        expected = orjson.loads(data)
    except orjson.JSONDecodeError:
        with suppress(ValueError):
            read_json(data)
    else:
        assert read_json(data) == expected


def test_decoding_takes_time_in_proportion() -> None:
    """Tens of thousands of calls without ids in one message, answered one by one, pair in their order."""
    wide = 20_000
    asked = [{"name": "t", "arguments": {"n": n}} for n in range(wide)]
    messages: list[Any] = [{"role": "assistant", "content": None, "tool_calls": asked}]
    messages += [{"role": "tool", "content": str(n)} for n in range(wide)]
    results = [event for event in read(messages).events if event.kind == "tool_result"]
    assert [event.args for event in results] == [f'{{"n":{n}}}' for n in range(wide)]
