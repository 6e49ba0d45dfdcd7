"""The archiver over a real broker: every judged event is in the archive once, whenever it was killed."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from confluent_kafka import Producer
from tracline.archive.gaps import gaps
from tracline.archive.manifest import read_manifest
from tracline.batch.sources.discover import Population, discover
from tracline.schemas.event import Event, Kind
from tracline.schemas.time import NS
from tracline.stream.kafka.care.create_topics import create
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.properties import transacting
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.codec import JudgedBatch, Mark, encode
from tracline.stream.messages.topics import Topic
from tracline.stream.process.faultpoints import ArchiveFault

from ..support.processes.rekeying import until
from ..support.processes.stage import TIMEOUT_S, Stage, ran, running
from .side_by_side import side_by_side

pytestmark = pytest.mark.slow

PARTITIONS = 4
MESSAGES = 30
"""Messages of each partition before those that come again."""
EACH = 4
"""Events of a message."""
BEGIN = 1_770_000_000 * NS
RULES = "d" * 64


@dataclass(frozen=True)
class Sent:
    """The content of the topic: the ids of its events, and the number of messages."""

    ids: frozenset[str]
    messages: int


def event(partition: int, number: int) -> Event:
    """An event of the partition; a day has eighty of them."""
    time = BEGIN + number * 1080 * NS
    return Event(
        f"s{partition}", BEGIN, time, number + 1, Kind.USER, event_id=f"{partition:02x}{number:030x}"
    )


def messages(partition: int) -> Iterator[tuple[JudgedBatch, list[Event]]]:
    """The messages of a monitor that is killed once and repeats its last five, and the new events."""
    for offset in [*range(20), *range(15, MESSAGES)]:
        events = [event(partition, offset * EACH + number) for number in range(EACH)]
        watermark = BEGIN + offset * NS
        packs = {RULES: {"shop": "pack: shop\n"}} if offset == 0 else {}
        sets = [0] * EACH
        yield JudgedBatch(Mark(partition, offset, 0), watermark, events, [RULES], sets, packs), events


def send(kafka: KafkaSettings) -> Sent:
    """Fill the topic of judged events, a part of it in transactions, whose ends have offsets of their own.

    The topic of events goes as far as what was judged of it.
    """
    topic, ids, count = kafka.topic(Topic.JUDGED), set[str](), 0
    producer = Producer(transacting(kafka, "test", "test", 60))
    producer.init_transactions()
    for partition in range(PARTITIONS):
        producer.begin_transaction()
        for _ in range(MESSAGES):
            producer.produce(kafka.topic(Topic.EVENTS), b"judged", partition=partition)
        for number, (judged, events) in enumerate(messages(partition)):
            producer.produce(topic, encode(judged), partition=partition)
            ids |= {sent_event.event_id for sent_event in events}
            count += 1
            if number % 7 == 0:
                producer.commit_transaction()
                producer.begin_transaction()
        producer.commit_transaction()
    return Sent(frozenset(ids), count)


def archived(root: Path) -> pl.DataFrame:
    """All rows that the archive lists; nothing else is there."""
    population = Population()
    parts = discover(root, population)
    assert not population.rejects
    return pl.concat([pl.read_parquet(part.path, hive_partitioning=False) for part in parts])


def assert_whole(root: Path, sent: Sent) -> None:
    """Every event once, no gap, the watermark of every partition, the rules beside their events."""
    rows = archived(root)
    doubled = [name for name, count in Counter(rows["event_id"].to_list()).items() if count > 1]
    assert not doubled
    assert set(rows["event_id"]) == sent.ids
    manifest = read_manifest(root)
    assert gaps(manifest) == 0
    assert sorted(manifest.watermarks.values()) == [BEGIN + (MESSAGES - 1) * NS] * PARTITIONS
    assert rows["rules"].unique().to_list() == [RULES]
    assert (root / "rules" / f"{RULES}.json").is_file()


def archiver(
    kafka: KafkaSettings, folder: Path, name: str = "one", fault: str | None = None
) -> AbstractContextManager[Stage]:
    """An archiver that writes files of some thirty rows."""
    options = ("--archive", str(folder / "archive"), "--rows", "30", "--timeout-s", TIMEOUT_S)
    return running(kafka, folder / f"{name}.log", "archive", *options, fault=fault)


def read_all(stage: Stage, partitions: int = PARTITIONS) -> None:
    """Wait until the process has read all of so many partitions, but for the ends of transactions."""
    stage.until("tracline_kafka_lag", lambda lags: len(lags) == partitions and max(lags) <= 1)


def test_two_processes_share_a_folder(topics: KafkaSettings, tmp_path: Path) -> None:
    """Each has some of the partitions; when one is killed the other goes on with its part."""
    with archiver(topics, tmp_path) as first, archiver(topics, tmp_path, "two") as second:
        for stage in (first, second):
            stage.until("tracline_kafka_lag", lambda lags: len(lags) == PARTITIONS // 2)
        sent = send(topics)
        read_all(first, PARTITIONS // 2)
        second.until("tracline_archive_files_total", lambda files: sum(files) > 0)
        second.process.kill()
        read_all(first)
        assert first.stop() == 0, first.log.read_text()
    assert_whole(tmp_path / "archive", sent)


def test_who_was_asleep_adds_nothing_twice(kafka: KafkaSettings, tmp_path: Path) -> None:
    """Others have its partitions when it wakes; but while it sleeps in its turn, nobody else has one."""

    def check(kafka: KafkaSettings, fault: ArchiveFault) -> None:
        with administering(kafka) as admin:
            create(admin, kafka, partitions=PARTITIONS)
        check_asleep(kafka, tmp_path / fault.value, fault)

    side_by_side(kafka, [ArchiveFault.RECEIVED, ArchiveFault.WRITTEN], check)


def check_asleep(topics: KafkaSettings, folder: Path, fault: ArchiveFault) -> None:
    """Check what is archived of a process that falls asleep there, and of another one."""
    sent = send(topics)
    with archiver(topics, folder, fault=f"{fault}:2:asleep") as first:
        until("it is asleep", lambda: first.is_asleep)
        with archiver(topics, folder, "two") as second:
            if fault is ArchiveFault.RECEIVED:
                read_all(second)
            else:
                second.until("tracline_archive_files_total", lambda files: files == [0.0])
            first.process.send_signal(signal.SIGCONT)
            read_all(first, PARTITIONS // 2)
            read_all(second, PARTITIONS // 2)
            assert second.stop() == 0, second.log.read_text()
        # What it has gathered it reads again when it gets the other's partitions, too.
        read_all(first)
        assert first.stop() == 0, first.log.read_text()
    assert_whole(folder / "archive", sent)


def test_a_folder_that_takes_no_files_is_reported_at_once(topics: KafkaSettings, tmp_path: Path) -> None:
    """Not a quarter of an hour later, when the first one is due."""
    (tmp_path / "file").touch()
    done = ran(topics, "archive", "--archive", tmp_path / "file" / "archive")
    assert done.returncode == 2
    assert "TRL601" in done.stderr
