"""A monitor at work while Kafka deletes messages that it has not read, or the topic."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tracline.stream.group.client import TopicPartition
from tracline.stream.kafka.care.create_topics import create
from tracline.stream.kafka.librdkafka.admin import LATEST, Admin
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.topics import Topic

from ..support.brokers.reading import is_read
from ..support.conversations.keyed import PARTITIONS, work
from ..support.processes.rekeying import until
from ..support.processes.stage import Stage, running
from ..support.truth.conversations import write_pack
from ..support.truth.judging import SESSIONS, Sent, messages, send
from .recreated import recreate
from .side_by_side import side_by_side

pytestmark = pytest.mark.slow
READ, DELETED = "tracline_kafka_messages_read_total", "tracline_kafka_deleted_total"
PATIENCE_S = "60"
"""The time that the monitor may be silent: it stops in the midst of the test, and keeps its partitions."""


@pytest.fixture(scope="module")
def sent() -> list[list[Sent]]:
    """Messages of some conversations, by transaction."""
    return messages(work(range(200, 206), apart_s=60))


@pytest.fixture(autouse=True)
def sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of sessions under which the messages were made."""
    for name, value in SESSIONS.items():
        monkeypatch.setenv(name, value)


@contextmanager
def stopped(kafka: KafkaSettings, log: Path, sent: list[list[Sent]]) -> Iterator[Stage]:
    """A monitor that has judged these, and does nothing more during the block; then it goes on."""
    pack = write_pack(log.parent)
    with running(kafka, log, "monitor", "--rules", str(pack), "--timeout-s", PATIENCE_S) as stage:
        send(kafka, sent)
        count = sum(map(len, sent))
        stage.until(READ, lambda values: values == [count])
        stage.process.send_signal(signal.SIGSTOP)
        yield stage


def ends(kafka: KafkaSettings, admin: Admin) -> dict[TopicPartition, int]:
    """Return where each partition of events ends."""
    places = [TopicPartition(kafka.topic(Topic.EVENTS), number) for number in range(PARTITIONS)]
    return admin.offsets(places, LATEST)


def test_what_is_deleted_meanwhile_is_reported_and_counted(
    topics: KafkaSettings, sent: list[list[Sent]], tmp_path: Path
) -> None:
    """Retention overtakes a monitor that is slow: it reports how much it lost, and judges what is left."""
    middle = len(sent) // 2
    with stopped(topics, tmp_path / "log", sent[:middle]) as stage:
        with administering(topics) as admin:
            before = ends(topics, admin)
            send(topics, sent[middle:-1])
            behind = ends(topics, admin)
            admin.delete_records(behind)
        send(topics, sent[-1:], "later")
        stage.process.send_signal(signal.SIGCONT)
        # The metrics are those of the end once every partition is judged and committed.
        with administering(topics) as admin:
            until("all that is left is judged", lambda: is_read(admin, topics, "monitor"), within_s=120)
        (lost,), (read,) = map(stage.metric, (DELETED, READ))
        assert stage.stop() == 0
    deleted = re.findall(
        r"Kafka has deleted up to (\d+) messages that were not judged", stage.log.read_text()
    )
    assert sum(map(int, deleted)) == lost
    # What was asked for before the monitor stopped may have come. Marks of transactions are no messages.
    assert 0 < sum(map(len, sent)) - read <= lost
    assert lost <= sum(behind[place] - max(0, before[place] - 1) for place in before)


def test_a_topic_that_is_recreated_meanwhile_is_refused(
    kafka: KafkaSettings, sent: list[list[Sent]], tmp_path: Path
) -> None:
    """The process ends, whether the new topic ends before the offsets that were judged, or behind them."""

    def check(kafka: KafkaSettings, times: int) -> None:
        folder = tmp_path / str(times)
        folder.mkdir()
        with administering(kafka) as admin:
            create(admin, kafka, partitions=PARTITIONS)
        with stopped(kafka, folder / "log", sent[:-1]) as stage:
            recreate(kafka, Topic.EVENTS, PARTITIONS)
            send(kafka, [*sent * times, *sent[-1:]], "later")
            stage.process.send_signal(signal.SIGCONT)
            assert stage.ended() == 2
        log = stage.log.read_text()
        assert "TRL744" in log
        assert "was deleted and created again" in log

    side_by_side(kafka, [0, 3], check)
