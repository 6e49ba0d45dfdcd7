"""The rekeyer as a process over the broker in memory: dead letters, ticks, errors, and topics that change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256

import pytest
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.stream.group.broker_errors import KafkaTimeoutError
from tracline.stream.group.client import TopicPartition
from tracline.stream.group.rekey_sources import RekeySources
from tracline.stream.group.rekey_state import TopicCounts
from tracline.stream.ingest.request import Encoding
from tracline.stream.messages.codec import Tick, decode
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.rekey import IdleInput, RekeyResult, RekeyStage, RekeyState, SourceRequest

from ....support.conversations.keyed import (
    BYTES_MAX,
    PARTITIONS,
    SETTINGS,
    SOURCES,
    Work,
    candidates_of,
    places_of,
    pure,
    work,
)
from ....support.conversations.scripts import START_NS
from ....support.processes.live import wire
from .memory_processes import KAFKA, NAMES, MemoryPipeline

READ = "tracline_kafka_messages_read_total"
DELETED = "tracline_kafka_deleted_total"
SPANS = NAMES[Topic.SPANS]


@pytest.fixture(scope="module")
def done() -> Work:
    """Return ten conversations."""
    return work(range(10))


@pytest.fixture(scope="module")
def expected(done: Work) -> Counter[str]:
    """Return their candidates."""
    return pure(done.records)


@pytest.fixture
def pipeline() -> MemoryPipeline:
    """Return a broker with topics."""
    return MemoryPipeline()


def check(pipeline: MemoryPipeline, done: Work, expected: Counter[str]) -> None:
    """Compare the committed candidates with those of the work, and with the events of its conversations."""
    found = pipeline.batches()
    assert candidates_of(found) == expected
    assert places_of(candidate for batch in found for candidate in batch.candidates) == done.places


POISON = b"poison"


class Fragile(RekeyStage):
    """A stage that one record breaks after it has processed others."""

    def step(
        self, state: RekeyState, records: Iterable[SourceRequest | IdleInput], now: int | None = None
    ) -> RekeyResult:
        """Process records, or raise KeyError."""
        records = list(records)
        result = super().step(state, records, now)
        digests = {record.sha256 for record in records if isinstance(record, SourceRequest)}
        if sha256(POISON).digest() in digests:
            raise KeyError("what a customer wrote")
        return result


def sources(stage: RekeyStage | None = None, partitions: int = PARTITIONS) -> RekeySources:
    """Return the sources of a rekeyer with that stage."""
    counts = TopicCounts(SOURCES, partitions)
    return RekeySources(stage or RekeyStage(SETTINGS, NAMES), counts, BYTES_MAX)


@pytest.mark.slow
def test_records_that_are_no_spans_become_dead_letters(
    pipeline: MemoryPipeline, done: Work, expected: Counter[str]
) -> None:
    """Poison, broken bytes, no value, too many bytes: each becomes a dead letter, others are processed."""
    half = len(done.records) // 2
    pipeline.send(done.records[:half])
    for partition, value in ((0, None), (1, b"\xff\xff broken"), (2, POISON), (0, bytes((20 << 20) + 1))):
        pipeline.append(Topic.SPANS, partition, value)
    pipeline.send(done.records[half:])
    rekeyer = pipeline.rekey(sources=sources(Fragile(SETTINGS, NAMES)))
    rekeyer.until_read(Topic.SPANS)
    assert rekeyer.count(READ, topic=SPANS) == len(done.records) + 4
    assert rekeyer.count("tracline_rekey_candidates_total") == expected.total()
    assert rekeyer.count("tracline_dead_letters_total", code="internal") == 1
    check(pipeline, done, expected)
    found = {letter.code: letter for letter in pipeline.dead_letters()}
    assert sorted(found) == ["empty", "internal", "otlp-protobuf", "size"]
    assert (found["otlp-protobuf"].partition, found["internal"].partition) == (1, 2)
    assert found["internal"].reason == "KeyError"


TICKING = replace(SETTINGS, lateness_s=5, tick_s=0.2)


def test_time_advances_without_records(pipeline: MemoryPipeline) -> None:
    """Every events partition gets the watermarks of all sources, none of which ever had a record."""
    pipeline.now = 1_800_000_000 * NS
    watermarks = dict.fromkeys(range(SOURCES), pipeline.now - 5 * NS)

    def has_come() -> bool:
        messages = [decode(record.value or b"") for record in pipeline.records(Topic.EVENTS)]
        ticks = [message for message in messages if isinstance(message, Tick)]
        return [tick.watermarks for tick in ticks].count(watermarks) >= PARTITIONS

    pipeline.rekey(sessions=TICKING).until("every partition has all watermarks", has_come)


@pytest.mark.slow
def test_quiet_sources_release_waiting_spans(
    pipeline: MemoryPipeline, done: Work, expected: Counter[str]
) -> None:
    """Once all is read, the clock advances the watermarks, and spans that waited are sent."""
    pipeline.send(done.records[:-SOURCES])
    pipeline.now = done.records[-1].time
    rekeyer = pipeline.rekey(sessions=replace(SETTINGS, tick_s=0.2))
    candidates = "tracline_rekey_candidates_total"
    rekeyer.until("all is sent", lambda: rekeyer.count(candidates) >= expected.total())
    check(pipeline, done, expected)


def test_a_topic_for_small_records_ends_the_process(pipeline: MemoryPipeline) -> None:
    """The process ends with the reason (TRL734) after some attempts."""
    pipeline.recreate(Topic.EVENTS, bytes_max=10)
    error = pipeline.rekey(sessions=TICKING).failure()
    assert error.code == "TRL734"
    assert "MessageSizeTooLarge" in str(error)


def test_other_partition_counts_end_the_process(pipeline: MemoryPipeline, done: Work) -> None:
    """Topics with more partitions than the process has, or than the state has, end it (TRL732)."""
    assert pipeline.rekey(sources=sources(partitions=PARTITIONS - 1)).failure().code == "TRL732"
    pipeline.send(done.records[:SOURCES])
    first = pipeline.rekey()
    first.until_read(Topic.SPANS)
    first.stop()
    for topic in (Topic.EVENTS, Topic.JUDGED, Topic.VERDICTS):
        pipeline.broker.add_partitions(NAMES[topic], PARTITIONS + 1)
    error = pipeline.rekey(sources=sources(partitions=PARTITIONS + 1)).failure()
    assert error.code == "TRL732"
    assert f"{PARTITIONS} of events" in str(error)


@pytest.mark.slow
def test_records_polled_before_an_error_are_read_again(
    pipeline: MemoryPipeline, done: Work, expected: Counter[str]
) -> None:
    """The client has passed them by then: a process that went on from there would leave them out."""
    rekeyer = pipeline.rekey()
    rekeyer.until("it has partitions", lambda: rekeyer.lines)
    polled: list[int] = []

    def fail_once(kind: str) -> None:
        if kind == "poll":
            places = [TopicPartition(SPANS, number) for number in range(SOURCES)]
            polled.append(sum(map(rekeyer.client.position, places)))
            if len(polled) == 2:
                raise KafkaTimeoutError("the poll after some records came")

    pipeline.send(done.records)
    pipeline.refuse = fail_once
    rekeyer.until_read(Topic.SPANS)
    assert polled[1] > polled[0], "no record had come before the error"
    assert any("KafkaTimeoutError" in line for line in rekeyer.lines)
    check(pipeline, done, expected)


class Overtaken(RekeyStage):
    """A stage whose records Kafka deletes while it processes the first of them."""

    pipeline: MemoryPipeline
    others: tuple[Record, ...]

    def step(
        self, state: RekeyState, records: Iterable[SourceRequest | IdleInput], now: int | None = None
    ) -> RekeyResult:
        """Process records; before the first of them, others come and are deleted."""
        others, self.others = self.others, ()
        self.pipeline.send(others)
        self.pipeline.delete_records(Topic.SPANS, 0, len(others))
        return super().step(state, records, now)


def test_records_deleted_under_a_process_are_reported(pipeline: MemoryPipeline, done: Work) -> None:
    """Retention overtakes a process that runs: it goes on behind the gap, and reports its size."""
    first, *others = [record for record in done.records if record.partition == 0]
    stage = Overtaken(SETTINGS, NAMES)
    stage.pipeline, stage.others = pipeline, tuple(others)
    process = pipeline.rekey(sources=sources(stage))
    pipeline.send([first])
    process.until_read(Topic.SPANS)
    read, lost = process.count(READ, topic=SPANS), process.count(DELETED, topic=SPANS)
    assert read < 1 + len(others)
    assert lost == 1 + len(others) - read
    assert [line for line in process.lines if f"Kafka has deleted {lost:.0f} records" in line]


def test_records_deleted_before_a_start_are_reported(pipeline: MemoryPipeline, done: Work) -> None:
    """Retention overtakes a process that was down."""
    records = [record for record in done.records if record.partition == 0]
    pipeline.send(records[:2])
    first = pipeline.rekey()
    first.until_read(Topic.SPANS)
    first.stop()
    pipeline.send(records[2:])
    pipeline.delete_records(Topic.SPANS, 0, len(records) - 1)
    second = pipeline.rekey()
    second.until_read(Topic.SPANS)
    assert second.count(DELETED, topic=SPANS) == len(records) - 3


def test_spans_that_are_not_read_are_reported(pipeline: MemoryPipeline) -> None:
    """The log reports them once, when no more come, and a metric counts them."""
    spans = [
        Span(f"{n:032x}", f"{n:016x}", None, "x", START_NS, START_NS, scope="sdk-x") for n in range(1, 39)
    ]
    for part in (spans[:30], spans[30:]):
        pipeline.append(Topic.SPANS, 0, wire(part, Encoding.PROTOBUF))
    rekeyer = pipeline.rekey(sessions=replace(SETTINGS, tick_s=1))
    rekeyer.until("it is reported", lambda: any("38 spans" in line for line in rekeyer.lines))
    assert rekeyer.count("tracline_spans_unread_total", scope="sdk-x") == 38
    assert rekeyer.count("tracline_spans_read_total", scope="sdk-x") == 0
    assert len([line for line in rekeyer.lines if "spans" in line]) == 1


def test_a_topic_that_ends_before_the_offset_is_refused(pipeline: MemoryPipeline, done: Work) -> None:
    """Nothing is read a second time, as Kafka's client would do by itself (TRL735)."""
    records = [record for record in done.records if record.partition == 0]
    pipeline.send(records)
    place, group = TopicPartition(SPANS, 0), KAFKA.group("rekey")
    pipeline.broker.join(group, "another", SPANS, 1.0)
    generation = pipeline.broker.heartbeat(group, "another")
    assert generation is not None
    pipeline.broker.commit(group, {place: len(records) + 5}, ("another", generation))
    pipeline.broker.leave(group, "another")
    error = pipeline.rekey().failure()
    assert error.code == "TRL735"
    assert f"ends at offset {len(records)}, and was read up to {len(records) + 5}" in str(error)
    assert not pipeline.batches()
