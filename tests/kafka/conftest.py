"""A real Apache Kafka: the one that `KAFKA_BOOTSTRAP_SERVERS` names, else one of our own.

Without either the tests skip.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tracline.examples.local_kafka import Broker, missing
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.kafka.topics import administering, create

REQUIRED = os.environ.get("TRACLINE_REQUIRE_KAFKA") == "1"


def need_own() -> None:
    """Skip, or fail where Kafka is asked for, unless a broker of our own can be started."""
    if lack := missing():
        if REQUIRED:
            pytest.fail(f"{lack} (TRACLINE_REQUIRE_KAFKA asks for Kafka)")
        pytest.skip(lack)


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that all tests share, so each uses names of its own, and none kills it."""
    if given := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        yield given
        return
    need_own()
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    try:
        broker.start()
        yield broker.bootstrap
    finally:
        broker.kill()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A started broker of the test's own, which it may kill and restart."""
    need_own()
    broker = Broker(tmp_path / "kafka")
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def unique() -> str:
    """A name for the topics, groups and transactions of one test: `tracline-` and eight digits."""
    return f"tracline-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def kafka(bootstrap: str, unique: str) -> KafkaSettings:
    """The shared broker, with names of the test's own for topics and groups; no topic exists yet."""
    return KafkaSettings(tuple(bootstrap.split(",")), prefix=unique, spans_topic=f"{unique}-spans")


@pytest.fixture
def topics(kafka: KafkaSettings) -> KafkaSettings:
    """`kafka`, with all its topics made: four partitions of spans, four of sessions."""
    with administering(kafka) as admin:
        create(admin, kafka, partitions=4)
    return kafka
