"""A record with a key goes to the partition that Kafka's own clients choose, whichever client sends it."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import DefaultPartitioner
from tracline.stream.group.client import OutgoingRecord
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.topics import Topic

from ..support.brokers.reading import read
from ..support.brokers.sending import send_records

pytestmark = pytest.mark.slow
PARTITIONS = 4
KEYS = [b"%032x" % (number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128)) for number in range(64)]


def test_a_key_has_the_same_partition_whichever_client_sends_it(topics: KafkaSettings) -> None:
    """Else the spans of a trace would move to another partition when a client is exchanged."""
    topic, choose = topics.topic(Topic.SPANS), DefaultPartitioner()
    send_records(topics, [OutgoingRecord(topic, None, key, b"{}") for key in KEYS])
    found = {record.key: record.partition for record in read(topics, topic)}
    numbers = list(range(PARTITIONS))
    assert found == {key: choose(key, numbers, numbers) for key in KEYS}
    assert set(found.values()) == set(numbers)
