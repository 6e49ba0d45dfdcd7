"""Candidates whose content nobody has read: the rekeyer sends bytes, and the monitor reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tracline.schemas.candidate import Candidate, Claim
from tracline.schemas.event import Kind
from tracline.schemas.span_content import SpanRole
from tracline.stream.messages.codec import CandidateBatch, decode, encode
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.unread import UnreadCandidates

from ...support.conversations.keyed import SOURCES, Work, pure, rekeyer, work


@pytest.fixture(scope="module")
def done() -> Work:
    """Some conversations."""
    return work(range(4))


def refused(*arguments: Any) -> tuple[int, int]:
    """Refuse every request, so that it is decoded."""
    arguments[-1].fill(-1)
    return 0, 0


def test_candidates_do_not_depend_on_when_content_is_read(
    done: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of spans that the monitor reads are those of spans that the rekeyer reads."""
    sent = [candidate for batch in raw_batches(done.records) for candidate in batch.candidates]
    assert sent
    # Requests in JSON are decoded.
    assert sum(bool(candidate.request) for candidate in sent) > len(sent) / 3
    assert not any(candidate.request and candidate.claims for candidate in sent)
    late = pure(done.records)
    monkeypatch.setattr("tracline.schemas.walk.locate.walk_all", refused)
    assert pure(done.records) == late
    sent = [candidate for batch in raw_batches(done.records) for candidate in batch.candidates]
    assert not any(candidate.request for candidate in sent)


def raw_batches(records: Sequence[Record]) -> list[CandidateBatch]:
    """Return the batches of records as they are sent."""
    sources = rekeyer()
    for source in range(SOURCES):
        sources.assign(source, {})
    outputs = sources.take(records).outputs
    messages = [decode(output.value or b"") for output in outputs if output.topic is Topic.EVENTS]
    return [message for message in messages if isinstance(message, CandidateBatch)]


def test_a_span_that_the_monitor_cannot_read_is_a_dead_letter_of_its_record() -> None:
    """The dead letter names topic, partition and offset of the source; the others are read."""
    damaged = Candidate("s", SpanRole.CHAT, 1, 2, (), "t", "u", request=b"\xff", origin=(7, b"\x01"))
    read = Candidate("s", SpanRole.CHAT, 1, 2, (Claim(Kind.USER, 1),))
    batch = CandidateBatch(3, SOURCES, 9, 5, [damaged, read], topic="otlp_spans")
    candidates, (letter,) = UnreadCandidates().read(batch, 11)
    assert candidates == [read]
    assert (letter.topic, letter.partition, letter.offset) == ("otlp_spans", 3, 7)
    assert (letter.place, letter.code, letter.sha256, letter.time) == (
        "trace t, span u",
        "internal",
        "01",
        11,
    )


def test_a_batch_of_the_release_before_is_read() -> None:
    """Its candidates have their claims, and no field that this release added."""
    batch = CandidateBatch(0, SOURCES, 9, 5, [Candidate("s", SpanRole.CHAT, 1, 2, (Claim(Kind.USER, 1),))])
    fields = msgspec.to_builtins(batch)
    del fields["topic"]
    for added in ("request", "without", "run", "origin", "history"):
        fields["candidates"][0].pop(added, None)
    assert decode(b"TL\x01" + msgspec.msgpack.encode(fields)) == batch
    assert encode(batch)[:3] == b"TL\x02"
