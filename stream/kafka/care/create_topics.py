"""Creation of the topics that are missing."""

from __future__ import annotations

from typing import Any

from ...error import StreamError
from ..settings import KafkaSettings
from ..topic_checks import uneven
from ..topics import SPECS, PartitionCount, config_of, look

PARTITIONS = 8
"""The partitions of spans and sessions by default; more processes than that have no work."""
NO_ERROR, THERE_ALREADY = 0, 36
"""Kafka's codes; the second if another process creates the same topic at the same time."""


def create(admin: Any, settings: KafkaSettings, partitions: int = PARTITIONS, replicas: int = 1) -> list[str]:
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
        settings.topic(spec.topic): {
            "num_partitions": counts[spec.count],
            "replication_factor": replicas,
            "configs": config_of(spec, settings, replicas),
        }
        for spec in SPECS
        if spec.topic not in there
    }
    if missing:
        created = admin.create_topics(missing, raise_errors=False)["topics"]
        for topic in created:
            if topic["error_code"] not in (NO_ERROR, THERE_ALREADY):
                what = f"{topic['name']} cannot be made: {topic['error_message']}"
                raise StreamError("TRL724", what, "check --replication, and what this user may do")
        admin.wait_for_topics(list(missing))
    return list(missing)
