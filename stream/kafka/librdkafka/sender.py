"""Sending records with librdkafka's producer, and waiting for their acknowledgement."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError as Code
from confluent_kafka import Producer

from ...group.broker_errors import KafkaTimeoutError
from ...group.client import OutgoingRecord
from .errors import kafka_error, raising

LOGGER = logging.getLogger(__name__)
ROOM_S = 0.05
"""The seconds to wait for acknowledgements where librdkafka has no room for more records."""
LATE_S = 1.5
"""The seconds that librdkafka may take to see that the time of a record is up."""
ANY = -1
"""The partition of a record that its key chooses, or nothing."""


class RecordSender:
    """A producer whose `send` returns once the brokers have every record.

    Raises KafkaError where librdkafka refuses the properties.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._within_s = properties["message.timeout.ms"] / 1000 + LATE_S
        with raising():
            self.producer: Any = Producer(dict(properties), logger=LOGGER)

    def send(
        self, records: Iterable[OutgoingRecord], headers: Sequence[tuple[str, bytes]] | None = None
    ) -> None:
        """Send records, each with these headers, and return once the brokers have all of them."""
        failed: list[Code] = []

        def note(error: Code | None, _message: object) -> None:
            if error is not None:
                failed.append(error)

        produce = self.producer.produce
        with raising():
            for topic, partition, key, value in records:
                number = ANY if partition is None else partition
                while True:
                    try:
                        produce(topic, value, key, number, note, headers=headers)
                        break
                    except BufferError:
                        self.producer.poll(ROOM_S)
            left = self.producer.flush(self._within_s)
        if failed:
            raise kafka_error(failed[0])
        if left:
            raise KafkaTimeoutError(f"{left} records were not acknowledged")

    def close(self) -> None:
        """Close the connections; what was not sent is never sent."""
        with raising():
            # The end of a producer waits for what is in flight.
            self.producer.purge()
        self.producer = None
