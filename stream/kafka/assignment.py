"""Membership of a consumer group, and what the group has said of a consumer's partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import TopicPartition

from ..error import StreamError
from .preflight import LISTEN_S, must_listen
from .settings import KafkaSettings, consuming

HEARTBEAT_MS = 3_000


class Moves(ConsumerRebalanceListener):
    """How often partitions were given and taken, and which are `owned`; told on the consumer's own thread.

    `is_divided`: the group has divided them, and nobody has come or gone since.
    """

    def __init__(self) -> None:
        self.count = 0
        self.owned: frozenset[int] = frozenset()
        self.is_divided = False

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002
        """All are revoked whenever the group divides them anew."""
        self.is_divided = False
        self._moved(frozenset())

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """These are ours, and no others."""
        self.is_divided = True
        self._moved(frozenset(place.partition for place in assigned))

    def _moved(self, owned: frozenset[int]) -> None:
        self.owned = owned
        self.count += 1


def not_taken(error: Exception, group: str, timeout_s: float) -> StreamError | None:
    """What a client's error says of why a group does not take the process (TRL725), None for any other.

    To wait does not mend these. The error may be of either client: they call them alike.
    """
    match type(error).__name__:
        case "InvalidSessionTimeoutError":
            what = f"brokers do not let a member of {group} be silent for {timeout_s:g} s"
            hint = "choose a --timeout-s that is within their group.min.session.timeout.ms (6 s by default)"
        case "GroupAuthorizationFailedError":
            what, hint = f"this user may not join the group {group}", "let it read the group"
        case _:
            return None
    return StreamError("TRL725", what, hint)


def join(
    settings: KafkaSettings, process: str, topic: str, timeout_s: float, moves: Moves, **limits: Any
) -> Any:
    """A consumer of the topic in the process's group; it tells `moves` what its partitions are.

    A process that says nothing for `timeout_s` loses them to others. Raises KafkaError where no broker
    listens.
    """
    timeout_ms = round(timeout_s * 1000)
    must_listen(settings, LISTEN_S)
    consumer: Any = KafkaConsumer(
        **consuming(settings, process),
        session_timeout_ms=timeout_ms,
        heartbeat_interval_ms=min(HEARTBEAT_MS, timeout_ms // 4),
        # All are revoked and assigned anew each time: what is in memory is then read again, and right.
        partition_assignment_strategy=(RangePartitionAssignor,),
        **limits,
    )
    consumer.subscribe([topic], listener=moves)
    _finish_joining(consumer)
    return consumer


def _finish_joining(consumer: Any) -> None:
    """Let a consumer that has begun to join the group go on until it has joined.

    Where it joined because partitions became known, and a poll ended before the group had answered,
    kafka-python (3.0) sees no reason to join any more and leaves the answer: it neither has partitions nor
    sends heartbeats from then on, and its polls do not wait.
    """
    coordinator = consumer._coordinator
    is_needed = coordinator.need_rejoin
    coordinator.need_rejoin = lambda: coordinator.rejoining or is_needed()
