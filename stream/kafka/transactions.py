"""A transactional producer: what is sent together is seen together, with the offsets that it was made of.

After a KafkaError nothing of the transaction may be relied on: `discard`, and `open` again, which aborts
it. Nothing else is done with a producer that has failed, since kafka-python (3.0) sends the offsets of a
failed transaction again with the next one, where they may belong to another process by then.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from ..group.client import FENCED, OutgoingRecord, fenced_error
from .preflight import LISTEN_S, drop_producer, require_listener
from .settings import KafkaSettings, producing

BATCH_BYTES = 262_144
"""The bytes that are sent to a partition at a time, before compression; larger records go alone."""
LINGER_MS = 100
"""`produce` sends what it has in the end, so waiting only makes fuller batches."""
RETRY_MS = 20
"""The milliseconds before the broker is asked again, as when it still writes the last transaction's end."""
BLOCK_MS = 10_000
"""The milliseconds that the broker may take to send metadata, and to end a predecessor's transaction."""


class Transactions:
    """Transactions of one process; `instance` is its name, the same after a restart.

    The open transaction of a process is aborted when one of the same instance opens, or by the broker after
    `timeout_s`; until then readers of committed records wait. Two that run with the same instance
    end each other's transactions.
    """

    def __init__(self, settings: KafkaSettings, process: str, instance: str, timeout_s: float) -> None:
        """Connect to nothing yet. Raises StreamError (TRL721, TRL722)."""
        self._settings = settings
        self._instance, self._timeout_s = instance, timeout_s
        self._began = 0.0
        self._config: dict[str, Any] = {
            **producing(settings, process),
            "transactional_id": f"{settings.group(process)}-{instance}",
            "transaction_timeout_ms": round(timeout_s * 1000),
            "batch_size": BATCH_BYTES,
            "linger_ms": LINGER_MS,
            "retry_backoff_ms": RETRY_MS,
            "max_block_ms": BLOCK_MS,
            "bootstrap_timeout_ms": BLOCK_MS,
        }
        self._producer: Any = None

    @property
    def is_open(self) -> bool:
        """Return whether there may be transactions."""
        return self._producer is not None

    def open(self) -> None:
        """Connect, and abort a transaction that is open. Raises KafkaError if the broker does not answer."""
        self.discard()
        require_listener(self._settings, LISTEN_S)
        self._producer = KafkaProducer(**self._config)
        try:
            self._producer.init_transactions()
        except KafkaError:
            self.discard()
            raise

    def partitions(self, topic: str) -> int:
        """Return the number of the topic's partitions, as far as the producer knows."""
        return len(self._producer.partitions_for(topic))

    def begin(self) -> None:
        """Begin a transaction."""
        self._began = time.monotonic()
        self._producer.begin_transaction()

    def produce(self, records: Iterable[OutgoingRecord]) -> None:
        """Send records, and return once the brokers have all of them."""
        futures = [
            self._producer.send(topic, value=value, key=key, partition=partition)
            for topic, partition, key, value in records
        ]
        # A commit would not report a batch that failed while it waited for it.
        self._producer.flush()
        for future in futures:
            if not future.succeeded():
                raise future.exception or KafkaError("a record was not acknowledged")

    def offsets(self, offsets: Mapping[TopicPartition, int], member: Any) -> None:
        """Set where to go on reading; `member` is the consumer's `group_metadata` when it read.

        Raises CommitFailedError if others have taken its partitions over since.
        """
        self._producer.send_offsets_to_transaction(
            {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()}, member
        )

    def commit(self) -> None:
        """Make the transaction visible."""
        self._producer.commit_transaction()

    def abandon(self, error: KafkaError) -> KafkaError:
        """Drop a transaction that failed, and return why it did.

        Raises StreamError (TRL733) if another process of this instance has ended it.
        """
        age_s = time.monotonic() - self._began
        if type(error) is KafkaError:
            # A producer's answers after its first error mean only that there was one.
            error = self._producer._transaction_manager.last_error or error
        self.discard()
        if isinstance(error, FENCED) and age_s < self._timeout_s:
            # The broker ends a transaction by itself only when it takes longer than that.
            raise fenced_error(self._instance)
        return error

    def discard(self) -> None:
        """Drop the producer; records that it has not sent are never sent."""
        if self._producer is None:
            return
        producer, self._producer = self._producer, None
        drop_producer(producer)
