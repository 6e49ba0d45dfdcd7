"""Events as messages of a model, and back by the reader of chat logs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tracline.schemas.chat.decode import decode
from tracline.schemas.chat.encode import ChatMessage, answer_of, chat_messages, open_calls
from tracline.schemas.chat.find import RecordedConversation
from tracline.schemas.event import Event, Kind


def event(kind: Kind, **more: object) -> Event:
    """Return an event without a place."""
    return replace(Event("s", 0, 0, 1, kind), **more)


def called(tool: str, call_id: str | None = None, args: str = "{}") -> Event:
    """Return a call."""
    return event(Kind.TOOL_CALL, tool=tool, call_id=call_id, args=args)


def result(text: str | None, call_id: str | None = None, tool: str | None = None) -> Event:
    """Return a result."""
    return event(Kind.TOOL_RESULT, result=text, call_id=call_id, tool=tool)


def spoken(kind: Kind, text: str | None) -> Event:
    """Return a message."""
    return event(kind, text=text)


def decoded(messages: list[ChatMessage]) -> list[Event]:
    """Return the events of messages, without the end."""
    found = decode(RecordedConversation(list(messages), {}, "model"))
    assert not found.flaws
    return list(found.events[:-1])


def test_a_turn_has_its_text_its_calls_and_their_results() -> None:
    """Calls that follow a text are of its message; those after a result are of a new one."""
    events = [
        spoken(Kind.USER, "hi"),
        spoken(Kind.ASSISTANT, "I look"),
        called("look", "a"),
        called("look", "b", '{"x": 1}'),
        result("one", "a"),
        result("two", "b"),
        called("pay"),
        result("done"),
    ]
    messages = chat_messages(events)
    assert [message["role"] for message in messages] == [
        *("user", "assistant", "tool", "tool", "assistant", "tool"),
    ]
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["a", "b"]
    assert messages[1]["tool_calls"][1]["function"] == {"name": "look", "arguments": '{"x": 1}'}
    assert messages[4]["tool_calls"][0]["id"] == messages[5]["tool_call_id"]


def test_a_call_without_an_answer_gets_an_empty_one_unless_it_is_the_last() -> None:
    """The last ones are open; answers close them."""
    messages = chat_messages([called("look", "a"), spoken(Kind.USER, "well?"), called("pay", "a")])
    assert messages[1] == {"role": "tool", "tool_call_id": "a", "content": ""}
    [call] = open_calls(messages)
    assert call["function"]["name"] == "pay"
    assert call["id"] != "a"
    assert open_calls([*messages, answer_of(call, "paid")]) == []


def test_a_late_result_and_one_without_a_call_get_a_call_before_them() -> None:
    """So that each answer of a tool follows its call."""
    events = [
        called("look", "a"),
        spoken(Kind.USER, "and?"),
        result("late", "a"),
        result("odd", "z", "count"),
    ]
    messages = chat_messages(events)
    names = [call["function"]["name"] for message in messages for call in message.get("tool_calls", ())]
    assert names == ["look", "unknown", "count"]
    assert [message["content"] for message in messages if message["role"] == "tool"] == ["", "late", "odd"]


def test_what_the_model_does_not_see_is_left_out() -> None:
    """Events of sub-agents and unknown ones."""
    events = [event(Kind.ASSISTANT, text="inner", nested=True), event(Kind.UNKNOWN), event(Kind.END)]
    assert chat_messages(events) == []


WORDS = st.sampled_from(["", "a", "b c"])
TOOLS, IDS = st.sampled_from(["look", "pay"]), st.sampled_from([None, "a", "b"])
EVENTS = st.lists(
    st.one_of(
        st.builds(spoken, st.just(Kind.USER), WORDS),
        # An empty text of the assistant before calls is none.
        st.builds(spoken, st.just(Kind.ASSISTANT), st.sampled_from(["a", "b c"])),
        st.builds(called, TOOLS, IDS, st.sampled_from(["{}", '{"x":1}'])),
        st.builds(result, WORDS, IDS, st.none() | TOOLS),
    ),
    max_size=12,
)


@pytest.mark.slow
@given(EVENTS)
def test_every_event_comes_back_in_its_order(events: list[Event]) -> None:
    """Beside the answers and the calls that were added; and each answer of a tool follows its call."""
    messages = chat_messages(events)
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting
        waiting = [call["id"] for call in message.get("tool_calls", ())]
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert len(ids) == len(set(ids))
    read = iter([(each.kind, each.text or each.result or "") for each in decoded(messages)])
    for each in events:
        assert (each.kind, each.text or each.result or "") in read
