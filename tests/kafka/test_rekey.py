"""The rekey stage on a real broker: killed, fenced and fed poison, it sends every candidate once.

What must come is the truth of the conversations, and what the pure rekeyer makes of them at once.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaTimeoutError
from kafka.structs import OffsetAndMetadata, TopicPartition
from tracline.examples.local_kafka import Broker
from tracline.examples.spans.sessions import START_NS
from tracline.schemas.span import Span
from tracline.stream.ingest.request import Encoding
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.kafka.topics import administering
from tracline.stream.messages.codec import Tick
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic
from tracline.stream.process.faultpoints import RekeyFault
from tracline.stream.stages.rekey import IdleInput, RekeyResult, RekeyStage, RekeyState, SourceRequest

from ..serve.live import wire
from .anew import make_anew
from .keyed import PARTITIONS, SETTINGS, SOURCES, Work, pure, work
from .rekeying import (
    WAIT_S,
    batches,
    check,
    here,
    is_asleep,
    letters,
    make_topics,
    messages,
    process,
    send,
    until,
    until_carried,
)

pytestmark = pytest.mark.slow
SIGKILLED = -9


@pytest.fixture(scope="module")
def done() -> Work:
    """Ten conversations."""
    return work(range(10))


@pytest.fixture(scope="module")
def expected(done: Work) -> Counter[str]:
    """The candidates that they must become."""
    return pure(done.records)


@pytest.fixture
def kafka(kafka: KafkaSettings) -> KafkaSettings:
    """The shared broker with the topics of this test."""
    make_topics(kafka)
    return kafka


def portions(records: tuple[Record, ...], count: int) -> Iterable[tuple[Record, ...]]:
    """The records in so many portions."""
    size = -(-len(records) // count)
    return [records[first : first + size] for first in range(0, len(records), size)]


def test_killed_in_every_gap_it_sends_each_candidate_once(
    kafka: KafkaSettings, done: Work, expected: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One process after the other is killed, each at another place; the last one finishes their work."""
    faults = list(RekeyFault)
    parts = portions(done.records, len(faults) + 1)
    for fault, part in zip(faults, parts, strict=False):
        send(kafka, part)
        with process(kafka, "--instance", "one", fault=f"{fault}:1") as running:
            assert running.ended() == SIGKILLED, (fault, running.lines)
    send(kafka, parts[-1])
    with process(kafka, "--instance", "one") as running:
        until_carried(kafka)
        running.process.terminate()
        assert running.ended() == 0, running.lines
    check(kafka, done, expected)
    assert not letters(kafka)
    with capsys.disabled():
        print(f"\nkilled at {', '.join(faults)}: {expected.total()} candidates, each once")


def test_a_killed_process_holds_the_others_up_for_its_timeout_only(
    kafka: KafkaSettings, done: Work, expected: Counter[str]
) -> None:
    """What it left open is aborted when its time is over; another one then does its work, and all is once."""
    send(kafka, done.records)
    with process(kafka, fault=f"{RekeyFault.OFFSETS}:1") as running:
        assert running.ended() == SIGKILLED, running.lines
    assert not batches(kafka)
    with here(kafka, instance="another"):
        until_carried(kafka)
    check(kafka, done, expected)


def test_partitions_change_hands_under_load(kafka: KafkaSettings, done: Work, expected: Counter[str]) -> None:
    """Two share the work; one is killed, another one added, while spans come: each candidate once."""
    parts = iter(portions(done.records, 6))
    with here(kafka, instance="first") as first:
        with process(kafka, "--instance", "second") as second:
            send(kafka, next(parts))
            until("both have partitions", lambda: len(first.partitions) < len("0, 1, 2") and second.lines[1:])
            send(kafka, next(parts))
            until_carried(kafka)
            send(kafka, next(parts))
            second.process.kill()
        send(kafka, next(parts))
        until("the first has all partitions", lambda: first.partitions == "0, 1, 2")
        with here(kafka, instance="third") as third:
            send(kafka, next(parts))
            until("the third has partitions", lambda: third.partitions)
            send(kafka, next(parts))
            until_carried(kafka)
            assert third.count("tracline_rekey_spans_total") > 0
        assert first.error is third.error is None
    check(kafka, done, expected)


