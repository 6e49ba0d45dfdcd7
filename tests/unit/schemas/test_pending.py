"""How much may wait at one source for roots that do not come."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tracline.schemas.candidate import Candidate
from tracline.schemas.chat.find import InputFlaw
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.sessions import pending as traces_module
from tracline.schemas.sessions.pending import SPAN_CHARS, Released
from tracline.schemas.sessions.span_reading import SpanReading
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span import Span
from tracline.schemas.span_content import Message, Role, SpanContent, SpanRole, ToolCall, ToolResult
from tracline.schemas.time import NS

from ...support.sources import PendingTraces, Source

HOLD = 3_600 * NS
TEXT = "x" * 1_000
LATER = 90 * NS
"""A time that has passed all spans."""


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for ten spans, of which seven are left where there were more."""
    monkeypatch.setattr(traces_module, "WAITING_CHARS_MAX", 10 * (SPAN_CHARS + len(TEXT)))
    monkeypatch.setattr(traces_module, "WAITING_CHARS_LEFT", 7 * (SPAN_CHARS + len(TEXT)))


def waiting(n: int, *, of: str | None = None, end: int | None = None) -> SpanReading:
    """A span that came as the n-th, a second after the one before, and asks for a root."""
    content = SpanContent(SpanRole.CHAT, input=(Message(Role.USER, TEXT),), output=())
    return SpanReading(
        of or f"t{n}",
        f"s{n}",
        "root",
        n * NS,
        n * NS + 1 if end is None else end,
        content,
        record_time=n * NS,
    )


def names(released: Iterable[Released]) -> list[str]:
    """The spans that went on, in their order."""
    return [one.reading.span_id for one in released]


@pytest.mark.parametrize("order", [range(1, 12), range(11, 0, -1), (6, 1, 11, 2, 10, 3, 9, 4, 8, 5, 7)])
def test_where_too_much_waits_those_that_waited_longest_go_on(order: Iterable[int]) -> None:
    """They count as early, as after `hold_s`; the others wait on. The order of what came does not matter."""
    traces = PendingTraces(HOLD, HOLD)
    spans = [waiting(n) for n in order]
    for one in sorted(spans, key=lambda one: one.record_time)[:10]:
        traces.add(one)
    assert names(traces.release(LATER, 0)) == []
    traces = PendingTraces(HOLD, HOLD)
    for one in spans:
        traces.add(one)
    gone = list(traces.release(LATER, 0))
    assert sorted(names(gone)) == ["s1", "s2", "s3", "s4"]
    assert all(one.is_early for one in gone)
    assert sum(len(one.waiting) for one in traces.traces.values()) == 7
    assert names(traces.release(LATER, 0)) == []


def test_what_can_go_on_makes_room_first() -> None:
    """A root that comes with what is too much lets its spans go, and nothing goes early."""
    traces = PendingTraces(HOLD, HOLD)
    for n in range(1, 12):
        traces.add(waiting(n, of="one" if n > 6 else None))
    root = SpanReading(
        "one", "root", None, 0, 2 * NS, SpanContent(SpanRole.AGENT, session="s", agent="bot"), record_time=NS
    )
    traces.add(root)
    gone = list(traces.release(LATER, 0))
    assert {one.reading.trace_id for one in gone} == {"one"}
    assert not any(one.is_early for one in gone)


def test_what_the_time_has_not_passed_waits_whatever_it_takes() -> None:
    """It could not be judged: the time passes it soon."""
    traces = PendingTraces(HOLD, HOLD)
    for n in range(1, 21):
        traces.add(waiting(n, end=80 * NS))
    assert names(traces.release(79 * NS, 0)) == []
    assert len(names(traces.release(80 * NS, 0))) == 13


def test_all_texts_of_a_span_count() -> None:
    """Messages, calls with their arguments, results and attributes; not what every span has."""
    call, result = ToolCall("c", "tool", "{}"), ToolResult("c", "tool", "found")
    message = Message(Role.ASSISTANT, "hello", calls=(call,), results=(result,))
    chat = SpanContent(
        SpanRole.CHAT, session="s", input=(message,), output=(message,), attributes={"user": "eve"}
    )
    assert chat.chars == 2 * (5 + 7 + 10) + 7
    assert SpanContent(SpanRole.TOOL, call=call, result=result).chars == 7 + 10
    assert SpanContent(SpanRole.OTHER).chars == 0


def spans() -> list[Span]:
    """Return spans of several traces, with texts, without their roots."""
    said = f'[{{"role": "user", "parts": [{{"type": "text", "content": "{TEXT}"}}]}}]'
    about = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": said}
    return [
        Span(f"{n % 9:032x}", f"{n + 1:016x}", "f" * 16, "chat", n * NS, n * NS + 5, attributes=about)
        for n in range(1, 61)
    ]


def told(made: Candidate | InputFlaw) -> str:
    """Return the ids of the released spans."""
    assert isinstance(made, Candidate)
    return made.span_id


@pytest.mark.parametrize("restarted", [False, True])
def test_a_restart_lets_the_same_go_on(*, restarted: bool) -> None:
    """While nothing but such spans comes what waits is bounded; it is counted from what was stored."""
    settings = SessionSettings(hold_s=3_600, lateness_s=0)
    source, stored, gone = Source(settings), dict[str, tuple[int, bytes] | None](), list[str]()
    coming = spans()
    for some in (coming[first : first + 4] for first in range(0, len(coming), 4)):
        latest = max(one.end for one in some)
        source.add_request(Decoded(tuple(some), (), 0), latest)
        gone += [told(one.made) for one in source.release(source.record_time)]
        stored |= source.changes()
        assert source.waiting <= 10
        if restarted:
            kept = {name: [one[1]] for name, one in stored.items() if one is not None}
            source = Source(settings, kept, source.state.times)
    assert sorted(gone) == [f"{n + 1:016x}" for n in range(1, len(gone) + 1)]
    assert len(gone) >= 50
