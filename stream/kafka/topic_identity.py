"""Checks that a topic is still the one that a process has read: by its id, and by where its partitions end.

A topic that is deleted and created again has another id under the same name. Kafka's clients do not report
it: they wait at the old end, go on in the new topic, or read it from its beginning. An offset that comes
again is no sign of it, since a client may fetch from the committed offset before it seeks.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, cast

from kafka import KafkaAdminClient, errors
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from ..group.changed_topics import Loss, loss_of
from .lag import LATEST
from .preflight import LISTEN_S, require_listener
from .settings import KafkaSettings, connecting

ASK_MS = 5_000
"""Milliseconds that a broker may take to answer."""


class TopicIdentities:
    """The checks of the topics that one process reads; may be used from several threads.

    The first check of a topic learns its id, unless `ids` has it.
    """

    def __init__(self, settings: KafkaSettings, process: str, ids: Mapping[str, str] | None = None) -> None:
        self._settings, self._process = settings, process
        self._ids = dict(ids or {})
        self._admin: Any = None
        self._lock = threading.Lock()

    def find_loss(self, topic: str, read: Mapping[int, int]) -> Loss | None:
        """Return why this is not the topic that was read up to these offsets of partitions; None where it is.

        Raises KafkaError where no broker answers, or the topic does not exist at this moment.
        """
        with self._lock:
            try:
                # The id comes last: where the topic is recreated in between, the id shows it.
                ends, found = self._ends(topic, read), self._id(topic)
            except KafkaError:
                self._close()
                raise
        return loss_of(topic, read, ends, is_recreated=found != self._ids.setdefault(topic, found))

    def is_recreated(self, topic: str, consumer: Any) -> bool:
        """Return whether a consumer of kafka-python has already learned that the name has another topic now.

        It asks no broker, so it may be called for every poll.
        """
        found = consumer._cluster.topic_id(topic)
        return found is not None and self._ids.get(topic, str(found)) != str(found)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _asked(self) -> Any:
        """Return the admin client, connected."""
        if self._admin is None:
            require_listener(self._settings, LISTEN_S)
            options: dict[str, Any] = {"bootstrap_timeout_ms": ASK_MS, "request_timeout_ms": ASK_MS}
            self._admin = KafkaAdminClient(**connecting(self._settings, self._process), **options)
        return self._admin

    def _ends(self, topic: str, numbers: Mapping[int, int]) -> dict[int, int]:
        """Return where partitions end, records of open transactions included."""
        places = {TopicPartition(topic, number): LATEST for number in numbers}
        found: dict[Any, Any] = self._asked().list_partition_offsets(places) if places else {}
        return {place.partition: end.offset for place, end in found.items()}

    def _id(self, topic: str) -> str:
        return topic_id(self._asked(), topic)


def topic_id(admin: Any, topic: str) -> str:
    """Return the id of a topic. Raises KafkaError where it does not exist."""
    [found] = admin.describe_topics([topic])
    if found["error_code"]:
        raise cast("Any", errors).for_code(found["error_code"])(topic)
    return str(found["topic_id"])
