"""A topic that is deleted, and made again under its name."""

from __future__ import annotations

import time

from kafka.errors import TopicAlreadyExistsError
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.kafka.topics import administering, create
from tracline.stream.topic import Topic

from .stage import POLL_S, WAIT_S


def make_anew(kafka: KafkaSettings, topic: Topic, partitions: int) -> None:
    """Delete a topic, and make it again with its settings."""
    limit = time.monotonic() + WAIT_S
    with administering(kafka) as admin:
        admin.delete_topics([kafka.topic(topic)])
        while True:
            try:
                create(admin, kafka, partitions=partitions)
                return
            except TopicAlreadyExistsError:
                # Its name is free once the broker has let go of it.
                assert time.monotonic() < limit
                time.sleep(POLL_S)
