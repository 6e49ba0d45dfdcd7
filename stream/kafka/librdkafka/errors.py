"""The errors of librdkafka as those that the clients of a group raise."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache

from confluent_kafka import KafkaError as Code
from confluent_kafka import KafkaException

from ...error import StreamError
from ...group.broker_errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    InvalidProducerEpochError,
    InvalidSessionTimeoutError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerFencedError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

LOGGER = logging.getLogger(__name__)
REASON_LENGTH_MAX = 200

_BY_CODE: Mapping[int, type[KafkaError]] = {
    Code._TRANSPORT: KafkaConnectionError,
    Code._ALL_BROKERS_DOWN: KafkaConnectionError,
    Code._RESOLVE: KafkaConnectionError,
    Code._TIMED_OUT: KafkaTimeoutError,
    Code._TIMED_OUT_QUEUE: KafkaTimeoutError,
    Code._MSG_TIMED_OUT: KafkaTimeoutError,
    Code._WAIT_COORD: KafkaTimeoutError,
    Code.UNSTABLE_OFFSET_COMMIT: KafkaTimeoutError,
    Code._UNKNOWN_TOPIC: UnknownTopicOrPartitionError,
    Code._UNKNOWN_PARTITION: UnknownTopicOrPartitionError,
    Code.UNKNOWN_TOPIC_OR_PART: UnknownTopicOrPartitionError,
    Code.ILLEGAL_GENERATION: CommitFailedError,
    Code.UNKNOWN_MEMBER_ID: CommitFailedError,
    Code.REBALANCE_IN_PROGRESS: CommitFailedError,
    Code._ASSIGNMENT_LOST: CommitFailedError,
    Code._FENCED: ProducerFencedError,
    Code.PRODUCER_FENCED: ProducerFencedError,
    Code.INVALID_PRODUCER_EPOCH: InvalidProducerEpochError,
    Code.MSG_SIZE_TOO_LARGE: MessageSizeTooLargeError,
    Code.TOPIC_ALREADY_EXISTS: TopicAlreadyExistsError,
    Code.TOPIC_AUTHORIZATION_FAILED: TopicAuthorizationFailedError,
    Code.GROUP_AUTHORIZATION_FAILED: GroupAuthorizationFailedError,
    Code.INVALID_SESSION_TIMEOUT: InvalidSessionTimeoutError,
    Code._STATE: IllegalStateError,
}
_RETRIABLE = frozenset(
    {
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_FOR_PARTITION,
        Code.REQUEST_TIMED_OUT,
        Code.REPLICA_NOT_AVAILABLE,
        Code.NETWORK_EXCEPTION,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.NOT_CONTROLLER,
        Code.CONCURRENT_TRANSACTIONS,
        Code.KAFKA_STORAGE_ERROR,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.OFFSET_NOT_AVAILABLE,
        Code.PREFERRED_LEADER_NOT_AVAILABLE,
        Code.THROTTLING_QUOTA_EXCEEDED,
        Code.UNKNOWN_TOPIC_ID,
        Code.INCONSISTENT_TOPIC_ID,
    }
)
"""The codes of brokers, beside those above, that Kafka's own clients retry."""


def kafka_error(error: Code) -> KafkaError:
    """Return an error of librdkafka as one of Kafka's."""
    kind = _BY_CODE.get(error.code()) or _named(error.name(), is_retriable=error.code() in _RETRIABLE)
    return kind(error.str())


@cache
def _named(name: str, *, is_retriable: bool) -> type[KafkaError]:
    """Return the class of an error without one of its own, under the name that Kafka's clients give it."""
    words = "".join(word.capitalize() for word in name.strip("_").split("_"))
    title = words if words.endswith("Error") else f"{words}Error"
    return type(title, (KafkaError,), {"retriable": is_retriable, "__doc__": f"Kafka's error {name}."})


def log_refusal(error: Code) -> None:
    """Log that a broker refuses the client; other errors pass, or are raised by what was asked."""
    if error.code() in (Code._AUTHENTICATION, Code._SSL):
        LOGGER.warning("%s", error.str().partition("\n")[0][:REASON_LENGTH_MAX])


@contextmanager
def raising() -> Generator[None]:
    """Turn the exceptions of librdkafka while the block runs into KafkaError."""
    try:
        yield
    except KafkaException as error:
        raise kafka_error(error.args[0]) from None
    except SystemError as error:
        # A producer that becomes unusable while it calls a function of ours has both errors.
        if not isinstance(error.__cause__, KafkaException):
            raise
        raise kafka_error(error.__cause__.args[0]) from None


def group_refusal(error: Exception, group: str, timeout_s: float) -> StreamError | None:
    """Return the error (TRL725) that the group refuses the process; None for any other error.

    Waiting does not mend these. The error may also be aiokafka's, which has the same names.
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
