"""The monitor as a process against a real broker: killed, moved, fed with poison, it says what is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from tracline.stream.faults import MonitorFault
from tracline.stream.kafka.settings import KafkaSettings, connecting, consuming
from tracline.stream.kafka.topics import administering, create
from tracline.stream.topic import Topic
from tracline.stream.wire import Batch, Tick, decode, encode

from ..serve.truth import true_ids, write_pack
from .judging import SESSIONS, Heard, Listener, Sent, messages, send
from .keyed import PARTITIONS, Work, work
from .stage import Stage, running

pytestmark = pytest.mark.slow

SIGKILLED = -9
TIMEOUT_S = "1"
"""How long a killed process is missed before another one goes on."""
FAULTS = {
    MonitorFault.RECEIVED: 7,
    MonitorFault.STEPPED: 12,
    MonitorFault.PRODUCED: 9,
    MonitorFault.WRITTEN: 17,
    MonitorFault.ACKNOWLEDGED: 14,
    MonitorFault.COMMITTED: 1,
}
"""The time at which a process dies there."""
LAST = 4
"""Transactions that are sent when the last process starts."""


@dataclass(frozen=True)
class Case:
    """Transactions of messages, and what must come of them."""

    pack: Path
    work: Work
    sent: list[list[Sent]]
    ids: frozenset[str]

    def is_heard(self, heard: Heard) -> bool:
        """Whether all that must come has come."""
        return heard.ids.keys() >= self.ids and heard.places >= self.work.places

    def assert_heard(self, heard: Heard) -> None:
        """Every verdict and every event came, once, and nothing else."""
        assert heard.ids == Counter(self.ids)
        assert heard.places == self.work.places


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Conversations that break many rules at many places, at a time."""
    pack = write_pack(tmp_path_factory.mktemp("pack"))
    made = work(range(200, 230), apart_s=60)
    case = Case(pack, made, messages(made), frozenset(true_ids(made.told, pack)))
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
    """Who reads what the monitor says."""
    with closing(Listener(topics)) as one:
        yield one


def committed(kafka: KafkaSettings) -> dict[int, tuple[int, int]]:
    """What the monitor's group has committed of each partition of events, and where that ends."""
    places = [TopicPartition(kafka.topic(Topic.EVENTS), number) for number in range(PARTITIONS)]
    with closing(KafkaConsumer(**consuming(kafka, "monitor"))) as consumer:
        ends = consumer.end_offsets(places)
        return {place.partition: (consumer.committed(place) or 0, ends[place]) for place in places}


def test_all_is_judged_once_and_a_stop_leaves_nothing(
    topics: KafkaSettings, listener: Listener, case: Case, tmp_path: Path
) -> None:
    """Every verdict and event is told once; after SIGTERM the process exits 0 and has committed all it read."""
    send(topics, case.sent)
    with monitor(topics, tmp_path / "log", case) as stage:
        case.assert_heard(listener.until(case.is_heard))
        stage.until("tracline_kafka_lag", lambda values: bool(values) and max(values) <= 1)
        assert stage.metric("tracline_sessions_open") == [0]
        assert sum(stage.metric("tracline_verdicts_total")) == len(case.ids)
        assert stage.stop() == 0
    # The mark of the last transaction is no message.
    assert all(end - at <= 1 for at, end in committed(topics).values()), committed(topics)


@pytest.mark.parametrize("store", ["memory", "rocksdict"])
def test_killed_at_every_place(
    topics: KafkaSettings, listener: Listener, case: Case, tmp_path: Path, store: str
) -> None:
    """Killed at each place where it may be, and started again, it says what it would have said."""
    assert set(FAULTS) == set(MonitorFault), "every place is tried"
    send(topics, case.sent[:-LAST])
    flags = ("--store", store, "--data", str(tmp_path / "data"))
    for fault, time in FAULTS.items():
        log = tmp_path / f"{fault}.log"
        with monitor(topics, log, case, *flags, fault=f"{fault}:{time}") as stage:
            assert stage.ended() == SIGKILLED, log.read_text()
    send(topics, case.sent[-LAST:])
    with monitor(topics, tmp_path / "log", case, *flags) as stage:
        case.assert_heard(listener.until(case.is_heard))
        assert stage.stop() == 0
    heard = listener.heard
    print(f"{store}: killed {len(FAULTS)} times; {len(case.ids)} verdicts, {heard.again} messages told twice")
    assert heard.again, "what is told twice was never seen"
