"""The errors of Kafka, as every client of a group raises them, under the names of Kafka's own clients."""

from __future__ import annotations

from ..error import StreamError


class KafkaError(Exception):
    """An error of a broker, or of the connection to it; `retriable` where it may pass by itself."""

    retriable = False


class KafkaConnectionError(KafkaError):
    """No broker can be connected to."""

    retriable = True


class KafkaTimeoutError(KafkaError):
    """No broker has answered in time."""

    retriable = True


class UnknownTopicOrPartitionError(KafkaError):
    """The topic does not exist, or has no such partition."""

    retriable = True


class CommitFailedError(KafkaError):
    """The group has assigned the partitions again since the membership that the offsets carry."""


class ProducerFencedError(KafkaError):
    """Another producer with the same transactional id has opened since."""


class InvalidProducerEpochError(KafkaError):
    """The broker has ended the transaction, or another producer with the same transactional id has."""


class MessageSizeTooLargeError(KafkaError):
    """The record is larger than its topic takes."""


class TopicAlreadyExistsError(KafkaError):
    """A topic of that name exists."""


class TopicAuthorizationFailedError(KafkaError):
    """The user may not do this to the topic."""


class GroupAuthorizationFailedError(KafkaError):
    """The user may not join the group."""


class InvalidSessionTimeoutError(KafkaError):
    """The group does not let a member be silent for so long."""


class IllegalStateError(KafkaError):
    """The client cannot do this now: it has no such partition, or no transaction."""


FENCED = (ProducerFencedError, InvalidProducerEpochError)
"""The errors of a producer whose transaction was ended by another producer, or by the broker."""


def fenced_error(instance: str) -> StreamError:
    """Return the error (TRL733) that another process of this instance has ended a transaction."""
    what = f"another process runs as instance {instance!r} and has ended this one's work"
    return StreamError("TRL733", what, "give each process an --instance of its own")
