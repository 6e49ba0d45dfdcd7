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
"""How much is sent to a partition at a time, before compression; larger records go alone."""
LINGER_MS = 100
"""`produce` sends what it has in the end, so waiting only makes fuller batches."""
RETRY_MS = 20
"""How long to wait before the broker is asked again, as when it still writes the last transaction's end."""
BLOCK_MS = 10_000
"""How long the broker may take to say what there is, and to end a predecessor's transaction."""


class Transactions:
    """Transactions of one process; `instance` tells it from others, and from itself before a restart.

    What a process left open is aborted when one of the same instance opens, or by the broker after
    `timeout_s`; until then whoever reads only what is committed waits. Two that run with the same instance
    end each other's transactions.
    """

    def __init__(self, settings: KafkaSettings, process: str, instance: str, timeout_s: float) -> None:
        """Connects to nothing yet. Raises StreamError (TRL721, TRL722)."""
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
        """Connect, and abort what was left open. Raises KafkaError where the broker does not answer."""
        self.discard()
        require_listener(self._settings, LISTEN_S)
        self._producer = KafkaProducer(**self._config)
        try:
            self._producer.init_transactions()
        except KafkaError:
            self.discard()
            raise

    def partitions(self, topic: str) -> int:
        """Return how many partitions the topic has, as far as the producer knows."""
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
        # A commit would not tell of a batch that failed while it waited for it.
        self._producer.flush()
        for future in futures:
            if not future.succeeded():
                raise future.exception or KafkaError("a record was not acknowledged")

    def offsets(self, offsets: Mapping[TopicPartition, int], member: Any) -> None:
        """Say where to go on reading; `member` is the consumer's `group_metadata` when it read.

        Raises CommitFailedError where others have taken its partitions over since.
        """
        self._producer.send_offsets_to_transaction(
            {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()}, member
        )

    def commit(self) -> None:
        """Let everyone see the transaction."""
        self._producer.commit_transaction()

    def abandon(self, error: KafkaError) -> KafkaError:
        """Let go of a transaction that failed; gives why it did.

        Raises StreamError (TRL733) where another process of this instance has ended it.
        """
        age_s = time.monotonic() - self._began
        if type(error) is KafkaError:
            # What is asked of a producer after its first error says only that there was one.
            error = self._producer._transaction_manager.last_error or error
        self.discard()
        if isinstance(error, FENCED) and age_s < self._timeout_s:
            # The broker ends a transaction by itself only when it takes longer than that.
            raise fenced_error(self._instance)
        return error

    def discard(self) -> None:
        """Let go of the producer, with whatever it has not sent."""
        if self._producer is None:
            return
        producer, self._producer = self._producer, None
        drop_producer(producer)