@pytest.mark.parametrize("fault", [RekeyFault.TAKEN, RekeyFault.OFFSETS])
def test_who_was_asleep_does_nothing_that_others_have_done(
    fault: RekeyFault, kafka: KafkaSettings, done: Work, expected: Counter[str]
) -> None:
    """A process that wakes up with work which another has done since is refused, and joins the others."""
    first, second, third = portions(done.records, 3)
    send(kafka, first)
    with process(kafka, fault=f"{fault}:1:asleep") as asleep:
        until("it is asleep", lambda: is_asleep(asleep))
        send(kafka, second)
        with here(kafka, instance="awake") as awake:
            until_carried(kafka)
            asleep.process.send_signal(signal.SIGCONT)
            until("both have partitions", lambda: len(awake.partitions) < len("0, 1, 2"))
            send(kafka, third)
            until_carried(kafka)
            assert awake.error is None
        asleep.process.terminate()
        assert asleep.ended() == 0, asleep.lines
    check(kafka, done, expected)


POISON = b"poison"


class Fragile(RekeyStage):
    """A stage that one record breaks, once it has taken in others."""

    def step(
        self, state: RekeyState, records: Iterable[SourceRequest | IdleInput], now: int | None = None
    ) -> RekeyResult:
        """Take records in, or break."""
        some = list(records)
        done = super().step(state, some, now)
        digests = {record.sha256 for record in some if isinstance(record, SourceRequest)}
        if sha256(POISON).digest() in digests:
            raise KeyError("what a customer wrote")
        return done


def test_records_that_cannot_be_taken_are_set_aside(
    kafka: KafkaSettings, done: Work, expected: Counter[str]
) -> None:
    """Poison, broken bytes, no value, too many bytes: each becomes a dead letter, the others are taken."""
    first, second = portions(done.records, 2)
    send(kafka, first, (0, None), (1, b"\xff\xff broken"), (2, POISON), (0, bytes((20 << 20) + 1)))
    send(kafka, second)
    with here(kafka, stage=Fragile) as running:
        until_carried(kafka)
        read = running.count("tracline_kafka_messages_read_total", topic=kafka.spans_topic)
        assert read == len(done.records) + 4
        assert running.count("tracline_rekey_candidates_total") == expected.total()
        assert running.count("tracline_dead_letters_total", code="internal") == 1
    check(kafka, done, expected)
    found = letters(kafka)
    assert Counter(letter.code for letter in found) == Counter(("empty", "otlp-protobuf", "internal", "size"))
    assert {letter.code: letter.partition for letter in found if letter.partition} == {
        "otlp-protobuf": 1,
        "internal": 2,
    }
    assert {letter.reason for letter in found if letter.code == "internal"} == {"KeyError"}


TICKING = replace(SETTINGS, lateness_s=5, tick_s=0.2)


def test_time_goes_on_where_nothing_comes(kafka: KafkaSettings) -> None:
    """Every events partition hears the time of every source, none of which ever had a record."""
    now = 1_800_000_000_000_000_000
    with here(kafka, sessions=TICKING, now=lambda: now):
        heard = dict.fromkeys(range(SOURCES), now - 5_000_000_000)

        def has_come() -> bool:
            ticks = [one for one in messages(kafka) if isinstance(one, Tick)]
            return [one.watermarks for one in ticks].count(heard) >= PARTITIONS

        until("the time of all sources is told", has_come)


def test_quiet_sources_let_go_of_what_waits(kafka: KafkaSettings, done: Work, expected: Counter[str]) -> None:
    """Once all is read the clock goes on, and spans that waited for it go on, too."""
    send(kafka, done.records[:-SOURCES])
    later = done.records[-1].time
    with here(kafka, sessions=replace(SETTINGS, tick_s=0.2), now=lambda: later) as running:
        until("all is sent on", lambda: running.count("tracline_rekey_candidates_total") >= expected.total())
        assert running.error is None
    check(kafka, done, expected)


