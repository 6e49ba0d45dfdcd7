"""Log records that wait for their span, live: how long, how many, and what no longer comes in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest
from tracline.schemas.candidate import Candidate
from tracline.schemas.dialects.parts.log_record import LogRecord, content_of
from tracline.schemas.event import Content, Kind
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.otlp.signal import Signal
from tracline.schemas.sessions import pending as traces_module
from tracline.schemas.sessions.trace import SPAN_CHARS, OpenTrace
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span import Span, Value
from tracline.schemas.time import NS

from ...support.sources import Source

T = 1_771_329_600 * NS
TRACE = "a" * 32
SETTINGS = SessionSettings(lateness_s=5, hold_s=60)
WHO: dict[str, Value] = {"gen_ai.conversation.id": "s", "gen_ai.agent.name": "desk"}
OWN: dict[str, Value] = {
    "gen_ai.input.messages": '[{"role": "user", "content": "mine"}]',
    "gen_ai.output.messages": '[{"role": "assistant", "content": "here"}]',
}


def chat(number: int, end: float, attributes: Mapping[str, Value] | None = None, **more: str | None) -> Span:
    """Return a model's call that names its session, of one second."""
    about: dict[str, Value] = {"gen_ai.operation.name": "chat", **WHO, **(attributes or {})}
    start, stop = round(T + (end - 1) * NS), round(T + end * NS)
    span = Span(TRACE, f"{number:016x}", None, "chat", start, stop, attributes=about)
    return msgspec.structs.replace(span, **more)  # pyright: ignore[reportArgumentType]


def records(number: int, end: float, *names: str) -> Decoded:
    """Return a request of log records of that call: what it was asked, and what it answered."""
    bodies: dict[str, Value] = {
        "gen_ai.user.message": {"content": "hi"},
        "gen_ai.choice": {"message": {"content": "yes"}},
    }
    times = {"gen_ai.user.message": round(T + (end - 1) * NS), "gen_ai.choice": round(T + end * NS)}
    of_span = [
        LogRecord(TRACE, f"{number:016x}", times[name], name, content_of(name, bodies[name], {})[0], 0, place)
        for place, name in enumerate(names or bodies)
    ]
    return Decoded(records=tuple(of_span), latest=max(record.time for record in of_span))


def at(seconds: float) -> int:
    """Return a time."""
    return round(T + seconds * NS)


def content_released(source: Source, now: int) -> list[tuple[str, list[str | None]]]:
    """Return the released spans, each with the texts of its claims and the kind of unknown ones."""
    made = [item.made for item in source.release(now)]
    return [
        (
            item.span_id,
            [each.kind.value if each.kind is Kind.UNKNOWN else each.text for each in item.claims],
        )
        for item in made
        if isinstance(item, Candidate)
    ]


ONE, TWO = f"{1:016x}", f"{2:016x}"
KNOWN = (ONE, ["hi", "yes"])
UNKNOWN = (ONE, ["unknown", "unknown"])


def test_a_span_waits_for_log_records_as_long_as_for_other_spans() -> None:
    """Both may come within the lateness; records that come first wait for their span."""
    source = Source(SETTINGS)
    source.add_request(records(1, 1, "gen_ai.user.message"), at(0.1))
    source.add_request(Decoded((chat(1, 1),)), at(1.1))
    source.idle(at(5.9))
    assert content_released(source, at(5.9)) == []
    source.add_request(records(1, 1, "gen_ai.choice"), at(5.9))
    source.idle(at(6))
    assert content_released(source, at(6)) == [KNOWN]
    assert (source.waiting, source.waiting_records) == (0, 0)


def test_the_time_of_a_source_is_that_of_the_input_that_is_behind() -> None:
    """While log records are on their way no span goes on before they have come as far, nor is it judged."""
    source = Source(SETTINGS)
    source.add_request(records(1, 1), at(1))
    source.add_request(Decoded((chat(1, 1), chat(2, 20, OWN))), at(20))
    source.idle_spans(at(60))
    assert (source.state.times.spans, source.state.times.logs, source.watermark) == (at(55), at(-4), at(-4))
    assert content_released(source, at(20)) == []
    source.add_request(records(3, 12), at(20))
    assert source.watermark == at(7)
    assert content_released(source, at(20)) == [KNOWN]
    source.idle_logs(at(60))
    assert source.watermark == at(55)
    assert content_released(source, at(60)) == [(TWO, ["mine", "here"])]


def test_where_no_log_record_ever_came_nothing_waits_for_any() -> None:
    """Records without content, and idle inputs without any, do not count as an input."""
    source = Source(SETTINGS)
    source.add_request(Decoded(passed_over=9, latest=at(0)), at(1))
    source.add_request(Decoded((chat(1, 1), chat(2, 6))), at(6))
    assert source.state.times.logs is None
    assert source.watermark == at(1)
    assert content_released(source, at(6)) == [UNKNOWN]


def test_a_broken_request_of_log_records_does_not_advance_the_spans_time() -> None:
    """Records that wait for their span are not dropped for it, whenever it comes."""
    source = Source(SETTINGS)
    source.add_request(records(1, 1), at(1))
    source.add_request(Decoded(), at(100_000), signal=Signal.LOGS)
    assert source.release(source.record_time) == []
    assert (source.waiting_records, source.unjoined_records) == (2, 0)


