"""Checks that a topic is still the one that a process has read: by its id, and by where its partitions end.

A topic that is deleted and created again has another id under the same name. Kafka's clients do not report
it: they wait at the old end, go on in the new topic, or read it from its beginning. An offset that comes
again is no sign of it, since a client may fetch from the committed offset before it seeks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from ..group.broker_errors import KafkaError
from ..group.changed_topics import Loss, loss_of
from ..group.client import TopicPartition
from .librdkafka.admin import LATEST, Admin
from .preflight import LISTEN_S, require_listener
from .properties import connecting
from .settings import KafkaSettings

ASK_S = 5.0
"""Seconds that a broker may take to answer."""

AdminAnswer = TypeVar("AdminAnswer")


class TopicIdentities:
    """The checks of the topics that one process reads; may be used from several threads.

    The first check of a topic learns its id, unless `ids` has it.
    """

    def __init__(self, settings: KafkaSettings, process: str, ids: Mapping[str, str] | None = None) -> None:
        self._settings, self._process = settings, process
        self._ids = dict(ids or {})
        self._admin: Admin | None = None
        self._lock = threading.Lock()

    def ask(self, question: Callable[[Admin], AdminAnswer]) -> AdminAnswer:
        """Return the answer of the admin client. Raises KafkaError where no broker listens or answers."""
        if self._admin is None:
            # A question would wait for a broker that is away.
            require_listener(self._settings, LISTEN_S)
            self._admin = Admin(connecting(self._settings, self._process), ASK_S)
        try:
            return question(self._admin)
        except KafkaError:
            # The next question need not wait for a broker that is away.
            self._admin = None
            raise

    def find_loss(self, topic: str, read: Mapping[int, int]) -> Loss | None:
        """Return why this is not the topic that was read up to these offsets of partitions; None where it is.

        Raises KafkaError where no broker answers, or the topic does not exist at this moment.
        """
        with self._lock:
            # The id comes last: where the topic is recreated in between, the id shows it.
            ends, found = self._ends(topic, read), self.ask(lambda admin: admin.topic_id(topic))
        return loss_of(topic, read, ends, is_recreated=found != self._ids.setdefault(topic, found))

    def is_recreated(self, topic: str) -> bool:
        """Return whether the name has another topic now than the one that was checked first.

        Raises KafkaError as `find_loss`.
        """
        with self._lock:
            found = self.ask(lambda admin: admin.topic_id(topic))
        return self._ids.get(topic, found) != found

    def close(self) -> None:
        """Close the connection."""
        self._admin = None

    def _ends(self, topic: str, numbers: Mapping[int, int]) -> dict[int, int]:
        """Return where partitions end, records of open transactions included."""
        places = [TopicPartition(topic, number) for number in numbers]
        ends = self.ask(lambda admin: admin.offsets(places, LATEST))
        return {place.partition: end for place, end in ends.items()}