def test_a_broker_that_is_away_is_waited_for(
    own_broker: Broker, own_kafka: KafkaSettings, done: Work, expected: Counter[str]
) -> None:
    """Killed and started again, with a process that goes on meanwhile: nothing is lost or sent twice."""
    kafka = own_kafka
    make_topics(kafka)
    first, second = portions(done.records, 2)
    send(kafka, first)
    # Its ticks are transactions; the clock stands, so that they say nothing of the time.
    with here(kafka, sessions=replace(SETTINGS, tick_s=0.2), now=lambda: 0) as running:
        until_carried(kafka)
        own_broker.restart()
        send(kafka, second)
        until_carried(kafka)
        assert running.error is None
    check(kafka, done, expected)


def test_two_processes_of_one_name_do_not_go_on_together(kafka: KafkaSettings) -> None:
    """The one whose transactions the other ends says so (TRL733), and ends."""
    with here(kafka, instance="same", timeout_s=WAIT_S, sessions=TICKING) as first:
        until(
            "the first works", lambda: first.count("tracline_kafka_transactions_total", outcome="committed")
        )
        with here(kafka, instance="same", timeout_s=WAIT_S, sessions=TICKING):
            until("the first ends", lambda: first.error)
    assert first.error is not None
    assert first.error.code == "TRL733"


