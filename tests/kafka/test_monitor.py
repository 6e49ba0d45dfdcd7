"""The monitor as a process against a real broker: killed, moved, fed with poison, its output is correct."""

from __future__ import annotations

import hashlib
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest
from tracline.schemas.time import NS
from tracline.stream.group.client import OutgoingRecord, TopicPartition
from tracline.stream.kafka.care.create_topics import create
from tracline.stream.kafka.faust.state_store import DiskPartitionStore
from tracline.stream.kafka.librdkafka.admin import LATEST, NewTopicLayout
from tracline.stream.kafka.librdkafka.reader import TopicReader, records_from
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.properties import consuming
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.codec import Activation, Tick, decode, encode
from tracline.stream.messages.monitor_state import STATE_VERSION, PartitionState
from tracline.stream.messages.topics import Topic
from tracline.stream.process.faultpoints import MonitorFault

from ..support.brokers.reading import is_read
from ..support.brokers.sending import send_records
from ..support.conversations.keyed import LATER_S, PARTITIONS, SOURCES, Work, work
from ..support.conversations.scripts import START_NS
from ..support.processes.stage import DYING_S, POLL_S, TIMEOUT_S, WAIT_S, Stage, running
from ..support.truth.conversations import true_ids, write_pack
from ..support.truth.judging import SESSIONS, Listener, MonitorOutput, Sent, messages, send, sender

pytestmark = pytest.mark.slow

LAST = 4
"""Transactions that are sent when the last process starts."""


@dataclass(frozen=True)
class Case:
    """Transactions of messages, and what must come of them."""

    pack: Path
    work: Work
    sent: list[list[Sent]]
    ids: frozenset[str]

    def is_complete(self, found: MonitorOutput) -> bool:
        """Return whether all that must come has come."""
        return found.ids.keys() >= self.ids and found.places >= self.work.places

    def assert_complete(self, found: MonitorOutput) -> None:
        """Every verdict and every event came, once, and nothing else."""
        assert found.ids == Counter(self.ids)
        assert found.places == self.work.places


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Conversations that break many rules at many places, at a time."""
    pack = write_pack(tmp_path_factory.mktemp("pack"))
    made = work(range(200, 230), apart_s=60)
    case = Case(pack, made, messages(made), frozenset(true_ids(made.played, pack)))
    assert len(case.ids) > 150, "nothing would be shown"
    return case


@pytest.fixture(autouse=True)
def sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of sessions under which the messages were made."""
    for name, value in SESSIONS.items():
        monkeypatch.setenv(name, value)


def monitor(kafka: KafkaSettings, log: Path, case: Case, *more: str, fault: str | None = None):
    """A monitor with the rules of the case."""
    flags = ("--rules", str(case.pack), "--timeout-s", TIMEOUT_S, *more)
    return running(kafka, log, "monitor", *flags, fault=fault)


@pytest.fixture
def listener(topics: KafkaSettings) -> Iterator[Listener]:
    """The reader of the monitor's output."""
    with closing(Listener(topics)) as reader:
        yield reader


def committed(kafka: KafkaSettings) -> dict[int, tuple[int, int]]:
    """Return what the monitor's group has committed of each partition of events, and where that ends."""
    places = [TopicPartition(kafka.topic(Topic.EVENTS), number) for number in range(PARTITIONS)]
    with administering(kafka) as admin:
        ends, offsets = admin.offsets(places, LATEST), admin.group_offsets(kafka.group("monitor"), places)
    return {place.partition: (offsets.get(place, 0), ends[place]) for place in places}


def test_all_is_judged_once_and_a_stop_leaves_nothing(
    topics: KafkaSettings, listener: Listener, case: Case, tmp_path: Path
) -> None:
    """Every verdict and event comes once; after SIGTERM the process exits 0 and has committed all."""
    send(topics, case.sent)
    with monitor(topics, tmp_path / "log", case) as stage:
        case.assert_complete(listener.until(case.is_complete))
        stage.until("tracline_kafka_lag", lambda values: bool(values) and max(values) <= 1)
        stage.until("tracline_sessions_open", lambda values: values == [0])
        stage.until("tracline_verdicts_total", lambda values: sum(values) == len(case.ids))
        assert stage.stop() == 0
    # The mark of the last transaction is no message.
    assert all(end - at <= 1 for at, end in committed(topics).values()), committed(topics)


