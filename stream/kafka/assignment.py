"""Membership of a consumer group: joining it, and the errors of a group that refuses the process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import TopicPartition

from ..error import StreamError
from ..group.client import Assignment
from .preflight import LISTEN_S, require_listener
from .settings import KafkaSettings, consuming

HEARTBEAT_MS = 3_000


class _Listener(ConsumerRebalanceListener):
    """The listener that a consumer calls in `poll`, when the group revokes or assigns partitions."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002
        """Take note: the group revokes all partitions whenever it divides them."""
        self._assignment.revoke()

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Take note: these partitions are assigned, and no others."""
        self._assignment.assign(place.partition for place in assigned)


def group_refusal(error: Exception, group: str, timeout_s: float) -> StreamError | None:
    """Return the error (TRL725) that the group refuses the process; None for any other error.

    Waiting does not mend these. The error may be of either client: both have the same names of errors.
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
    settings: KafkaSettings, process: str, topic: str, timeout_s: float, assignment: Assignment, **limits: Any
) -> Any:
    """Return a consumer of the topic in the process's group, which keeps `assignment` up to date.

    The group assigns the partitions of a process that does not poll for `timeout_s` to others. Raises
    KafkaError where no broker listens.
    """
    timeout_ms = round(timeout_s * 1000)
    require_listener(settings, LISTEN_S)
    consumer: Any = KafkaConsumer(
        **consuming(settings, process),
        session_timeout_ms=timeout_ms,
        heartbeat_interval_ms=min(HEARTBEAT_MS, timeout_ms // 4),
        # The group revokes all partitions each time, so that each process reads its state again.
        partition_assignment_strategy=(RangePartitionAssignor,),
        **limits,
    )
    consumer.subscribe([topic], listener=_Listener(assignment))
    _finish_joining(consumer)
    return consumer


def _finish_joining(consumer: Any) -> None:
    """Let a consumer that has begun to join the group go on until it has joined.

    A consumer joins again when it learns of new partitions. Where a poll ends before the group answers,
    kafka-python (3.0) sees no reason to join any more and drops the answer: it has no partitions, sends no
    heartbeats, and its polls do not wait. Where it does see a reason, it drops an answer that came between
    two polls and joins once more, and the whole group divides its partitions again.
    """
    coordinator = consumer._coordinator
    is_needed = coordinator.need_rejoin

    def is_rejoin_needed() -> bool:
        task = coordinator._join_task
        if coordinator.rejoining and task is not None and task.is_done and task.exception is None:
            coordinator._join_task = _JoinAnswer(task.value)
        return coordinator.rejoining or is_needed()

    coordinator.need_rejoin = is_rejoin_needed


class _JoinAnswer:
    """An answer of the group that came between two polls, as a task that the next poll awaits."""

    is_done = False
    exception = None

    def __init__(self, value: Any) -> None:
        self.value = value

    def add_callback(self, call: Callable[[Any], None]) -> None:
        """Call with the answer."""
        call(self.value)

    def add_errback(self, call: Callable[[Exception], None]) -> None:
        """Do nothing: joining succeeded."""

    def __await__(self) -> Generator[None, None, Any]:
        yield from ()
        return self.value
