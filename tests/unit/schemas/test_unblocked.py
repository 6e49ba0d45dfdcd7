"""Overlapping spans of one trace that name their session: judged in the order of their events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

import msgspec
import orjson
import pytest
from tracline.schemas.candidate import Candidate
from tracline.schemas.event import Event
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.sessions.pending import Released
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span import Span, Value
from tracline.schemas.time import NS

from ...support.sources import Source

BEGUN = 1_771_329_600 * NS
WHO: dict[str, Value] = {"gen_ai.conversation.id": "s", "gen_ai.agent.name": "desk"}


def span(number: int, start: float, end: float, attributes: dict[str, Value]) -> Span:
    """A span of the trace, in seconds."""
    times = BEGUN + round(start * NS), BEGUN + round(end * NS)
    return Span("a" * 32, f"{number:016x}", None, "work", *times, attributes=WHO | attributes)


def asking(agent_span: Span) -> Span:
    """Return the span without session and agent, inside one that has not come."""
    attributes = {name: value for name, value in agent_span.attributes.items() if name not in WHO}
    return msgspec.structs.replace(agent_span, parent_id="f" * 16, attributes=attributes)


def chat(number: int, start: float, end: float, question: str, answered: str) -> Span:
    """A model's call."""
    messages = [
        orjson.dumps([{"role": role, "content": text}]).decode()
        for role, text in (("user", question), ("assistant", answered))
    ]
    attributes: dict[str, Value] = {"gen_ai.operation.name": "chat"}
    attributes |= {"gen_ai.input.messages": messages[0], "gen_ai.output.messages": messages[1]}
    return span(number, start, end, attributes)


def run(number: int, start: float, end: float) -> Span:
    """A tool's run."""
    attributes: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    attributes |= {"gen_ai.tool.call.arguments": f'{{"n": {number}}}', "gen_ai.tool.call.result": "ok"}
    return span(number, start, end, attributes)


TRACE = (
    chat(1, 0, 4, "hi", "ok"),
    run(2, 1, 2),
    run(3, 3, 4.5),
    chat(4, 4.2, 6, "and?", "yes"),
    run(5, 7, 8),
)


def made(released: Iterable[Released]) -> list[Candidate]:
    """The candidates that went on."""
    return [item.made for item in released if isinstance(item.made, Candidate)]


def live(spans: Sequence[Span]) -> list[Event]:
    """Return the events, each span taken in as it comes, with half-seconds of silence between."""
    source, session, events = (
        Source(SessionSettings(lateness_s=5)),
        SessionAssembler("s", 3_600 * NS),
        list[Event](),
    )
    for place in range(60):
        now = BEGUN + place * NS // 2
        ended = [item for item in spans if now - NS // 2 < item.end <= now]
        source.add_request(Decoded(tuple(ended)), now)
        source.idle(now)
        for candidate in made(source.release(now)):
            session.add(candidate)
        events += session.advance(source.watermark)
    return events


def at_once(spans: Sequence[Span]) -> list[Event]:
    """The events where all has come before anything is judged."""
    source, session = Source(SessionSettings()), SessionAssembler("s", 3_600 * NS)
    source.add_request(Decoded(tuple(spans)), BEGUN + 60 * NS)
    source.idle(BEGUN + 600 * NS)
    for candidate in made(source.release(BEGUN + 600 * NS)):
        session.add(candidate)
    return session.advance(BEGUN + 60 * NS)


@pytest.mark.parametrize("order", list(permutations(range(5)))[::24])
def test_what_overlaps_is_judged_in_order(order: tuple[int, ...]) -> None:
    """A run inside a call waits for the call, which began before it: live as in batch, and none is late."""
    spans = [TRACE[place] for place in order]
    events = live(spans)
    assert events == at_once(spans)
    assert [event.time for event in events] == sorted(event.time for event in events)
    assert not any(event.late for event in events)
    assert len(events) == 10


def test_what_does_not_overlap_waits_for_nothing() -> None:
    """A span goes on when the time has passed its end, if none that began before that is still waited for."""
    source = Source(SessionSettings(lateness_s=5))
    source.add_request(Decoded((TRACE[1], TRACE[4])), BEGUN + 8 * NS)
    assert [candidate.span_id for candidate in made(source.release(BEGUN + 8 * NS))] == [TRACE[1].span_id]


def test_a_named_span_waits_for_an_unnamed_one() -> None:
    """A retry that overlaps its first try, one with the session: both are released with the root."""
    first, retry = asking(chat(2, 1, 4, "hi", "ok")), chat(3, 2, 3, "hi", "ok")
    source = Source(SessionSettings(lateness_s=5))
    source.add_request(Decoded((first, retry)), BEGUN + 4 * NS)
    source.idle(BEGUN + 20 * NS)
    assert made(source.release(BEGUN + 20 * NS)) == []
    root = msgspec.structs.replace(span(1, 0, 5, {"gen_ai.operation.name": "invoke_agent"}), span_id="f" * 16)
    source.add_request(Decoded((root,)), BEGUN + 21 * NS)
    released = made(source.release(BEGUN + 21 * NS))
    assert {candidate.span_id for candidate in released} == {first.span_id, retry.span_id}
    assert {candidate.session_id for candidate in released} == {"s"}


def test_what_has_waited_long_enough_takes_along_what_could_go_on() -> None:
    """If one goes on out of turn after `hold_s`, none that sorts before it is left behind to be late."""
    outer, inside, later = chat(1, 0, 30, "hi", "ok"), run(2, 1, 2), run(3, 3, 4)
    source = Source(SessionSettings(lateness_s=5, hold_s=60))
    source.add_request(Decoded((later,)), BEGUN + 5 * NS)
    source.add_request(Decoded((outer, inside)), BEGUN + 31 * NS)
    assert made(source.release(BEGUN + 64 * NS)) == []
    assert {candidate.span_id for candidate in made(source.release(BEGUN + 65 * NS))} == {
        inside.span_id,
        later.span_id,
    }
