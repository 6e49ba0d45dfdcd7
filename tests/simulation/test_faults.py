"""The production processes over the broker in memory, under one fault at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.stream.alerts.alert import Alert, AlertStatus, decode
from tracline.stream.alerts.delivery import Delivery
from tracline.stream.group.broker_errors import KafkaConnectionError, TopicAuthorizationFailedError
from tracline.stream.group.client import TopicPartition
from tracline.stream.ingest.request import Encoding
from tracline.stream.memory.broker import RECORDS_MAX, MemoryBroker
from tracline.stream.messages.codec import CandidateBatch
from tracline.stream.messages.codec import decode as decode_message
from tracline.stream.messages.topics import Topic
from tracline.stream.process.alert_metrics import AlertMetrics
from tracline.stream.process.faultpoints import AlertFault
from tracline.stream.stages.archive import ChunkLimits
from tracline.stream.stages.rekey import IdleInput, RekeyResult, RekeyStage, RekeyState, SourceRequest

from ..support.conversations import alert_messages
from ..support.conversations.scripts import START_NS
from ..support.processes.live import SETTINGS, wire
from .parted import parted
from .processes import (
    KAFKA,
    NAMES,
    TIMEOUT_S,
    Crash,
    Layout,
    Setting,
    Slot,
    alerts_slot,
    archive_slot,
    make_topics,
    rekey_slot,
)

ROUNDS_MAX = 2_000


@dataclass
class Bed:
    """A broker with its topics, its time, and what goes wrong at a request or a fault point."""

    partitions: int = 1
    time: float = 0.0
    now: int = START_NS
    wrong: Callable[[str], None] = lambda _kind: None
    gap: Callable[[str, str], None] = lambda _slot, _place: None
    setting: Setting = field(init=False)

    def __post_init__(self) -> None:
        broker = MemoryBroker(lambda: self.time, lambda _client, kind: self.wrong(kind))
        layout = Layout(1, self.partitions, 900_000)
        make_topics(broker, layout)
        self.setting = Setting(
            broker, layout, lambda: self.time, lambda: self.now, lambda slot, place: self.gap(slot, place)
        )

    @property
    def broker(self) -> MemoryBroker:
        """Return the broker."""
        return self.setting.broker

    def append(self, topic: Topic, partition: int, value: bytes) -> None:
        """Append a record of now."""
        self.broker.append(NAMES[topic], partition, None, value, self.now // 1_000_000)

    def turn(self, *slots: Slot, times: int = 1) -> None:
        """Do turns of processes, one after the other."""
        for _ in range(times):
            for slot in slots:
                self.time += 0.2
                slot.turn()

    def values(self, topic: Topic) -> list[bytes]:
        """Return the committed values of partition 0."""
        place = TopicPartition(NAMES[topic], 0)
        return [record.value or b"" for record in self.broker.read(place, 0, 1 << 30)[0]]


def spans(count: int) -> Iterator[bytes]:
    """Yield requests of one span each, in traces of their own."""
    for number in range(1, count + 1):
        span = Span(
            f"{number:032x}",
            f"{number:016x}",
            None,
            "chat",
            START_NS,
            START_NS + number * NS,
            attributes=CHAT,
        )
        yield wire([span], Encoding.PROTOBUF)


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "one"}


@contextmanager
def rekeyer(bed: Bed, records: int = 3) -> Iterator[Slot]:
    """A rekeyer that has read some records of spans."""
    slot = rekey_slot("rekey-0", bed.setting, SETTINGS)
    for value in spans(records):
        bed.append(Topic.SPANS, 0, value)
    bed.turn(slot, times=5)
    assert slot.is_ready
    assert is_read(bed, "rekey", Topic.SPANS, records)
    yield slot


def is_read(bed: Bed, process: str, topic: Topic, offset: int) -> bool:
    """Return whether a group has committed partition 0 of a topic up to there."""
    return bed.broker.committed(KAFKA.group(process), TopicPartition(NAMES[topic], 0)) == offset


@pytest.mark.parametrize("records", [0, 3, 9])
def test_a_recreated_topic_ends_the_rekeyer(records: int) -> None:
    """However many records the new topic has (TRL735)."""
    bed = Bed()
    with rekeyer(bed) as slot:
        bed.broker.delete_topic(NAMES[Topic.SPANS])
        bed.broker.create_topic(NAMES[Topic.SPANS], 1)
        for value in spans(records):
            bed.append(Topic.SPANS, 0, value)
        bed.turn(slot, times=5)
    assert bed.setting.hits["TRL735"] == 1


def test_a_deleted_topic_is_waited_for() -> None:
    """The process reports it once, and ends when the name has another topic."""
    bed = Bed()
    with rekeyer(bed) as slot:
        bed.broker.delete_topic(NAMES[Topic.SPANS])
        bed.turn(slot, times=40)
        assert bed.setting.hits["away"] == 1
        assert not slot.is_ready
        bed.broker.create_topic(NAMES[Topic.SPANS], 1)
        bed.turn(slot, times=5)
    assert bed.setting.hits["TRL735"] == 1


def test_added_partitions_end_the_rekeyer() -> None:
    """Sessions would change their partition (TRL732)."""
    bed = Bed()
    with rekeyer(bed) as slot:
        bed.broker.add_partitions(NAMES[Topic.EVENTS], 2)
        bed.turn(slot, times=10)
    assert bed.setting.hits["TRL732"] > 0


def test_deleted_records_are_reported() -> None:
    """Retention overtakes a process: it goes on behind the gap."""
    bed = Bed()
    with rekeyer(bed) as slot:
        for value in spans(4):
            bed.append(Topic.SPANS, 0, value)
        bed.broker.delete_records(TopicPartition(NAMES[Topic.SPANS], 0), 5)
        bed.turn(slot, times=2)
    assert is_read(bed, "rekey", Topic.SPANS, 7)
    [line] = [line for line in slot.lines if "deleted" in line]
    assert "Kafka has deleted 2 records that were not read (3 to 4)" in line


def test_refusals_in_a_row_end_the_process() -> None:
    """Three that waiting does not mend (TRL734); a commit in between begins the count again."""
    bed = Bed()
    refused = Counter[str]()

    def refuse(kind: str) -> None:
        if kind == "commit":
            refused[kind] += 1
            if refused[kind] not in (3, 4):
                raise TopicAuthorizationFailedError

    with rekeyer(bed) as slot:
        bed.wrong = refuse
        bed.turn(slot, times=60)
    assert bed.setting.hits["TRL734"] >= 1
    assert refused["commit"] >= 7
    assert any("Kafka is reachable again" in line for line in slot.lines)


def test_a_process_whose_instance_runs_twice_ends() -> None:
    """The first of the two learns of it at its next transaction (TRL733)."""
    bed = Bed()
    with rekeyer(bed) as slot:
        twin = rekey_slot("rekey-0", bed.setting, SETTINGS)
        twin.starts = 7
        bed.turn(slot, twin, times=12)
    assert bed.setting.hits["TRL733"] >= 1


def test_a_broker_that_is_away_is_waited_for() -> None:
    """The process reports once that it is away and once that it is back, and loses nothing."""
    bed = Bed()

    def away(kind: str) -> None:
        raise KafkaConnectionError(kind)

    with rekeyer(bed) as slot:
        present, bed.wrong = bed.wrong, away
        bed.turn(slot, times=10)
        bed.wrong = present
        for value in spans(2):
            bed.append(Topic.SPANS, 0, value)
        bed.turn(slot, times=30)
    assert is_read(bed, "rekey", Topic.SPANS, 5)
    assert [line.partition(":")[0] for line in slot.lines if "Kafka" in line] == [
        "Kafka",
        "Kafka is reachable again",
    ]


def test_spans_wait_for_the_first_log_record_of_their_source() -> None:
    """Though it is read only after spans of more than `lateness_s`, and nothing was known of log records."""
    bed = Bed()
    with rekeyer(bed) as slot:
        messages = '[{"role": "assistant", "parts": [{"type": "text", "content": "how may I help"}]}]'
        attributes = {**CHAT, "gen_ai.output.messages": messages}
        end = START_NS + 10 * NS
        bare, record = parted(Span("a" * 32, "a" * 16, None, "chat", START_NS, end, attributes=attributes))
        later = Span("b" * 32, "b" * 16, None, "chat", end, end + 1_000 * NS, attributes=CHAT)
        assert record is not None
        bed.append(Topic.LOGS, 0, record)
        for span in (bare, later):
            bed.now = span.end
            bed.append(Topic.SPANS, 0, wire([span], Encoding.PROTOBUF))
        bed.broker.fetch_limit = lambda place: 0 if place.topic == NAMES[Topic.LOGS] else RECORDS_MAX
        bed.turn(slot)
        assert is_read(bed, "rekey", Topic.SPANS, 5)
        bed.broker.fetch_limit = lambda _place: RECORDS_MAX
        bed.turn(slot, times=10)
        bed.now += 24 * 3_600 * NS
        bed.turn(slot, times=10)
    assert b"how may I help" in b"".join(bed.values(Topic.EVENTS))


def test_a_record_that_breaks_the_stage_is_put_aside_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others of its transaction are taken, each once."""
    step, poison = RekeyStage.step, sha256(b"poison").digest()

    def fragile(
        self: RekeyStage,
        state: RekeyState,
        records: Iterable[SourceRequest | IdleInput],
        now: int | None = None,
    ) -> RekeyResult:
        requests = list(records)
        result = step(self, state, requests, now)
        if any(isinstance(record, SourceRequest) and record.sha256 == poison for record in requests):
            raise KeyError("what a customer wrote")
        return result

    monkeypatch.setattr(RekeyStage, "step", fragile)
    bed = Bed()
    with rekeyer(bed) as slot:
        first, second = spans(2)
        for value in (first, b"poison", second):
            bed.append(Topic.SPANS, 0, value)
        bed.turn(slot, times=4)
        assert is_read(bed, "rekey", Topic.SPANS, 6)
        assert len(bed.values(Topic.DEAD_LETTER)) == 1
        bed.now += 10 * 3_600 * NS
        bed.turn(slot, times=20)
    batches = [
        message
        for message in map(decode_message, bed.values(Topic.EVENTS))
        if isinstance(message, CandidateBatch)
    ]
    assert sum(len(batch.candidates) for batch in batches) > 0


