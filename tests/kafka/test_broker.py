"""The broker that the tests of this folder use."""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from tracline.examples.local_kafka import Broker, answers


@pytest.mark.slow
def test_a_killed_broker_comes_back_with_what_it_acknowledged(own_broker: Broker, unique: str) -> None:
    """After SIGKILL nobody answers; after a restart the record that was acknowledged before is there."""
    with KafkaAdminClient(bootstrap_servers=own_broker.bootstrap) as admin:
        admin.create_topics({unique: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    producer = KafkaProducer(bootstrap_servers=own_broker.bootstrap, acks="all")
    producer.send(unique, b"record").get(timeout=10)
    producer.close()
    own_broker.kill()
    assert not answers(own_broker.bootstrap)
    own_broker.start()
    consumer = KafkaConsumer(
        unique,
        bootstrap_servers=own_broker.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    )
    assert next(consumer).value == b"record"
    consumer.close()
