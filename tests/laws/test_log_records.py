"""Content in log records is read as if it stood on its span, in whatever order spans and records come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import msgspec
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.schemas.candidate import Candidate
from tracline.schemas.dialects.parts.log_record import LogRecord, content_of
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span import Span
from tracline.schemas.time import NS

from ..support.sources import Source

BEGUN = 1_771_329_600 * NS
LATENESS_S, HOLD_S = 5, 60
SETTINGS = SessionSettings(lateness_s=LATENESS_S, hold_s=HOLD_S)
DETAILS = "gen_ai.client.inference.operation.details"
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
EVENTS = {"system": "gen_ai.system.message", "user": "gen_ai.user.message"}
EVENTS |= {"assistant": "gen_ai.assistant.message", "tool": "gen_ai.tool.message"}
STEP = NS // 4
RETRIED = 0.2


@dataclass(frozen=True)
class Sent:
    """Records that arrive together, and when."""

    time: int
    decoded: Decoded


def message(role: str, text: str, **more: object) -> dict[str, object]:
    """Return a message in OpenAI's form, which attributes and records may both hold."""
    return {"role": role, "content": text, **more}


def conversation(random: Random, place: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what a model is asked and what it answers."""
    called = {
        "id": f"call_{place}",
        "type": "function",
        "function": {"name": "look", "arguments": f'{{"n":{place}}}'},
    }
    asked = [message("system", "be kind"), message("user", f"question {place}")]
    if random.random() < 0.5:
        asked += [
            {"role": "assistant", "content": None, "tool_calls": [called]},
            message("tool", "found", tool_call_id=called["id"]),
        ]
    answer = message("assistant", f"answer {place}")
    if random.random() < 0.4:
        answer = {"role": "assistant", "content": None, "tool_calls": [called]}
    return asked, [answer]


def trace(random: Random, number: int) -> tuple[list[Span], list[Span], list[list[LogRecord]]]:
    """Return a trace with content on its spans, the same without it, and its log records by request."""
    trace_id, start = f"{number + 1:032x}", BEGUN + number * 2 * NS
    count = random.randint(1, 5)
    names = {"gen_ai.conversation.id": "s", "gen_ai.agent.name": "desk"}
    root = Span(trace_id, "f" * 16, None, "turn", start, start + (count + 1) * STEP)
    root = msgspec.structs.replace(root, attributes={"gen_ai.operation.name": "invoke_agent", **names})
    whole, bare, requests = [root], [root], [list[LogRecord]()]
    for place in range(count):
        begin = start + place * STEP + random.randrange(STEP)
        end = min(begin + random.randrange(1, 2 * STEP), root.end)
        about = {"gen_ai.operation.name": "chat", **(names if random.random() < 0.3 else {})}
        asked, answered = conversation(random, place)
        span = Span(trace_id, f"{place + 1:016x}", root.span_id, "chat", begin, end, attributes=about)
        whole.append(msgspec.structs.replace(span, attributes=about | {INPUT: asked, OUTPUT: answered}))
        if random.random() < 0.25:
            bare.append(whole[-1])
            continue
        on_span = {INPUT: asked} if random.random() < 0.2 else {}
        bare.append(msgspec.structs.replace(span, attributes=about | on_span))
        for record in records(random, span, asked, answered):
            # Where a request has one time only, the order of requests of that time is not known.
            is_one_time = {request.time for request in requests[-1]} == {record.time}
            if random.random() < 0.3 and requests[-1] and not is_one_time:
                requests.append([])
            requests[-1].append(replace(record, place=len(requests[-1])))
    return whole, bare, [part for part in requests if part]


def records(
    random: Random, span: Span, asked: Sequence[dict[str, Any]], answered: Sequence[dict[str, Any]]
) -> list[LogRecord]:
    """Return the content of a span as records, in the order in which they are sent."""
    forms: list[tuple[str, object, dict[str, Any]]]
    if random.random() < 0.5:
        form = random.choice([lambda value: value, lambda value: orjson.dumps(value).decode()])
        forms = [(DETAILS, None, {INPUT: form(asked), OUTPUT: form(answered)})]
    else:
        forms = [(EVENTS[message["role"]], message, {}) for message in asked]
        forms += [("gen_ai.choice", {"index": 0, "message": message}, {}) for message in answered]
    coarse = random.choice([1, 1_000_000])
    return [
        LogRecord(
            span.trace_id,
            span.span_id,
            (span.start // coarse * coarse + place // (1 if coarse == 1 else 2) * coarse),
            name,
            content_of(name, body, attributes)[0],
        )
        for place, (name, body, attributes) in enumerate(forms)
    ]


def shuffled(random: Random, spans: Sequence[Span], requests: Sequence[Sequence[LogRecord]]) -> list[Sent]:
    """Return what comes, each within the lateness after its span's end, some of it twice."""
    ends = {(span.trace_id, span.span_id): span.end for span in spans}
    sent: list[Sent] = []
    for span in spans:
        for _ in range(1 + (random.random() < RETRIED)):
            sent.append(Sent(span.end + random.randrange(LATENESS_S * NS), Decoded((span,))))
    for part in requests:
        latest = max(record.time for record in part)
        until = min(ends[record.trace_id, record.span_id] for record in part) + LATENESS_S * NS
        for _ in range(1 + (random.random() < RETRIED)):
            time = random.randrange(min(latest, until - 1), until)
            sent.append(Sent(time, Decoded(records=tuple(part), latest=latest)))
    return sorted(sent, key=lambda sent_at: sent_at.time)


def live(random: Random, sent: Sequence[Sent]) -> tuple[set[str], Source]:
    """Return the candidates of what comes, with ticks and restarts in between."""
    source, made = Source(SETTINGS), set[str]()
    stored: dict[str, list[bytes]] = {}
    last = 0

    def release(now: int) -> None:
        nonlocal source
        made.update(map(text, (span_released.made for span_released in source.release(now))))
        for name, entry in source.entries():
            if entry is None:
                stored.pop(name, None)
            else:
                stored[name] = [entry.data] if entry.is_whole else [*stored[name], entry.data]
        if random.random() < 0.2:
            assert source.unjoined_records == 0
            source = Source(SETTINGS, stored, source.state.times)

    for span_released in sent:
        if random.random() < 0.5:
            source.idle(span_released.time)
            release(span_released.time)
        source.add_request(span_released.decoded, span_released.time)
        release(span_released.time)
        last = span_released.time
    source.idle(last + HOLD_S * NS - 1)
    release(last + HOLD_S * NS - 1)
    return made, source


def text(made: object) -> str:
    """Return a candidate so that equal ones are equal; one that names itself does not wait for its root."""
    assert isinstance(made, Candidate), made
    return repr(msgspec.structs.replace(made, within=()))


def on_the_span(spans: Sequence[Span]) -> set[str]:
    """Return the candidates of spans that have their content themselves, all known at once."""
    source, last = Source(SETTINGS), max(span.end for span in spans)
    source.add_request(Decoded(tuple(spans)), last)
    source.idle(last + HOLD_S * NS - 1)
    return {text(span_released.made) for span_released in source.release(last + HOLD_S * NS - 1)}


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_whatever_order_spans_and_records_come_in_they_are_read_as_content_on_the_span(seed: int) -> None:
    """With retries, requests cut anywhere, coarse clocks and restarts, the candidates are the same."""
    random = Random(seed)
    traces = [trace(random, number) for number in range(random.randint(1, 3))]
    whole = [span for spans, _, _ in traces for span in spans]
    bare = [span for _, spans, _ in traces for span in spans]
    requests = [part for _, _, of_trace in traces for part in of_trace]
    found, source = live(random, shuffled(random, bare, requests))
    assert found == on_the_span(whole)
    assert source.waiting == source.waiting_records == 0