def test_a_recreated_topic_ends_the_archiver(tmp_path: Path) -> None:
    """The archived events are of the old topic (TRL751)."""
    bed = Bed()
    slot = archive_slot("archive-0", bed.setting, tmp_path / "archive", ChunkLimits(every_s=0.1))
    bed.append(Topic.JUDGED, 0, b"no message")
    bed.turn(slot, times=6)
    assert len(bed.values(Topic.DEAD_LETTER)) == 1
    assert is_read(bed, "archive", Topic.JUDGED, 1)
    bed.broker.delete_topic(NAMES[Topic.JUDGED])
    bed.broker.create_topic(NAMES[Topic.JUDGED], 1)
    bed.turn(slot, times=6)
    assert bed.setting.hits["TRL751"] > 0


class Ear:
    """A receiver that takes everything."""

    name = "ear"
    resend = True

    def __init__(self) -> None:
        self.alerts: list[Alert] = []

    def send(self, alerts: Sequence[Alert], now: int, lease_s: float) -> None:  # noqa: ARG002
        """Take them."""
        self.alerts += alerts


@pytest.mark.parametrize("seed", range(6))
def test_a_spike_is_one_alert_whatever_happens(seed: int) -> None:
    """Two processes of alerts, crashes at every fault point, silence, a broker away: one alert, delivered."""
    random, ear, crashes = Random(f"alerts {seed}"), Ear(), Counter[str]()

    def crash(_slot: str, place: str) -> None:
        if random.random() < 0.1:
            crashes[place] += 1
            raise Crash(place)

    def trouble(kind: str) -> None:
        if random.random() < 0.01:
            raise KafkaConnectionError(kind)

    def delivery(metrics: AlertMetrics) -> Delivery:
        return Delivery([ear], metrics, jitter=random.random, report=lambda _: None)

    bed = Bed(partitions=alert_messages.PARTITIONS, now=alert_messages.BEGAN, gap=crash, wrong=trouble)
    slots = [
        alerts_slot(
            f"alerts-{number}", bed.setting, alert_messages.tolerated(), alert_messages.SETTINGS, delivery
        )
        for number in range(2)
    ]
    for sent in alert_messages.messages():
        bed.append(Topic.VERDICTS, sent.partition, sent.value)
        bed.now += NS
        if random.random() < 0.3:
            bed.turn(random.choice(slots))
        if random.random() < 0.02:
            bed.time += TIMEOUT_S + 1
    bed.gap, bed.wrong = Bed().gap, Bed().wrong
    _finish(bed, slots)
    alerts = [decode(value) for value in bed.values(Topic.ALERTS)]
    assert [alert.status for alert in alerts] == [AlertStatus.FIRING, AlertStatus.RESOLVED]
    assert len({alert.id for alert in alerts}) == 1
    assert alerts[0].agent == alert_messages.WRONG
    assert ear.alerts[-1] == alerts[-1]
    assert set(crashes) <= set(AlertFault)
    assert crashes.total() > 0


def _finish(bed: Bed, slots: list[Slot]) -> None:
    """Let everything be read and delivered."""
    alerts = TopicPartition(NAMES[Topic.ALERTS], 0)
    group = KAFKA.group("alerts")
    for _ in range(ROUNDS_MAX):
        bed.now += NS
        bed.turn(*slots)
        places = [
            TopicPartition(NAMES[Topic.VERDICTS], number) for number in range(alert_messages.PARTITIONS)
        ]
        read = all((bed.broker.committed(group, place) or 0) >= bed.broker.end(place) for place in places)
        # Behind the last alert is the marker of its transaction.
        if read and (bed.broker.committed(group, alerts) or 0) >= bed.broker.end(alerts) - 1:
            return
    raise AssertionError([slot.lines[-3:] for slot in slots])
