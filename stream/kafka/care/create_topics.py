"""Creation of the topics that are missing."""

from __future__ import annotations

from ...error import StreamError
from ...group.broker_errors import TopicAlreadyExistsError
from ..librdkafka.admin import Admin, NewTopicLayout
from ..settings import KafkaSettings
from ..topic_checks import uneven
from ..topics import SPECS, PartitionCount, config_of, look

PARTITIONS = 8
"""The partitions of spans and sessions by default; more processes than that have no work."""


def create(
    admin: Admin, settings: KafkaSettings, partitions: int = PARTITIONS, replicas: int = 1
) -> list[str]:
    """Create the topics that are missing, and return their names; existing ones stay as they are.

    `partitions` are those of spans and of sessions, unless an existing topic decides how many there are.
    Raises StreamError (TRL724) if two of them have different numbers, or the broker will not create one.
    """
    there = look(admin, settings)
    counts = {PartitionCount.SPANS: partitions, PartitionCount.SESSIONS: partitions, PartitionCount.ONE: 1}
    for spec in SPECS:
        if spec.topic in there and spec.count is not PartitionCount.ONE:
            counts[spec.count] = there[spec.topic].partitions
    if flaws := uneven(there, settings):
        raise StreamError("TRL724", f"{flaws[0].topic} {flaws[0].what}", flaws[0].hint)
    missing = {
        settings.topic(spec.topic): NewTopicLayout(
            counts[spec.count], replicas, config_of(spec, settings, replicas)
        )
        for spec in SPECS
        if spec.topic not in there
    }
    for name, error in admin.create(missing).items():
        # Another process may create the same topic at the same time.
        if not isinstance(error, TopicAlreadyExistsError):
            what = f"{name} cannot be made: {error}"
            raise StreamError("TRL724", what, "check --replication, and what this user may do")
    return list(missing)
