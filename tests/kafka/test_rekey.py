"""The rekey stage on a real broker: killed, fenced and fed poison, it sends every candidate once.

What must come is the truth of the conversations, and what the pure rekeyer makes of them at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest
from tracline.stream.faults import RekeyFault
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.kafka.topics import administering
from tracline.stream.rekeyer import Record, Rekeyer, Transaction
from tracline.stream.wire import Tick

from .broker import Broker
from .keyed import BYTES_MAX, PARTITIONS, SETTINGS, SOURCES, Work, pure, work
from .rekeying import (
    WAIT_S,
    batches,
    behind,
    check,
    here,
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
