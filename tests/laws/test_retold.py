"""Each model call repeats the conversation: the cache of messages changes no span's content."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.script import support_session
from tracline.schemas.dialects import read_content
from tracline.schemas.dialects.parts import messages
from tracline.schemas.dialects.parts.messages import CACHED_BYTES_MAX, message_of
from tracline.schemas.span import Span, Value
from tracline.schemas.span_content import Message, Role, SpanContent

from ..support.agent_spans import spans
from ..support.scripts import random_session
from ..support.span_plan import Dialect, Manner
from .test_dialects import SPANS, VALUES

SESSIONS = [*map(support_session, conversations(Desk(sessions=4, seed=3))), *map(random_session, range(4))]


def conversing(manner: Manner) -> Iterator[list[Span]]:
    """The spans of each conversation, in the order of their ends."""
    return (spans(session, manner) for session in SESSIONS)


def without_cache(span: Span) -> SpanContent:
    """Return the span's content without cached messages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "CACHED_BYTES_MAX", -1)
        return read_content(span)


@pytest.mark.parametrize("structured", [False, True], ids=["text", "structured"])
@pytest.mark.parametrize("dialect", Dialect)
def test_what_is_remembered_changes_nothing(dialect: Dialect, structured: bool) -> None:
    """In every dialect a span has the same content with cached messages as without."""
    for trace_spans in conversing(Manner(dialect=dialect, structured=structured, retried=0.3, wrapped=0.3)):
        assert list(map(read_content, trace_spans)) == list(map(without_cache, trace_spans))


@pytest.mark.parametrize("dialect", Dialect)
def test_repeated_messages_are_not_read_again(dialect: Dialect) -> None:
    """At least nine in ten of the repeated messages are the same objects as before."""
    same = again = 0
    for trace_spans in conversing(Manner(dialect=dialect)):
        before: list[Message] = []
        for inputs in filter(None, (read_content(span).input for span in trace_spans)):
            retold = [message for message in inputs if message in before]
            again += len(retold)
            same += sum(any(message is earlier for earlier in before) for message in retold)
            before += inputs
    assert again > 100
    assert same >= 0.9 * again


def test_a_long_message_is_not_remembered() -> None:
    """The memory for many long messages is bounded: one beyond the limit is read each time."""
    short, long = ({"role": "user", "content": "x" * size} for size in (10, CACHED_BYTES_MAX))
    assert message_of(dict(short), Role.USER) is message_of(dict(short), Role.USER)
    assert message_of(dict(long), Role.USER) == message_of(dict(long), Role.USER)
    assert message_of(dict(long), Role.USER) is not message_of(dict(long), Role.USER)


@pytest.mark.parametrize(
    ("first", "second"),
    [(float("nan"), None), (1, True), (1, 1.0), ("1", 1), (b"1", "1"), ("\ud800", "?"), ([], {})],
    ids=repr,
)
def test_values_that_look_alike_are_distinguished(first: Value, second: Value) -> None:
    """Neither equality nor JSON takes two values for one: each has the same content as alone."""
    for value in (first, second, first):
        for message in ({"role": "user", "content": value}, {"role": "tool", "content": value}):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(messages, "CACHED_BYTES_MAX", -1)
                alone = message_of(message, Role.USER)
            assert message_of(message, Role.USER) == alone


@given(st.lists(VALUES, min_size=1, max_size=4), st.sampled_from(Role))
@settings(max_examples=80, deadline=None)
def test_any_message_is_read_alike_with_and_without_the_cache(values: list[Value], speaker: Role) -> None:
    """Any values, each twice, have the same content as without a cache."""
    read = [message_of(value, speaker) for value in (*values, *values)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "CACHED_BYTES_MAX", -1)
        assert read == [message_of(value, speaker) for value in (*values, *values)]


@given(SPANS)
@settings(max_examples=40, deadline=None)
def test_any_span_has_the_same_content_with_and_without_the_cache(span: Span) -> None:
    """Known names with any value give the same step, remembered or not."""
    assert read_content(span) == read_content(span) == without_cache(span)
