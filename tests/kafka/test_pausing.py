"""A partition that waits for another one goes on with the record after the last that was read."""

from __future__ import annotations

from contextlib import closing

import pytest
from tracline.stream.group.client import OutgoingRecord, TopicPartition
from tracline.stream.kafka.client import KafkaClient
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.topics import Topic

from ..support.brokers.sending import send_records
from ..support.processes.rekeying import until
from ..support.processes.stage import TIMEOUT_S

pytestmark = pytest.mark.slow

POLLED = 100
"""Records that are taken from the client at a time."""
RECORDS = 2 * POLLED + POLLED // 2


def test_a_paused_partition_is_read_to_its_end(topics: KafkaSettings) -> None:
    """It was paused between two polls of what was fetched, and others were read before it was resumed."""
    topic = topics.topic(Topic.JUDGED)
    paused, unpaused = (TopicPartition(topic, number) for number in (0, 1))
    _fill(topics, paused, unpaused)
    read: dict[TopicPartition, list[int]] = {paused: [], unpaused: []}
    with closing(KafkaClient(topics, "archive", topic, float(TIMEOUT_S))) as client:
        client.open()

        def has_read(place: TopicPartition, count: int) -> bool:
            for record in client.poll(topic, 0.1, POLLED):
                read[TopicPartition(record.topic, record.partition)].append(record.offset)
            return len(read[place]) >= count

        until("some of it is read", lambda: has_read(paused, 1) or read[unpaused])
        if not read[paused]:
            paused, unpaused = unpaused, paused
        before = len(read[paused])
        assert before < RECORDS, "nothing is left of what was fetched"
        client.pause(paused, is_paused=True)
        until("the other one is read", lambda: has_read(unpaused, RECORDS))
        assert len(read[paused]) == before, "it was paused too late"
        client.pause(paused, is_paused=False)
        until("it is read to its end", lambda: has_read(paused, RECORDS))
    assert read == {paused: list(range(RECORDS)), unpaused: list(range(RECORDS))}


def _fill(kafka: KafkaSettings, *places: TopicPartition) -> None:
    """Write as many records to each partition as are read in three polls, in one batch."""
    send_records(
        kafka, [OutgoingRecord(*place, None, b"some text") for place in places for _ in range(RECORDS)]
    )
