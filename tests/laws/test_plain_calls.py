"""Calls of models have the same claims straight from the JSON of their messages as in the ordinary way."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.schemas.candidate import Candidate
from tracline.schemas.dialects.names import opentelemetry_1_41 as otel
from tracline.schemas.plain.span import PlainSpans
from tracline.schemas.plain_calls.calls import CallBatch
from tracline.schemas.plain_calls.conversation import PlainCalls
from tracline.schemas.sessions.resolve import whole_candidate
from tracline.schemas.span import Span, Value
from tracline.schemas.span_content import SpanRole

from benchmarks.desk_spans import desk_spans

from ..support.otlp_requests import to_otlp
from .test_single import as_sent_on

TOGETHER = st.sampled_from((1, 2, 5, 100))
"""Numbers of calls that are read at once."""
Written = dict[str, Any]
"""A message or a part of one, as JSON has it."""

ODD_TEXTS = ("", "a", "é\U0001f600", "[REDACTED]", "__REDACTED__", "x" * 1_001, "\ud800", '{"a": 1}')
ODD_VALUES = (*ODD_TEXTS, None, 7, 2**70, 1.5, True, [], {}, ["a"], {"a": {"b": [1.0]}}, "NaN", "null")
ROLES = ("user", "assistant", "tool", "system", "human", "ai", "User", "other", "", None)
KINDS = ("text", "tool_call", "tool_call_response")
EDITS = (
    *((": ", ": :"), (", ", ", , "), ("}]", "}"), ('"role"', '"role": "user", "role"'), ("\\", "\\\\")),
    *(('"type"', '"type": "text", "type"'), ('"type"', '"type": "tool_call", "type"'), ("[", "[ ")),
    *(('"content"', '"content": null, "content"'), ('"id"', '"id": 5, "id"'), ("1", "01"), ("1", "1e999")),
    *(('"arguments"', '"arguments": "\\ud800", "arguments"'), ("a", "\\u0061"), ("a", "\\ud83d")),
    *(('"parts"', '"parts": [], "parts"'), ('"}]', '"}], "parts": []'), ('"text"', '"t\\u0065xt"')),
)
"""Changes of a JSON text at one place."""


def part(random: Random, kind: str, ids: list[str], *, is_odd: bool) -> Written:
    """Return a part of a message, an odd one in any way."""
    made: Written = {"type": kind}
    if kind == "text":
        made["content"] = random.choice(("Hello", "é", "", "two\nlines"))
    elif kind == "tool_call":
        ids.append(f"c{random.randrange(6)}")
        arguments = random.choice(({"b": 1, "a": [1.5, "é"]}, {}, '{"q": 2}', "x", [1]))
        made |= {"id": ids[-1], "name": random.choice("fg"), "arguments": arguments}
    else:
        made |= {"id": random.choice(ids or ["c0"]), "response": random.choice(("ok", "", '{"r": 1}'))}
    if is_odd:
        name = random.choice([*made, "x", "result", "name", "content", "thought"])
        if random.random() < 0.3:
            made.pop(name, None)
        else:
            made[name] = random.choice(ODD_VALUES)
    return made


def message(random: Random, role: str, ids: list[str], *, is_odd: bool) -> Written:
    """Return a message; one that is not odd has the parts that messages of its role have."""
    of_role = {"assistant": ("text", "tool_call"), "tool": ("tool_call_response",)}.get(role, ("text",))
    kinds = KINDS if is_odd and random.random() < 0.3 else of_role
    parts = [
        part(random, random.choice(kinds), ids, is_odd=is_odd and random.random() < 0.3)
        for _ in range(random.choice((1, 1, 1, 2, 3)))
    ]
    made: Written = {"role": role, "parts": parts}
    if is_odd and random.random() < 0.3:
        made["role"] = random.choice(ROLES)
    if is_odd and random.random() < 0.2:
        made[random.choice(("name", "finish_reason", "parts", "content"))] = random.choice(ODD_VALUES)
    return made


def calls(random: Random, oddness: float) -> Iterator[tuple[str, str | None, bool]]:
    """Yield the inputs and outputs of the calls of a conversation, and whether each failed."""
    history: list[Written] = []
    ids: list[str] = []
    for _ in range(random.randrange(1, 7)):
        for _ in range(random.randrange(3)):
            role = random.choice(("user", "tool", "system") if ids else ("user", "system"))
            history.append(message(random, role, ids, is_odd=random.random() < oddness))
        answer = message(random, "assistant", ids, is_odd=random.random() < oddness)
        reason = (
            {"finish_reason": random.choice(("stop", "tool_call", None))} if random.random() < 0.8 else {}
        )
        answers = [answer | reason] * random.choice((1, 1, 1, 1, 2))
        separators = random.choice(((", ", ": "), (",", ":")))
        texts = [
            edited(json.dumps(each, separators=separators), random, oddness) for each in (history, answers)
        ]
        is_failed = random.random() < 0.15
        yield texts[0], None if is_failed and random.random() < 0.5 else texts[1], is_failed
        replacement = message(random, "assistant", [], is_odd=False)
        history.append(replacement if random.random() < oddness else answer)
        if random.random() < oddness:
            del history[random.randrange(len(history)) :]


def edited(text: str, random: Random, oddness: float) -> str:
    """Return a JSON text, perhaps with an edit or cut off."""
    if random.random() >= oddness / 2:
        return text
    old, new = random.choice(EDITS)
    places = text.split(old)
    at = random.randrange(len(places))
    return random.choice(
        (old.join(places[:at]) + new + old.join(places[at:]), text[: len(text) - at], " " + text)
    )


def requests(random: Random, oddness: float) -> list[bytes]:
    """Return the spans of the calls of some conversations of one session."""
    sent: list[tuple[int, bytes]] = []
    for conversation in range(random.choice((1, 1, 2, 6))):
        for place, (asked, answer, is_failed) in enumerate(calls(random, oddness)):
            attributes: dict[str, Value] = {otel.OPERATION: "chat", otel.INPUT_MESSAGES: asked}
            if answer is not None:
                attributes[otel.OUTPUT_MESSAGES] = answer
            span = Span("5e" * 16, "a1" * 8, "b2" * 8, "n", 1, 2, attributes, failed=is_failed)
            data = as_sent_on(to_otlp([span]).SerializeToString())[0]
            sent += [(7 * place + conversation, data)] * random.choice((1, 1, 1, 2))
    return [data for _, data in sorted(sent, key=lambda pair: pair[0])]


def check(sent: Sequence[bytes], step: int = 10, together: int = 1) -> Counter[bool]:
    """Assert that calls have the same claims with a memory and without; count those read straight.

    So many are read at once.
    """
    memory, counts = PlainCalls(), Counter[bool]()
    for first in range(0, len(sent), together):
        requests = sent[first : first + together]
        starts = [step * place for place in range(first, first + len(requests))]
        unread = [
            Candidate("s", SpanRole.CHAT, start, start + 5, (), request=request)
            for request, start in zip(requests, starts, strict=True)
        ]
        read = [*unread]
        batch = CallBatch(PlainSpans(requests), read)
        for place in range(len(read)):
            batch.add(place, memory)
        batch.read()
        for whole, before in zip(read, unread, strict=True):
            counts[not whole.request] += 1
            if not whole.request:
                ordinary = whole_candidate(before, None)
                assert whole.chars == ordinary.chars
                assert whole.joined() == ordinary.joined()
                past = () if whole.history is None else whole.history.claims
                assert all(claim.time == 0 and claim.past for claim in past)
        assert memory.chars == sum(len(call.text) for call in memory.calls)
    return counts


@given(st.integers(0, 2**32), TOGETHER)
@settings(max_examples=150)
def test_plain_messages_are_read_straight(seed: int, together: int) -> None:
    """Conversations without an odd message: all calls are."""
    counts = check(requests(Random(seed), 0), together=together)
    assert counts[True]
    assert not counts[False]


@given(st.integers(0, 2**32), st.sampled_from((0.02, 0.1, 0.5)), TOGETHER)
@settings(max_examples=400)
def test_odd_messages_have_the_claims_of_the_ordinary_way(seed: int, oddness: float, together: int) -> None:
    """Messages, parts and texts that are odd at any place, and histories that are cut."""
    check(requests(Random(seed), oddness), together=together)


def test_some_calls_are_odd_and_some_are_not() -> None:
    """The laws above compare both ways, also in one session."""
    each = [check(requests(Random(seed), 0.1)) for seed in range(60)]
    assert sum(1 for counts in each if counts[True] and counts[False]) > 10


def test_the_calls_of_the_desk_are_read_straight() -> None:
    """All calls of the simulated desk, by session; all spans of one kind have the same start here."""
    by_session: dict[object, list[bytes]] = {}
    for span in desk_spans(1_500):
        if span.attributes.get(otel.OPERATION) == "chat":
            data = as_sent_on(to_otlp([span]).SerializeToString())[0]
            by_session.setdefault(span.attributes.get(otel.CONVERSATION), []).append(data)
    every = (check(sent, 0, together) for sent in by_session.values() for together in (1, 3))
    counts = sum(every, Counter[bool]())
    assert counts[True] > 500
    assert not counts[False]


@pytest.mark.parametrize("text", ["[]", "[ ]", "[{}]", "[null]", "null", '"a"', "{}", "[REDACTED]", "", "x"])
@pytest.mark.parametrize("half", [otel.INPUT_MESSAGES, otel.OUTPUT_MESSAGES])
def test_small_texts_have_the_claims_of_the_ordinary_way(half: str, text: str) -> None:
    """An input or output with no message, twice."""
    plain = '[{"role": "%s", "parts": [{"type": "text", "content": "b"}]}]'
    both = {otel.INPUT_MESSAGES: plain % "user", otel.OUTPUT_MESSAGES: plain % "assistant"}
    span = Span("5e" * 16, "a1" * 8, "b2" * 8, "n", 1, 2, {otel.OPERATION: "chat", **both, half: text})
    check(as_sent_on(to_otlp([span]).SerializeToString()) * 2)
