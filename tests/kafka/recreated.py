"""A topic that is deleted, and made again under its name."""

from __future__ import annotations

from tracline.stream.kafka.care.create_topics import create
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.topics import Topic

from ..support.processes.rekeying import until


def recreate(kafka: KafkaSettings, topic: Topic, partitions: int) -> None:
    """Delete a topic, and make it again with its settings."""
    with administering(kafka) as admin:

        def is_made() -> bool:
            # A topic that was deleted is still listed for a moment: then nothing is made.
            return kafka.topic(topic) in create(admin, kafka, partitions=partitions)

        admin.delete(kafka.topic(topic))
        until("its name is free", is_made)
