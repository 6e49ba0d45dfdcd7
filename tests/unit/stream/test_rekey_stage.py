"""The rekey stage without its broker: it may end anywhere and go on from what it has written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from tracline.schemas.candidate import Candidate
from tracline.schemas.chat.find import InputFlaw
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.otlp.signal import Signal
from tracline.schemas.records.dead_letter import DeadLetter, decode_dead_letter
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span import Span, Value
from tracline.schemas.time import NS
from tracline.stream.error import StreamError
from tracline.stream.group.rekey_sources import EncodedRekeyResult, requests_of
from tracline.stream.group.rekey_state import FACTS
from tracline.stream.ingest.request import Encoding
from tracline.stream.ingest.request import decode as decode_request
from tracline.stream.messages.codec import CandidateBatch, Tick, decode, partition_of
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.resolve import SourceState

from ...support.conversations.keyed import (
    PARTITIONS,
    SETTINGS,
    SOURCES,
    Rekeyer,
    Work,
    batches_of,
    candidates_of,
    inputs,
    places_of,
    pure,
    rekeyer,
    work,
)
from ...support.conversations.scripts import START_NS
from ...support.processes.live import wire
from ...support.sources import Source

SEEDS = range(10)


@pytest.fixture(scope="module")
def done() -> Work:
    """Ten conversations."""
    return work(SEEDS)


@dataclass
class Topics:
    """The writes of a rekeyer: its state by source and key, its batches in order."""

    state: list[dict[str, bytes]] = field(default_factory=lambda: [{} for _ in range(SOURCES)])
    batches: list[CandidateBatch] = field(default_factory=list)
    largest: int = 0

    def write(self, done: EncodedRekeyResult) -> None:
        """Write a transaction, as the broker does."""
        self.batches += batches_of(done)
        for output in done.outputs:
            self.largest = max(self.largest, len(output.value or b""))
            if output.topic is Topic.REKEY_STATE:
                assert output.partition is not None
                assert output.key is not None
                if output.value is None:
                    del self.state[output.partition][output.key]
                else:
                    self.state[output.partition][output.key] = output.value

    def begin(self, sources: Iterable[int] = range(SOURCES), **how: object) -> Rekeyer:
        """A process that starts, with these sources."""
        rekey = rekeyer(**how)
        for source in sources:
            rekey.assign(source, self.state[source])
        return rekey


def test_candidates_are_those_of_the_conversations(done: Work) -> None:
    """The candidates assemble to the events of the conversations, each once; to the right partition."""
    topics = Topics()
    taken = topics.begin().take(done.records)
    topics.write(taken)
    assert places_of(candidate for batch in topics.batches for candidate in batch.candidates) == done.places
    assert taken.metrics.candidates == sum(len(batch.candidates) for batch in topics.batches)
    # Some spans carry nothing.
    assert taken.metrics.items[Topic.SPANS] > taken.metrics.candidates > 100
    for output in taken.outputs:
        message = decode(output.value or b"") if output.topic is Topic.EVENTS else None
        if isinstance(message, CandidateBatch):
            assert {partition_of(candidate.session_id, PARTITIONS) for candidate in message.candidates} == {
                output.partition
            }


@pytest.mark.slow
def test_it_may_end_after_any_record(done: Work) -> None:
    """A new process for every record, from what the one before wrote, sends what one for all sends."""
    topics = Topics()
    for record in done.records:
        topics.write(topics.begin([record.partition]).take([record]))
    assert candidates_of(topics.batches) == pure(done.records)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_what_is_not_written_is_done_again(seed: int, done: Work) -> None:
    """Ends before its transaction is written, with sources that change hands: each candidate once."""
    random = Random(seed)
    topics = Topics()
    place, owners = 0, [topics.begin()]
    while place < len(done.records):
        portion = done.records[place : place + random.randint(1, 12)]
        crashes = random.random() < 0.3
        parts = [
            rekey.step(requests_of([record for record in portion if record.partition in rekey.assigned]))
            for rekey in owners
        ]
        if not crashes:
            place += len(portion)
            for rekey, part in zip(owners, parts, strict=True):
                rekey.apply(part.writes)
                topics.write(part)
        if crashes or random.random() < 0.2:
            sources = random.sample(range(SOURCES), SOURCES)
            cut = random.randint(0, SOURCES)
            owners = [topics.begin(sources[:cut]), topics.begin(sources[cut:])]
    assert candidates_of(topics.batches) == pure(done.records)


def test_state_is_forgotten_with_its_traces(done: Work) -> None:
    """Once no span came of a trace for `idle_s`, no record of it is left."""
    topics = Topics()
    rekey = topics.begin()
    topics.write(rekey.take(done.records))
    assert rekey.waiting() == SOURCES
    assert rekey.remembered() == SOURCES
    assert all(FACTS in state and len(state) == 2 for state in topics.state)


def test_messages_and_state_stay_within_their_size(done: Work) -> None:
    """Cut into chunks, the batches and the state are the same; a span that does not fit is reported."""
    limit = 6_000
    topics, letters = Topics(), []
    for record in done.records:
        part = topics.begin(bytes_max=limit).take([record])
        letters += letters_of(part)
        topics.write(part)
    everything, sent = pure(done.records), candidates_of(topics.batches)
    assert topics.largest < limit + 200
    assert sent <= everything
    assert (everything - sent).total() == len(letters)
    assert letters
    assert {letter.code for letter in letters} == {"size"}
    assert sent.total() > 10 * len(letters)


def test_a_letter_names_the_record_that_its_span_came_in(done: Work) -> None:
    """Not the process that lost it: the one that sends that record again sends the span again."""
    topics = Topics()
    records = {
        (source_record.partition, source_record.offset): source_record for source_record in done.records
    }
    waited = 0
    for record in done.records:
        part = topics.begin(bytes_max=6_000).take([record])
        topics.write(part)
        for letter in letters_of(part):
            named = records[letter.partition, letter.offset]
            assert letter.sha256 == hashlib.sha256(named.value).hexdigest()
            assert letter.time == named.time
            assert letter.place.rpartition(" ")[2] in spans_in(named)
            waited += named is not record
    assert waited


def letters_of(done: EncodedRekeyResult) -> list[DeadLetter]:
    """The dead letters of a transaction."""
    return [
        decode_dead_letter(output.value or b"")
        for output in done.outputs
        if output.topic is Topic.DEAD_LETTER
    ]


def spans_in(record: Record) -> set[str]:
    """The ids of the spans of a record."""
    encoding = Encoding.JSON if record.value[:1] == b"{" else Encoding.PROTOBUF
    return {span.span_id for span in decode_request(record.value, encoding).spans}


def test_only_the_last_message_of_a_batch_carries_the_time(done: Work) -> None:
    """The messages before it have the watermark of the last commit: later ones may sort earlier."""
    rekey = rekeyer(bytes_max=10_000)
    for source in range(SOURCES):
        rekey.assign(source, {})
    first, last = done.records[:SOURCES], done.records[SOURCES:]
    rekey.take(first)
    before = rekey.watermarks()
    taken = rekey.take(last)
    after = rekey.watermarks()
    groups: dict[tuple[int, int | None], list[int]] = {}
    for output in taken.outputs:
        if output.topic is Topic.EVENTS:
            batch = decode(output.value or b"")
            assert isinstance(batch, CandidateBatch)
            groups.setdefault((batch.source, output.partition), []).append(batch.watermark)
    assert any(len(marks) > 1 for marks in groups.values())
    for (source, _), marks in groups.items():
        assert marks == [before[source]] * (len(marks) - 1) + [after[source]]


def test_changed_numbers_of_partitions_are_refused(done: Work) -> None:
    """The stage refuses state of topics with another number of partitions."""
    topics = Topics()
    topics.write(topics.begin().take(done.records))
    for sources, partitions in ((SOURCES + 1, PARTITIONS), (SOURCES, PARTITIONS + 1)):
        second = Rekeyer(sources=sources, partitions=partitions)
        with pytest.raises(StreamError) as refused:
            second.assign(0, topics.state[0])
        assert refused.value.code == "TRL732"


@pytest.mark.parametrize(
    "key", [FACTS, "0af7651916cd43dd8448eb211c80319c/0", "0af7651916cd43dd8448eb211c80319c/x"]
)
@pytest.mark.parametrize("value", [b"", b"\x07", b"\x01", b"\x01damaged"])
def test_damaged_state_is_refused(key: str, value: bytes) -> None:
    """Records of another version, and bytes that are no state, are reported, not believed."""
    with pytest.raises(StreamError) as refused:
        rekeyer().assign(0, {key: value})
    assert refused.value.code == "TRL731"


TICKING = replace(SETTINGS, lateness_s=5, tick_s=1)


def ticks_of(done: EncodedRekeyResult) -> dict[int, dict[int, int]]:
    """The watermarks that each events partition gets."""
    ticks: dict[int, dict[int, int]] = {}
    for output in done.outputs:
        if output.topic is Topic.EVENTS:
            message = decode(output.value or b"")
            if isinstance(message, Tick):
                assert output.partition is not None
                assert message.sources == SOURCES
                ticks[output.partition] = message.watermarks
    return ticks


def test_ticks_carry_to_every_partition_how_late_it_is() -> None:
    """Sources that are read to their end go by the clock, one that never had a record, too; others do not."""
    rekey = rekeyer(TICKING)
    for source in (0, 2):
        rekey.assign(source, {})
    now = 1_000 * NS
    assert ticks_of(rekey.idle((), now)) == {key: {0: 0, 2: 0} for key in range(PARTITIONS)}
    ticks = ticks_of(rekey.idle(inputs([2]), now))
    assert ticks == {key: {0: 0, 2: now - 5 * NS} for key in range(PARTITIONS)}
    # A clock that goes back takes nothing back.
    assert ticks_of(rekey.idle(inputs([2]), now - 60 * NS)) == ticks


def test_without_a_source_a_tick_is_empty() -> None:
    """A process that has no partition sends no tick."""
    done = rekeyer().idle((), 1_000 * NS)
    assert (done.outputs, done.writes) == ((), {})


def test_the_time_of_a_tick_is_remembered() -> None:
    """Time that went by the clock does not go back when another process goes on."""
    topics = Topics()
    rekey = topics.begin([1], settings=TICKING)
    topics.write(rekey.idle(inputs([1]), 1_000 * NS))
    assert topics.begin([1], settings=TICKING).watermarks() == rekey.watermarks() == {1: 995 * NS}


def test_the_time_of_records_is_remembered() -> None:
    """A span that has waited for `hold_s` goes on after a restart, though the next record is an older one."""
    settings = replace(SETTINGS, lateness_s=5, hold_s=60)

    def ended(offset: int, came_s: int, end_s: int, parent: str | None) -> Record:
        name, end = f"{offset + 1:016x}", START_NS + end_s * NS
        span = Span(f"{offset + 1:032x}", name, parent, "chat", end - NS, end, attributes=CHAT)
        return Record(0, offset, START_NS + came_s * NS, wire([span], Encoding.PROTOBUF))

    topics = Topics()
    before = topics.begin([0], settings=settings)
    topics.write(before.take([ended(0, 30, 30, "f" * 16), ended(1, 90, 20, None)]))
    assert before.waiting() == 1
    again = topics.begin([0], settings=settings)
    assert again.take([ended(2, 40, 40, None)]).metrics.early == 1


def test_a_tick_sends_on_what_the_clock_has_passed(done: Work) -> None:
    """Spans that waited for the time to pass their root go on with the tick, and are remembered no more."""
    settings = SessionSettings(lateness_s=240, hold_s=86_400, idle_s=86_400)
    topics = Topics()
    rekey = topics.begin(settings=settings)
    topics.write(rekey.take(done.records[:-SOURCES]))
    waiting = rekey.waiting()
    assert waiting
    late = done.records[-1].time + 3_600 * NS
    topics.write(rekey.idle(inputs(range(SOURCES)), late))
    assert rekey.waiting() == 0
    assert topics.begin(settings=settings).waiting() == 0
    assert places_of(rekey for batch in topics.batches for rekey in batch.candidates) == done.places


def test_what_went_on_without_its_root_is_counted(done: Work) -> None:
    """If roots never come, each span that asks for its own goes on after `hold_s`, and counts."""
    rekey = rekeyer(replace(SETTINGS, hold_s=60))
    for source in range(SOURCES):
        rekey.assign(source, {})
    assert rekey.take(done.records).metrics.early == 0
    alone = [
        Span(f"{number:032x}", f"{number:016x}", "f" * 16, "chat", START_NS, START_NS + NS, attributes=CHAT)
        for number in range(1, 4)
    ]
    second = rekeyer(replace(SETTINGS, hold_s=60))
    second.assign(0, {})
    assert second.take([Record(0, 0, START_NS + NS, wire(alone, Encoding.JSON))]).metrics.early == 0
    assert second.idle(inputs([0]), START_NS + 300 * NS).metrics.early == len(alone)


def test_a_span_of_a_time_to_come_does_not_move_the_time() -> None:
    """Up to `skew_s` ahead of its record a span is believed; beyond, it has its record's time and goes on."""
    rekey = rekeyer(TICKING)
    rekey.assign(0, {})
    came = START_NS + 10 * NS

    def ended(number: int, end: int) -> Record:
        span = Span(f"{number:032x}", f"{number:016x}", None, "chat", end - NS, end, attributes=CHAT)
        return Record(0, number, came, wire([span], Encoding.PROTOBUF))

    rekey.take([ended(1, came + 60 * NS)])
    assert rekey.watermarks() == {0: came + 55 * NS}
    sent = candidates_in(rekey.take([ended(2, came + 61 * NS), ended(3, came + 30 * 86_400 * NS)]))
    assert rekey.watermarks() == {0: came + 55 * NS}
    assert [(candidate.start, candidate.end) for candidate in sent] == [(came, came)] * 2