def test_what_is_not_committed_was_never_there(
    topics: KafkaSettings, listener: Listener, case: Case, tmp_path: Path
) -> None:
    """Batches, ticks and rubbish in a transaction that is aborted change no verdict and no watermark."""
    middle = len(case.sent) // 2
    far = encode(Tick(SOURCES, dict.fromkeys(range(SOURCES), START_NS + 100 * LATER_S * NS)))
    aborted = [(number, value) for number in range(PARTITIONS) for value in (far, b"rubbish")]
    aborted += case.sent[-1] + case.sent[middle]
    with monitor(topics, tmp_path / "log", case) as stage:
        # A watermark at a time is read before the transaction is open, and after it is gone.
        send(topics, case.sent[:middle])
        with sending(topics, aborted):
            count = sum(map(len, case.sent[:middle]))
            stage.until("tracline_kafka_messages_read_total", lambda values: values == [count])
        send(topics, case.sent[middle:])
        found = listener.until(case.is_complete)
        assert stage.stop() == 0
    case.assert_complete(found)
    assert not found.letters
    ends = {decode(value).watermarks[0] for _, value in case.sent[-1]}
    assert set(found.watermarks.values()) == ends


def test_a_second_worker_comes_and_goes(
    topics: KafkaSettings, listener: Listener, case: Case, tmp_path: Path
) -> None:
    """Sessions move to a worker that joins, and from those that stop or are killed; none is lost."""
    size = -(-len(case.sent) // 4)
    parts = [case.sent[first : first + size] for first in range(0, len(case.sent), size)]
    with ExitStack() as stack:
        first = stack.enter_context(monitor(topics, tmp_path / "first", case))
        send(topics, parts[0])
        settled(first, 1)
        second = stack.enter_context(monitor(topics, tmp_path / "second", case, "--timeout-s", DYING_S))
        send(topics, parts[1])
        settled(second, 1)
        settled(first, 2)
        send(topics, parts[2])
        assert first.stop() == 0
        third = stack.enter_context(monitor(topics, tmp_path / "third", case))
        settled(third, 1)
        second.process.kill()
        send(topics, parts[3])
        found = listener.until(case.is_complete)
        assert third.stop() == 0
    case.assert_complete(found)
    print(f"workers came and went; {found.again} messages sent twice")


def test_a_neighbour_that_comes_and_is_killed_ends_nobody(
    topics: KafkaSettings, listener: Listener, case: Case, tmp_path: Path
) -> None:
    """Partitions move while much is read and not judged: it is fetched again, and no topic seems recreated.

    Nor does any process report other rules in force: they are the same everywhere.
    """
    with monitor(topics, tmp_path / "first", case) as first:
        settled(first, 1)
        for number, half in enumerate((case.sent[: len(case.sent) // 2], case.sent[len(case.sent) // 2 :])):
            with monitor(topics, tmp_path / f"other-{number}", case) as neighbour:
                wait(neighbour, lambda log=neighbour.log: "metrics and health" in log.read_text())
                neighbour.process.send_signal(signal.SIGSTOP)
                send(topics, half)
                neighbour.process.send_signal(signal.SIGCONT)
                settled(neighbour, 1)
                neighbour.process.kill()
        found = listener.until(case.is_complete, alive=lambda: first.process.poll() is None)
        assert first.process.poll() is None, first.log.read_text()
        assert first.stop() == 0
    case.assert_complete(found)
    assert not any("not those of --rules" in log.read_text() for log in tmp_path.iterdir())


def test_who_slept_overwrites_nothing(
    topics: KafkaSettings, listener: Listener, case: Case, tmp_path: Path
) -> None:
    """A worker that falls asleep before it writes state, and wakes when others have gone on, writes none."""
    middle, asleep = len(case.sent) // 4, f"{MonitorFault.PRODUCED}:2:asleep"
    send(topics, case.sent[:middle])
    dying = ("--timeout-s", DYING_S)
    with monitor(topics, tmp_path / "first", case, *dying, fault=asleep) as first:
        wait(first, lambda: first.is_asleep)
        with monitor(topics, tmp_path / "second", case, *dying) as second:
            until_committed(topics, second)
            # What it would write now comes between what the other one writes.
            send(topics, case.sent[middle:-LAST])
            first.process.send_signal(signal.SIGCONT)
            assert first.ended() == 2
            assert "TRL746" in first.log.read_text()
            until_committed(topics, second)
            second.process.kill()
    send(topics, case.sent[-LAST:])
    with monitor(topics, tmp_path / "third", case) as third:
        case.assert_complete(listener.until(case.is_complete))
        assert third.stop() == 0


def test_poison_is_set_aside(topics: KafkaSettings, listener: Listener, case: Case, tmp_path: Path) -> None:
    """A record that is no message is named by place and digest, and never quoted; all else is judged."""
    whole = case.sent[0][0][1]
    poison = {
        "rubbish": b"rubbish, and a secret",
        "cut": whole[: len(whole) // 2],
        "other tag": whole[:3] + b"\x81\xa4type\xa5other",
        "no rules": encode(Activation({"desk": "no pack at all"})),
        "empty": b"",
        "null": None,
    }
    send(topics, case.sent[:3])
    send(topics, [[(number, value) for value in poison.values()] for number in range(PARTITIONS)])
    send(topics, case.sent[3:])
    with monitor(topics, tmp_path / "log", case) as stage:
        found = listener.until(
            lambda found: case.is_complete(found) and len(found.letters) == PARTITIONS * len(poison)
        )
        # The process counts what it has sent once the broker has acknowledged it.
        stage.until("tracline_dead_letters_total", lambda values: sum(values) == len(found.letters))
        assert stage.stop() == 0
    case.assert_complete(found)
    assert {(letter.process, letter.topic) for letter in found.letters} == {
        ("monitor", topics.topic(Topic.EVENTS))
    }
    assert Counter(letter.partition for letter in found.letters) == dict.fromkeys(
        range(PARTITIONS), len(poison)
    )
    digests = Counter(hashlib.sha256(value or b"").hexdigest() for value in poison.values())
    assert Counter(letter.sha256 for letter in found.letters if letter.partition == 2) == digests
    at = {letter.sha256: letter.offset for letter in found.letters if letter.partition == 2}
    record = read_one(topics, Topic.EVENTS, 2, at[hashlib.sha256(poison["rubbish"] or b"").hexdigest()])
    assert record == poison["rubbish"]
    assert not any("secret" in letter.reason for letter in found.letters)


def test_without_rules_nothing_is_taken(
    topics: KafkaSettings, listener: Listener, case: Case, tmp_path: Path
) -> None:
    """If no rules are in force, the process reports it and ends; with rules everything is judged."""
    send(topics, case.sent)
    with running(topics, tmp_path / "log", "monitor", "--timeout-s", TIMEOUT_S) as stage:
        assert stage.ended() == 2
    log = (tmp_path / "log").read_text()
    assert "TRL742" in log
    assert "tracline stream activate" in log
    with monitor(topics, tmp_path / "again", case) as stage:
        case.assert_complete(listener.until(case.is_complete))


def test_what_it_goes_on_without_is_reported(topics: KafkaSettings, case: Case, tmp_path: Path) -> None:
    """Messages that Kafka deleted before they were judged, and rules that are not in force, are named."""
    middle = len(case.sent) // 2
    send(topics, case.sent[:middle])
    with monitor(topics, tmp_path / "first", case) as stage:
        until_committed(topics, stage)
        assert stage.stop() == 0
    send(topics, case.sent[middle:])
    ends = {TopicPartition(topics.topic(Topic.EVENTS), n): end for n, (_, end) in committed(topics).items()}
    with administering(topics) as admin:
        admin.delete_records(ends)
    changed = replace(case, pack=write_pack(tmp_path))
    changed.pack.write_text(case.pack.read_text() + "# changed\n")
    with monitor(topics, tmp_path / "second", changed) as stage:
        settled(stage, 1)
        assert stage.stop() == 0
    log = (tmp_path / "second").read_text()
    deleted = re.findall(r"partition (\d): Kafka has deleted up to \d+ messages that were not judged", log)
    assert sorted(deleted) == ["0", "1", "2", "3"]
    assert "partitions 0, 3 go on under the rules in force there, not those of --rules" in log


def test_state_that_does_not_fit_is_refused(kafka: KafkaSettings, case: Case, tmp_path: Path) -> None:
    """State of another release, of a recreated topic, of fewer partitions or of another broker is refused."""
    facts = msgspec.msgpack.encode(PartitionState(offset=1_000))
    state_of_another_topic = msgspec.msgpack.encode(PartitionState(topic_id="another topic's"))
    tried = {
        "release": (PARTITIONS, b"\x63" + facts, "TRL741", "finish the sessions with the release"),
        "ends": (PARTITIONS, bytes([STATE_VERSION]) + facts, "TRL744", "once all brokers are back"),
        "recreated": (
            PARTITIONS,
            bytes([STATE_VERSION]) + state_of_another_topic,
            "TRL744",
            "was deleted and created again",
        ),
        "uneven": (PARTITIONS - 1, bytes([STATE_VERSION]) + facts, "TRL744", "begin with new topics"),
        "disk": (
            PARTITIONS,
            bytes([STATE_VERSION]) + msgspec.msgpack.encode(PartitionState()),
            "TRL744",
            "of --data",
        ),
    }

    def refused(name: str) -> tuple[int, str]:
        partitions, value, _, _ = tried[name]
        settings = replace(kafka, prefix=f"{kafka.prefix}-{name}")
        changelog = f"{settings.group('monitor')}-state-changelog"
        with administering(settings) as admin:
            create(admin, settings, partitions=PARTITIONS)
            assert not admin.create({changelog: NewTopicLayout(partitions)})
        send_records(settings, [OutgoingRecord(changelog, 0, b"p/0", value)])
        flags: tuple[str, ...] = ()
        if name == "disk":
            flags = "--store", "rocksdict", "--data", str(tmp_path / "data")
            store = DiskPartitionStore(
                tmp_path / "data" / settings.group("monitor") / "partition-0", time.time_ns
            )
            store.put([(b"p/0", value)], 7)
            store.close()
        with monitor(settings, tmp_path / name, case, *flags) as stage:
            code = stage.ended()
        return code, (tmp_path / name).read_text()

    with ThreadPoolExecutor() as pool:
        for (_, _, error, hint), (code, output) in zip(tried.values(), pool.map(refused, tried), strict=True):
            assert code == 2, output
            assert error in output
            assert hint in output


def settled(stage: Stage, times: int) -> None:
    """Wait until the process has reported its partitions that often."""
    reports = r"assigned partitions|no partition assigned"
    wait(stage, lambda: len(re.findall(reports, stage.log.read_text())) >= times)


def until_committed(kafka: KafkaSettings, stage: Stage) -> None:
    """Wait until the group has committed all that was sent; the mark of a transaction is no message."""
    with administering(kafka, "test") as admin:
        wait(stage, lambda: is_read(admin, kafka, "monitor"))


def wait(stage: Stage, holds: Callable[[], bool]) -> None:
    """Wait until that holds; an AssertionError where the process ends before."""
    limit = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < limit, stage.log.read_text()
        with suppress(subprocess.TimeoutExpired):
            stage.process.wait(POLL_S)
            raise AssertionError(f"it has ended:\n{stage.log.read_text()}")


@contextmanager
def sending(kafka: KafkaSettings, sent: Sequence[Sent]) -> Iterator[None]:
    """A transaction that is open during the block, and then aborted."""
    producer = sender(kafka, "aborted")
    producer.begin_transaction()
    for partition, value in sent:
        producer.produce(kafka.topic(Topic.EVENTS), value, partition=partition)
    producer.flush()
    yield
    producer.abort_transaction()


def read_one(kafka: KafkaSettings, topic: Topic, partition: int, offset: int) -> bytes:
    """The record that stands there."""
    with closing(TopicReader(consuming(kafka, "test"), kafka.topic(topic))) as reader:
        return next(records_from(reader, partition, offset)).value