def test_what_kafka_refuses_again_and_again_is_said(
    kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that takes small messages only ends the process with the reason (TRL734)."""
    monkeypatch.setattr("tracline.stream.group.process.RETRY_S", 0.01)
    small = ConfigResource(ConfigResourceType.TOPIC, f"{kafka.prefix}.events", {"max.message.bytes": "100"})
    with administering(kafka) as admin:
        admin.alter_configs([small])
    with here(kafka, timeout_s=WAIT_S, sessions=TICKING) as running:
        until("it ends", lambda: running.error)
    assert running.error is not None
    assert running.error.code == "TRL734"
    assert "MessageSizeTooLarge" in str(running.error)


def test_other_numbers_of_partitions_are_refused(kafka: KafkaSettings, done: Work) -> None:
    """Topics with more partitions than the process began with end it (TRL732), and so does their state."""
    with here(kafka, partitions=PARTITIONS - 1) as running:
        until("it ends", lambda: running.error)
    assert running.error is not None
    assert running.error.code == "TRL732"
    send(kafka, done.records[:SOURCES])
    with here(kafka):
        until_carried(kafka)
    names = [kafka.topic(topic) for topic in (Topic.EVENTS, Topic.JUDGED, Topic.VERDICTS)]
    with administering(kafka) as admin:
        admin.create_partitions(dict.fromkeys(names, PARTITIONS + 1))
    with here(kafka, partitions=PARTITIONS + 1) as running:
        until("it ends", lambda: running.error)
    assert running.error is not None
    assert running.error.code == "TRL732"
    assert f"{PARTITIONS} of events" in str(running.error)


def test_what_was_gathered_before_an_error_is_read_again(
    kafka: KafkaSettings, done: Work, expected: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has passed it by then: whoever went on from there would leave it out."""
    poll, polled_spans, raised = KafkaConsumer.poll, list[bool](), list[bool]()

    def fails_once(self: KafkaConsumer, *how: Any, **more: Any) -> Any:
        if polled_spans and not raised:
            raised.append(True)
            raise KafkaTimeoutError("the second question after some records came")
        polled = poll(self, *how, **more)
        polled_spans.extend(place.topic == kafka.spans_topic for place in polled)
        return polled

    with here(kafka) as running:
        until("it has partitions", lambda: running.partitions)
        monkeypatch.setattr(KafkaConsumer, "poll", fails_once)
        send(kafka, done.records)
        until_carried(kafka)
        assert running.error is None
    monkeypatch.undo()
    assert raised
    check(kafka, done, expected)


class Overtaken(RekeyStage):
    """A stage that has other work at hand while it takes its first records."""

    def __init__(self, *how: Any) -> None:
        super().__init__(*how)
        self.meanwhile: Callable[[], None] | None = None

    def step(
        self, state: RekeyState, records: Iterable[SourceRequest | IdleInput], now: int | None = None
    ) -> RekeyResult:
        """Take records in; before the first of them, the other work."""
        work, self.meanwhile = self.meanwhile, None
        if work is not None:
            work()
        return super().step(state, records, now)


def test_what_kafka_deletes_under_a_process_is_said(kafka: KafkaSettings, done: Work) -> None:
    """Retention overtakes a process that runs: it goes on behind the gap and says how large it is."""
    first, *others = [record for record in done.records if record.partition == 0]
    assert len(others) > 2
    place = TopicPartition(kafka.spans_topic, 0)

    def overtake() -> None:
        for record in others:
            send(kafka, [record])
        with administering(kafka) as admin:
            admin.delete_records({place: len(others)})

    def overtaken(*how: Any) -> Overtaken:
        stage = Overtaken(*how)
        stage.meanwhile = overtake
        return stage

    with here(kafka, stage=overtaken) as running:
        send(kafka, [first])
        until_carried(kafka)
        assert running.error is None
        read = running.count("tracline_kafka_messages_read_total", topic=kafka.spans_topic)
        lost = running.count("tracline_kafka_deleted_total", topic=kafka.spans_topic)
    assert read < 1 + len(others)
    assert lost == 1 + len(others) - read
    assert [line for line in running.lines if f"Kafka has deleted {lost:.0f} records" in line]


def test_spans_that_are_not_read_are_said(kafka: KafkaSettings) -> None:
    """Once in the log, when nothing more is on its way, and by a metric."""
    spans = [
        Span(f"{n:032x}", f"{n:016x}", None, "x", START_NS, START_NS, scope="sdk-x") for n in range(1, 39)
    ]
    for part in (spans[:30], spans[30:]):
        send(kafka, [Record(0, 0, START_NS, wire(part, Encoding.PROTOBUF))])
    with here(kafka, sessions=replace(SETTINGS, tick_s=1)) as running:
        until("it is said", lambda: any("none tells" in line for line in running.lines))
        assert running.count("tracline_spans_unread_total", scope="sdk-x") == 38
        assert running.count("tracline_spans_read_total", scope="sdk-x") == 0
    assert [line.partition(";")[0] for line in running.lines if "none tells" in line] == [
        "38 spans, none tells of a conversation"
    ]


def test_what_was_deleted_before_a_start_is_said(kafka: KafkaSettings, done: Work) -> None:
    """Retention overtakes a process that was down."""
    own = [record for record in done.records if record.partition == 0]
    send(kafka, own[:2])
    with here(kafka):
        until_carried(kafka)
    send(kafka, own[2:])
    with administering(kafka) as admin:
        admin.delete_records({TopicPartition(kafka.spans_topic, 0): len(own) - 1})
    with here(kafka) as running:
        until_carried(kafka)
        assert running.count("tracline_kafka_deleted_total", topic=kafka.spans_topic) == len(own) - 3
    assert running.error is None


def test_a_topic_that_is_recreated_meanwhile_is_refused(kafka: KafkaSettings, done: Work) -> None:
    """The process ends (TRL735), though the new topic has as many records as were read of the old one."""
    own = [record for record in done.records if record.partition == 0]
    send(kafka, own)
    with here(kafka) as running:
        until_carried(kafka)
        make_anew(kafka, Topic.SPANS, PARTITIONS)
        send(kafka, own)
        until("it ends", lambda: running.error)
    assert running.error is not None
    assert running.error.code == "TRL735", running.error
    assert "was deleted and created again" in str(running.error)


def test_a_topic_that_ends_before_what_was_read_is_refused(kafka: KafkaSettings, done: Work) -> None:
    """Nothing is read a second time, as Kafka's client would do by itself (TRL735)."""
    own = [record for record in done.records if record.partition == 0]
    send(kafka, own)
    place = TopicPartition(kafka.spans_topic, 0)
    with administering(kafka) as admin:
        beyond = {place: OffsetAndMetadata(len(own) + 5, "", -1)}
        admin.alter_group_offsets(kafka.group("rekey"), beyond)
    with here(kafka) as running:
        until("it ends", lambda: running.error)
    assert running.error is not None
    assert running.error.code == "TRL735"
    assert f"ends at offset {len(own)}, and was read up to {len(own) + 5}" in str(running.error)
    assert not batches(kafka)
