"""Candidates do not depend on the process that reads their spans, nor on what the monitor remembers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.script import support_session
from tracline.schemas.otlp.protobuf import decode_protobuf
from tracline.schemas.plain_calls.calls import CallBatch
from tracline.schemas.plain_calls.conversation import PlainCall, PlainCalls
from tracline.schemas.time import NS
from tracline.stream.messages.codec import CandidateBatch, decode
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic
from tracline.stream.stages import unread

from ..support.conversations.agent_spans import spans
from ..support.conversations.keyed import SETTINGS, inputs, rekeyer, work
from ..support.conversations.recordings import FOLDER, names, requests_of
from ..support.conversations.span_plan import Dialect, Manner
from ..support.otlp_requests import to_otlp

SEEDS = range(12)
EVENTS = Topic.EVENTS


def refused(*arguments: Any) -> tuple[int, int]:
    """Refuse every request, so that the rekeyer decodes it."""
    arguments[-1].fill(-1)
    return 0, 0


def recorded(name: str) -> list[Record]:
    """Return the requests of a recording, each a record at the end of its last span."""
    return [
        Record(0, offset, max(span.end for span in decode_protobuf(body).spans), body)
        for offset, body in enumerate(requests_of(FOLDER / name / "otlp" / "requests.pb.zst"))
    ]


def candidates(records: Sequence[Record]) -> list[str]:
    """Return the candidates of records as the monitor has them, also of those that wait for their root."""
    sources = rekeyer()
    numbers = sorted({record.partition for record in records})
    for number in numbers:
        sources.assign(number, {})
    latest = max(record.time for record in records) + round(SETTINGS.hold_s + 60) * NS
    results = [sources.take([record]) for record in records]
    results.append(sources.idle(inputs(numbers), latest))
    messages = [
        decode(sent.value or b"") for result in results for sent in result.outputs if sent.topic is EVENTS
    ]
    monitor = unread.UnreadCandidates()
    reads = [monitor.read(message, 0) for message in messages if isinstance(message, CandidateBatch)]
    assert not any(dead_letters for _, dead_letters in reads)
    return [repr(candidate.joined()) for found, _ in reads for candidate in found]


def ways(records: Sequence[Record], patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the candidates of records, read in several ways."""
    yield candidates(records)
    patch.setattr(unread, "CHARS_MAX", 0)
    yield candidates(records)
    patch.setattr("tracline.schemas.walk.locate.walk_all", refused)
    yield candidates(records)


@pytest.mark.parametrize("name", names())
def test_candidates_of_recordings_do_not_depend_on_their_reader(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With memory, without it, and read by the rekeyer."""
    remembered, forgotten, decoded = ways(recorded(name), monkeypatch)
    assert remembered
    assert remembered == forgotten == decoded


@pytest.mark.parametrize("seed", SEEDS)
def test_candidates_of_conversations_do_not_depend_on_their_reader(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In random dialects and manners, in three partitions."""
    remembered, forgotten, decoded = ways(work(range(seed, seed + 3)).records, monkeypatch)
    assert remembered
    assert remembered == forgotten == decoded


def test_an_error_in_the_loops_leaves_calls_to_the_ordinary_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """No span is a dead letter for it, and the next message is read, too."""
    records = work(range(3)).records
    expected = candidates(records)

    def broken(_batch: CallBatch) -> None:
        raise ArithmeticError

    monkeypatch.setattr(CallBatch, "read", broken)
    assert candidates(records) == expected


def test_the_monitor_continues_most_calls_of_a_long_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rekeyer reads none of their messages, and the monitor only those behind the call before."""
    continued: list[bool] = []
    find = PlainCalls.continued

    def noted(calls: PlainCalls, data: bytes, begin: int, stop: int) -> tuple[PlainCall, int]:
        call, size = find(calls, data, begin, stop)
        continued.append(size > 0)
        return call, size

    monkeypatch.setattr(PlainCalls, "continued", noted)
    every = [support_session(session) for session in conversations(Desk(sessions=4, seed=8))]
    sent = [span for session in every for span in spans(session, Manner(dialect=Dialect.GENAI))]
    bodies = [to_otlp([span]).SerializeToString() for span in sent]
    assert candidates([Record(0, at, span.end, bodies[at]) for at, span in enumerate(sent)])
    assert sum(continued) > len(continued) / 2
