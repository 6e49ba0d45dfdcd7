"""The archiver as a process over the broker in memory: dead letters, gaps, and topics that are recreated."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tracline.archive.gaps import gaps
from tracline.archive.manifest import read_manifest
from tracline.batch.sources.discover import Population, discover
from tracline.schemas.event import Event, Kind
from tracline.schemas.time import NS
from tracline.stream.messages.codec import JudgedBatch, Mark, encode
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.archive import ChunkLimits

from .memory_processes import NAMES, MemoryPipeline, MemoryProcess

BEGIN = 1_770_000_000 * NS
RULES = "d" * 64
READ = "tracline_kafka_messages_read_total"


@pytest.fixture
def pipeline() -> MemoryPipeline:
    """Return a broker with topics."""
    return MemoryPipeline()


def event(number: int) -> Event:
    """Return an event of partition 0."""
    return Event("s0", BEGIN, BEGIN + number * NS, number + 1, Kind.USER, event_id=f"{number:032x}")


def judge(pipeline: MemoryPipeline, *offsets: int) -> None:
    """Append messages of judged events with these marks to partition 0, and so many events messages."""
    for offset in offsets:
        batch = JudgedBatch(Mark(0, offset, 0), BEGIN, [event(offset)], [RULES], [0])
        pipeline.append(Topic.JUDGED, 0, encode(batch))
        pipeline.append(Topic.EVENTS, 0, b"judged")


def archiver(pipeline: MemoryPipeline, folder: Path) -> MemoryProcess:
    """Return an archiver that has not begun."""
    return pipeline.archive(folder / "archive", ChunkLimits(rows=30))


def run(process: MemoryProcess) -> list[str]:
    """Run an archiver until it has read messages, and return its log."""
    process.until("messages are read", lambda: process.count(READ, topic=NAMES[Topic.JUDGED]))
    process.stop()
    return process.lines


def archived(folder: Path) -> list[str]:
    """Return the ids of the archived events."""
    population = Population()
    parts = discover(folder / "archive", population)
    assert not population.rejects
    rows = pl.concat([pl.read_parquet(part.path, hive_partitioning=False) for part in parts])
    return sorted(rows["event_id"].to_list())


def ids(*numbers: int) -> list[str]:
    """Return the ids of events."""
    return [event(number).event_id for number in numbers]


def test_a_record_that_is_no_message_is_a_dead_letter_and_a_gap(
    pipeline: MemoryPipeline, tmp_path: Path
) -> None:
    """The archiver goes on behind it; the dead letter does not contain the record."""
    judge(pipeline, 0)
    pipeline.append(Topic.JUDGED, 0, b"secret")
    judge(pipeline, 1)
    process = archiver(pipeline, tmp_path)
    process.until("three are read", lambda: process.count(READ, topic=NAMES[Topic.JUDGED]) == 3)
    process.stop()
    assert archived(tmp_path) == ids(0, 1)
    assert gaps(read_manifest(tmp_path / "archive")) == 1
    [letter] = pipeline.dead_letters()
    assert (letter.process, letter.topic, letter.partition, letter.offset) == (
        "archive", NAMES[Topic.JUDGED], 0, 1,
    )  # fmt: skip
    [record] = pipeline.records(Topic.DEAD_LETTER)
    assert b"secret" not in (record.value or b"")


def test_deleted_messages_are_a_gap(pipeline: MemoryPipeline, tmp_path: Path) -> None:
    """The archiver reports what is missing, and goes on with the first message that is there."""
    lines: list[str] = []
    for numbers, deleted in (((0, 1), 0), ((2, 3, 4), 4)):
        judge(pipeline, *numbers)
        pipeline.delete_records(Topic.JUDGED, 0, deleted)
        lines += run(archiver(pipeline, tmp_path))
    assert archived(tmp_path) == ids(0, 1, 4)
    assert gaps(read_manifest(tmp_path / "archive")) == 1
    assert any("Kafka has deleted 2 records that were not read (2 to 3)" in line for line in lines)


def test_an_archive_that_is_ahead_of_its_topic_is_refused(pipeline: MemoryPipeline, tmp_path: Path) -> None:
    """The topic was recreated while no archiver ran (TRL751)."""
    judge(pipeline, *range(10))
    first = archiver(pipeline, tmp_path)
    first.until("all is read", lambda: first.count(READ, topic=NAMES[Topic.JUDGED]) == 10)
    first.stop()
    pipeline.recreate(Topic.JUDGED)
    assert archiver(pipeline, tmp_path).failure().code == "TRL751"


@pytest.mark.parametrize("count", [3, 20])
def test_a_topic_that_is_recreated_under_a_process_is_refused(
    pipeline: MemoryPipeline, tmp_path: Path, count: int
) -> None:
    """The archiver ends, whether the new topic has fewer messages than were read of the old one, or more."""
    judge(pipeline, *range(10))
    process = archiver(pipeline, tmp_path)
    process.until("all is read", lambda: process.count(READ, topic=NAMES[Topic.JUDGED]) == 10)
    pipeline.recreate(Topic.JUDGED)
    judge(pipeline, *range(10, 10 + count))
    assert process.failure().code == "TRL751"
    if (tmp_path / "archive" / "data").exists():
        assert set(archived(tmp_path)) <= set(ids(*range(10)))


def test_messages_with_marks_of_older_events_are_refused(pipeline: MemoryPipeline, tmp_path: Path) -> None:
    """Repeats are refused, not dropped, if their marks are above the end of the events topic (TRL751)."""
    for offset in (500, 0):
        batch = JudgedBatch(Mark(0, offset, 0), BEGIN, [event(offset)], [RULES], [0])
        pipeline.append(Topic.JUDGED, 0, encode(batch))
    error = archiver(pipeline, tmp_path).failure()
    assert error.code == "TRL751"
    assert NAMES[Topic.EVENTS] in str(error)