class Broken(dict[str, Value]):
    """Attributes that raise an error when they are read."""

    def get(self, *_: object) -> Any:
        """Break."""
        raise ZeroDivisionError("what a customer wrote")

    __getitem__ = __contains__ = __iter__ = get


def test_of_a_request_that_breaks_nothing_is_taken_in() -> None:
    """Neither its spans nor their times."""
    source = Source(SETTINGS)
    both = (("1", CHAT), ("2", Broken()))
    spans = [Span(n * 32, n * 16, None, "chat", START_NS, START_NS + int(n), each) for n, each in both]
    with pytest.raises(ZeroDivisionError):
        source.add_request(Decoded(tuple(spans)), START_NS)
    assert (source.state, source.changes()) == (SourceState(), {})


def test_a_record_that_breaks_is_put_aside_alone(done: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spans taken in beside it stand, and its text is not quoted."""

    def read(body: bytes, encoding: Encoding, signal: Signal) -> Decoded:
        decoded = decode_request(body, encoding, signal)
        broken = [msgspec.structs.replace(span, attributes=Broken()) for span in decoded.spans]
        spans = (b if b.name == "breaks" else a for a, b in zip(decoded.spans, broken, strict=True))
        return replace(decoded, spans=tuple(spans))

    monkeypatch.setattr("tracline.schemas.walk.locate.walk_all", lambda *to: to[-1].fill(-1) or (0, 0))
    monkeypatch.setattr("tracline.stream.group.rekey_sources.decode", read)
    spoilt = wire([Span("5e" * 16, "5e" * 8, None, "breaks", START_NS, START_NS)], Encoding.PROTOBUF)
    records = [Record(0, 7, START_NS, spoilt), *done.records]
    span = rekeyer()
    for source in range(SOURCES):
        span.assign(source, {})
    taken = span.take(records)
    (letter,) = letters_of(taken)
    expected = (7, "record", "internal", "ZeroDivisionError")
    assert (letter.offset, letter.place, letter.code, letter.reason) == expected
    assert candidates_of(batches_of(taken)) == pure(done.records)


@pytest.mark.parametrize("error", [MemoryError, OSError])
def test_a_failure_that_no_record_causes_puts_none_aside(
    done: Work, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """If the process lacks memory or a disk, it ends: another may take the record in."""

    def read(_body: bytes, _encoding: Encoding, _signal: Signal) -> Decoded:
        raise error

    monkeypatch.setattr("tracline.schemas.walk.locate.walk_all", lambda *to: to[-1].fill(-1) or (0, 0))
    monkeypatch.setattr("tracline.stream.group.rekey_sources.decode", read)
    rekey = rekeyer()
    for source in range(SOURCES):
        rekey.assign(source, {})
    with pytest.raises(error):
        rekey.take(done.records[:1])


def candidates_in(done: EncodedRekeyResult) -> list[Candidate]:
    """The candidates of a transaction."""
    return [candidate for batch in batches_of(done) for candidate in batch.candidates]


CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "hello"}]}]',
}


def test_a_refused_record_is_reported_and_passed() -> None:
    """A dead letter has the record's place, the reason and its digest; its offset is passed; nothing else."""
    rekey = rekeyer()
    rekey.assign(2, {})
    done = rekey.put_aside(Record(2, 17, 5 * NS, b"payload"), InputFlaw("record", "internal", "KeyError"))
    assert done.writes == {}
    assert done.metrics.dead_letters == ["internal"]
    (output,) = done.outputs
    assert output.topic is Topic.DEAD_LETTER
    letter = decode_dead_letter(output.value or b"")
    assert (letter.process, letter.topic, letter.partition, letter.offset) == ("rekey", "otlp_spans", 2, 17)
    assert (letter.place, letter.code, letter.reason, letter.time) == (
        "record",
        "internal",
        "KeyError",
        5 * NS,
    )
    assert b"payload" not in (output.value or b"")


def test_what_is_broken_in_a_record_is_reported_and_the_rest_taken(done: Work) -> None:
    """Bytes that are no request become a dead letter; the records around them are taken."""
    broken = Record(0, 0, done.records[0].time, b"\xff\xff no protobuf")
    moved = [
        Record(read.partition, read.offset + (read.partition == 0), read.time, read.value)
        for read in done.records
    ]
    rekey = rekeyer()
    for source in range(SOURCES):
        rekey.assign(source, {})
    taken = rekey.take([broken, *moved])
    assert taken.metrics.dead_letters == ["otlp-protobuf"]
    assert candidates_of(batches_of(taken)) == pure(done.records)


def test_log_records_that_are_behind_hold_the_time_back_and_idle_ones_do_not(done: Work) -> None:
    """While some are not read nothing goes on, however far the spans are; read to their end, all does."""
    rekey = rekeyer()
    rekey.assign(0, {})
    of_partition = [record for record in done.records if record.partition == 0]
    rekey.expect_logs(0)
    held = rekey.take(of_partition)
    now = of_partition[-1].time
    ticked = rekey.idle(inputs([0]), now)
    assert rekey.watermarks() == {0: 0}
    assert held.metrics.candidates == ticked.metrics.candidates == 0
    released = rekey.idle(inputs([0], Topic.LOGS), now)
    assert rekey.watermarks()[0] > 0
    alone = rekeyer()
    alone.assign(0, {})
    assert candidates_of(batches_of(released)) == candidates_of(batches_of(alone.take(of_partition)))


def test_without_log_records_a_partition_of_them_changes_nothing(done: Work) -> None:
    """One that is read to its end, or holds nothing but lines of programs' logs, has no part in the time."""
    request = LogsData()
    request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=START_NS)
    line = Record(0, 0, START_NS, request.SerializeToString(), Topic.LOGS)
    rekey, without_logs = rekeyer(), rekeyer()
    for each in (rekey, without_logs):
        each.assign(0, {})
    of_partition = [record for record in done.records if record.partition == 0]
    taken = rekey.take([line, *of_partition])
    assert (
        taken.metrics.items[Topic.LOGS],
        taken.metrics.rejected.total(),
        taken.metrics.unjoined.total(),
    ) == (1, 0, 0)
    assert candidates_of(batches_of(taken)) == candidates_of(batches_of(without_logs.take(of_partition)))
    assert rekey.watermarks() == without_logs.watermarks()