def test_the_time_does_not_go_back_when_the_first_log_record_comes() -> None:
    """A record of long ago is late, and holds up what comes after it no more than another."""
    source = Source(SETTINGS)
    source.add_request(Decoded((chat(1, 1), chat(2, 60))), at(60))
    assert content_released(source, at(60)) == [UNKNOWN]
    source.add_request(records(1, 1), at(60))
    assert source.watermark == at(55)
    source.idle(at(70))
    assert content_released(source, at(70)) == [(TWO, ["unknown", "unknown"])]
    assert (source.late_records, source.unjoined_records, source.waiting_records) == (2, 0, 0)


def test_a_time_in_the_future_is_no_progress() -> None:
    """A record that claims a time beyond `skew_s` does not push the time on."""
    source = Source(SETTINGS)
    source.add_request(replace(records(1, 1), latest=at(9_000)), at(1))
    assert source.state.times.logs == 0


def test_records_without_their_span_are_dropped_after_hold() -> None:
    """A span that comes later lacks what they held: none of its halves is partial."""
    source = Source(SETTINGS)
    source.add_request(records(1, 1, "gen_ai.user.message"), at(1))
    source.idle(at(60))
    assert content_released(source, at(60)) == []
    assert source.waiting_records == 1
    source.idle(at(61))
    assert content_released(source, at(61)) == []
    assert (source.waiting_records, source.unjoined_records) == (0, 1)
    source.add_request(records(1, 1), at(62))
    source.add_request(Decoded((chat(1, 1),)), at(62))
    made = [item.made for item in source.release(at(62))]
    assert isinstance(made[0], Candidate)
    assert [item.content for item in made[0].claims] == [Content.TRUNCATED, Content.TRUNCATED]


def test_records_of_a_span_with_its_content_are_dropped_silently() -> None:
    """They repeat it, whether they come before it or after."""
    source = Source(SETTINGS)
    source.add_request(records(1, 1), at(1))
    source.add_request(Decoded((chat(1, 1, OWN),)), at(1))
    source.idle(at(6))
    assert content_released(source, at(6)) == [(ONE, ["mine", "here"])]
    source.add_request(records(1, 1), at(7))
    assert content_released(source, at(7)) == []
    assert (source.late_records, source.unjoined_records, source.waiting_records) == (0, 0, 0)


def test_records_of_a_span_that_is_no_call_are_counted() -> None:
    """Those of a span that only names the session of others add to nothing."""
    source = Source(SETTINGS)
    turn = msgspec.structs.replace(chat(1, 1), attributes=WHO)
    source.add_request(records(1, 1), at(1))
    source.add_request(Decoded((turn,)), at(1))
    source.idle(at(6))
    assert content_released(source, at(6)) == []
    assert (source.unjoined_records, source.waiting_records) == (2, 0)


def test_a_span_sent_again_is_not_read_without_its_log_records() -> None:
    """The first copy went on with them."""
    source = Source(SETTINGS)
    source.add_request(records(1, 1), at(1))
    source.add_request(Decoded((chat(1, 1),)), at(1))
    source.idle(at(6))
    assert content_released(source, at(6)) == [KNOWN]
    source.add_request(Decoded((chat(1, 1),)), at(8))
    source.idle(at(30))
    assert content_released(source, at(30)) == []
    assert source.waiting == 0


def test_an_agent_with_messages_in_log_records_waits_for_its_turn() -> None:
    """It began before a call inside it ended, so its claims at the start come first."""
    source = Source(SETTINGS)
    agent = msgspec.structs.replace(chat(1, 4, parent_id="f" * 16), start=at(0))
    agent = msgspec.structs.replace(agent, attributes={"gen_ai.operation.name": "invoke_agent"})
    source.add_request(records(1, 4), at(4))
    source.add_request(Decoded((agent, chat(2, 3, OWN))), at(4))
    source.idle(at(20))
    assert content_released(source, at(20)) == []
    root = Span(TRACE, "f" * 16, None, "turn", at(0), at(5), attributes={**WHO})
    source.add_request(Decoded((root,)), at(20))
    assert [name for name, _ in content_released(source, at(20))] == [ONE, TWO]


def test_records_count_among_what_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """If there is too much, records that waited longest for a span are dropped, and counted."""
    monkeypatch.setattr(traces_module, "WAITING_CHARS_MAX", 10 * SPAN_CHARS)
    monkeypatch.setattr(traces_module, "WAITING_CHARS_LEFT", 5 * SPAN_CHARS)
    source = Source(SETTINGS)
    for number in range(1, 9):
        source.add_request(records(number, 1), at(number))
        assert content_released(source, at(number)) == []
    assert source.unjoined_records > 0
    assert source.waiting_records <= 9
    assert source.unjoined_records + source.waiting_records == 16


def test_a_trace_that_an_earlier_release_stored_is_gone_on_with() -> None:
    """It has no log records; a span of it may get some now."""
    source = Source(SETTINGS)
    source.add_request(Decoded((chat(1, 1),)), at(1))
    [(name, stored)] = source.changes().items()
    assert stored is not None
    value = msgspec.msgpack.decode(stored[1])
    for field in ("records", "requests", "cut"):
        del value[field]
    older = msgspec.msgpack.encode(value)
    assert msgspec.msgpack.decode(older, type=OpenTrace).records == {}
    again = Source(SETTINGS, {name: [older]}, source.state.times)
    again.add_request(records(1, 1), at(2))
    again.idle(at(6))
    assert content_released(again, at(6)) == [KNOWN]
