"""What the group has said of a consumer's partitions."""

from __future__ import annotations

from collections.abc import Iterable

from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.structs import TopicPartition


class Moves(ConsumerRebalanceListener):
    """How often partitions were given and taken, and which are `owned`; told on the consumer's own thread."""

    def __init__(self) -> None:
        self.count = 0
        self.owned: frozenset[int] = frozenset()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002
        """All are revoked whenever the group divides them anew."""
        self._moved(frozenset())

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """These are ours, and no others."""
        self._moved(frozenset(place.partition for place in assigned))

    def _moved(self, owned: frozenset[int]) -> None:
        self.owned = owned
        self.count += 1
