"""A real Apache Kafka: the one that `KAFKA_BOOTSTRAP_SERVERS` names, else one of our own.

Without either the tests skip, and where the one that is named would keep them waiting for who was killed.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_SH, LOCK_UN, flock
from pathlib import Path

import pytest
from tracline.examples.local_kafka import PROPERTIES, Broker, missing
from tracline.stream.kafka.care.create_topics import create
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings

REQUIRED = os.environ.get("TRACLINE_REQUIRE_KAFKA") == "1"


QUICK = (
    "group.min.session.timeout.ms",
    "group.initial.rebalance.delay.ms",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
)
"""Limits that a broker must not exceed, since tests must notice soon that a process was killed."""
SOON_BACK = {"broker.session.timeout.ms": 1400}
"""Settings with which a broker accepts clients again a second and a half after it was killed.

It knows its groups as soon as Java runs, and receives their heartbeats only then: by then it would miss them.
"""


def need(lack: str | None) -> None:
    """Skip where something is lacking, or fail where Kafka is asked for."""
    if lack and REQUIRED:
        pytest.fail(f"{lack} (TRACLINE_REQUIRE_KAFKA asks for Kafka)")
    if lack:
        pytest.skip(lack)


def need_own() -> None:
    """Skip, or fail where Kafka is asked for, unless a broker of our own can be started."""
    need(missing())


def too_patient(kafka: KafkaSettings) -> str | None:
    """Return what the brokers must be started with for these tests; None where they are."""
    with administering(kafka) as admin:
        configured = admin.broker_config()
    slow = [
        name for name in QUICK if name in configured and int(configured[name]) > int(str(PROPERTIES[name]))
    ]
    wanted = ", ".join(f"{name}={PROPERTIES[name]}" for name in slow)
    return f"the brokers of KAFKA_BOOTSTRAP_SERVERS need {wanted}" if slow else None


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that all tests share, so each uses names of its own, and none kills it."""
    if given := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        need(too_patient(KafkaSettings(tuple(given.split(",")))))
        yield given
        return
    need_own()
    folder = tmp_path_factory.getbasetemp()
    with broker_of_all(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as address:
        yield address


@contextmanager
def broker_of_all(folder: Path) -> Generator[str]:
    """Yield the address of the broker in a folder; the first process starts it, and waits for the others."""
    address = folder / "broker"
    with (folder / "broker.starting").open("w") as starting, (folder / "broker.using").open("w") as using:
        flock(starting, LOCK_EX)
        broker = None if address.exists() else Broker(folder / "kafka")
        try:
            if broker is not None:
                broker.start()
                address.write_text(broker.bootstrap)
            flock(using, LOCK_SH)
            flock(starting, LOCK_UN)
            yield address.read_text()
        finally:
            if broker is not None:
                flock(starting, LOCK_EX)
                flock(using, LOCK_EX)
                address.unlink(missing_ok=True)
                broker.kill()


@pytest.fixture
def new_broker(tmp_path: Path) -> Iterator[Broker]:
    """A started broker of the test's own, which never had a topic or a group."""
    need_own()
    broker = Broker(tmp_path / "kafka")
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@pytest.fixture(scope="session")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all tests that kill one; started by the first of them."""
    need_own()
    broker = Broker(tmp_path_factory.mktemp("mortal"), SOON_BACK)
    try:
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def own_broker(mortal: Broker) -> Broker:
    """A started broker, which the test has to itself and may kill and restart; what others left is there.

    So each uses names of its own.
    """
    if mortal.process is None:
        mortal.start()
    else:
        mortal.answering()
    return mortal


@pytest.fixture
def unique() -> str:
    """A name for the topics, groups and transactions of one test: `tracline-` and eight digits."""
    return f"tracline-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def kafka(bootstrap: str, unique: str) -> KafkaSettings:
    """The shared broker, with names of the test's own for topics and groups; no topic exists yet."""
    return KafkaSettings(
        tuple(bootstrap.split(",")), prefix=unique, spans_topic=f"{unique}-spans", logs_topic=f"{unique}-logs"
    )


@pytest.fixture
def topics(kafka: KafkaSettings) -> KafkaSettings:
    """`kafka`, with all its topics made: four partitions of spans, four of sessions."""
    with administering(kafka) as admin:
        create(admin, kafka, partitions=4)
    return kafka


@pytest.fixture
def own_kafka(own_broker: Broker, unique: str) -> KafkaSettings:
    """The broker that the test may kill, with names of the test's own; no topic exists yet."""
    return KafkaSettings(
        (own_broker.bootstrap,), prefix=unique, spans_topic=f"{unique}-spans", logs_topic=f"{unique}-logs"
    )
