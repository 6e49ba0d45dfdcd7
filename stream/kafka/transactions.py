"""A transactional producer: what is sent together is seen together, with the offsets that it was made of.

After a KafkaError nothing of the transaction may be relied on: `discard`, and `open` again, which aborts
it. Nothing else is done with a producer that has failed, so that there is one way on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Place

from ..group.broker_errors import FENCED, IllegalStateError, KafkaError, KafkaTimeoutError, fenced_error
from ..group.client import OutgoingRecord, TopicPartition
from .librdkafka.admin import partitions_of
from .librdkafka.errors import raising
from .librdkafka.sender import LATE_S, RecordSender
from .preflight import LISTEN_S, require_listener
from .properties import transacting, transaction_s
from .settings import KafkaSettings

BLOCK_S = 10.0
"""The seconds that the broker may take to send metadata, and to end a predecessor's transaction."""
OFFSETS_S = 5.0
"""The seconds that the group's coordinator may take to accept the offsets of a transaction."""


class Transactions:
    """Transactions of one process; `instance` is its name, the same after a restart.

    The open transaction of a process is aborted when one of the same instance opens, or by the broker after
    `timeout_s`; until then readers of committed records wait. Two that run with the same instance
    end each other's transactions.
    """

    def __init__(self, settings: KafkaSettings, process: str, instance: str, timeout_s: float) -> None:
        """Connect to nothing yet. Raises StreamError (TRL721, TRL722)."""
        self._settings = settings
        self._instance, self._timeout_s = instance, transaction_s(timeout_s)
        self._began = 0.0
        self._properties = transacting(settings, process, instance, timeout_s)
        self._sender: RecordSender | None = None

    @property
    def is_open(self) -> bool:
        """Return whether there may be transactions."""
        return self._sender is not None

    @property
    def _producer(self) -> Any:
        if self._sender is None:
            raise IllegalStateError("the producer is not open")
        return self._sender.producer

    def open(self) -> None:
        """Connect, and abort a transaction that is open. Raises KafkaError if the broker does not answer."""
        self.discard()
        require_listener(self._settings, LISTEN_S)
        self._sender = RecordSender(self._properties)
        try:
            with raising():
                self._producer.init_transactions(BLOCK_S)
        except KafkaError:
            self.discard()
            raise

    def partitions(self, topic: str) -> int:
        """Return the number of the topic's partitions."""
        return partitions_of(self._producer, topic, BLOCK_S)

    def begin(self) -> None:
        """Begin a transaction."""
        self._began = time.monotonic()
        with raising():
            self._producer.begin_transaction()

    def produce(self, records: Iterable[OutgoingRecord]) -> None:
        """Send records, and return once the brokers have all of them."""
        if self._sender is None:
            raise IllegalStateError("the producer is not open")
        self._sender.send(records)

    def offsets(self, offsets: Mapping[TopicPartition, int], member: Any) -> None:
        """Set where to go on reading; `member` is the client's membership when it read.

        Raises CommitFailedError if others have taken its partitions over since.
        """
        places = [Place(*place, offset) for place, offset in offsets.items()]
        producer = self._producer
        with raising():
            # librdkafka (2.16, its issues 5456 and 5511) may wait forever once the group's coordinator was
            # away. The thread is left behind then, with a producer that the next one of its name fences.
            _within(OFFSETS_S, lambda: producer.send_offsets_to_transaction(places, member, OFFSETS_S))

    def commit(self) -> None:
        """Make the transaction visible."""
        with raising():
            self._producer.commit_transaction(BLOCK_S)

    def abandon(self, error: KafkaError) -> KafkaError:
        """Drop a transaction that failed, and return why it did.

        Raises StreamError (TRL733) if another process of this instance has ended it.
        """
        age_s = time.monotonic() - self._began
        self.discard()
        if isinstance(error, FENCED) and age_s < self._timeout_s:
            # The broker ends a transaction by itself only when it takes longer than that.
            raise fenced_error(self._instance)
        return error

    def discard(self) -> None:
        """Drop the producer; records that it has not sent are never sent."""
        sender, self._sender = self._sender, None
        if sender is None:
            return
        with suppress(KafkaError):
            sender.close()


def _within(within_s: float, call: Callable[[], None]) -> None:
    """Call in a thread, and raise KafkaTimeoutError where the call takes longer."""
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except (KafkaException, SystemError) as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="offsets", daemon=True).start()
    try:
        outcome.result(within_s + LATE_S)
    except TimeoutError:
        raise KafkaTimeoutError("the group's coordinator does not answer") from None
