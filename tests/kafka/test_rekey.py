"""The rekey stage on a real broker: killed, fenced and fed poison, it sends every candidate once.

What must come is the truth of the conversations, and what the pure rekeyer makes of them at once.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable

import pytest
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic
from tracline.stream.process.faultpoints import RekeyFault

from ..support.conversations.keyed import PARTITIONS, Work, pure, work
from ..support.processes.rekeying import (
    batches,
    check,
    here,
    letters,
    make_topics,
    process,
    send,
    until,
    until_carried,
)
from ..support.processes.stage import DYING_S
from .recreated import recreate
from .side_by_side import side_by_side

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
        with process(kafka, "--instance", "one", "--timeout-s", DYING_S, fault=f"{fault}:1") as running:
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
    """Its open transaction is aborted when its time is over; another one then does its work, all once."""
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


def test_who_was_asleep_does_nothing_that_others_have_done(
    kafka: KafkaSettings, done: Work, expected: Counter[str]
) -> None:
    """A process that wakes up with work which another has done since is refused, and joins the others."""

    def check_at(kafka: KafkaSettings, fault: RekeyFault) -> None:
        make_topics(kafka)
        check_asleep(kafka, fault, done, expected)

    side_by_side(kafka, [RekeyFault.TAKEN, RekeyFault.OFFSETS], check_at)


def check_asleep(kafka: KafkaSettings, fault: RekeyFault, done: Work, expected: Counter[str]) -> None:
    """Check what comes of the work of a process that falls asleep there, and of another one."""
    first, second, third = portions(done.records, 3)
    send(kafka, first)
    with process(kafka, fault=f"{fault}:1:asleep") as asleep:
        until("it is asleep", lambda: asleep.is_asleep)
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


def test_a_topic_that_is_recreated_meanwhile_is_refused(kafka: KafkaSettings, done: Work) -> None:
    """The process ends (TRL735), though the new topic has as many records as were read of the old one."""
    of_partition = [record for record in done.records if record.partition == 0]
    send(kafka, of_partition)
    with here(kafka) as running:
        until_carried(kafka)
        recreate(kafka, Topic.SPANS, PARTITIONS)
        send(kafka, of_partition)
        until("it ends", lambda: running.error)
    assert running.error is not None
    assert running.error.code == "TRL735", running.error
    assert "was deleted and created again" in str(running.error)
