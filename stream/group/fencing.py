"""Two processes of one name: the one whose transactions the other has ended."""

from __future__ import annotations

from kafka.errors import InvalidProducerEpochError, ProducerFencedError

from ..error import StreamError

FENCED = (ProducerFencedError, InvalidProducerEpochError)
"""The errors of a producer whose transaction was ended by another producer, or by the broker."""


def fenced_error(instance: str) -> StreamError:
    """Return the error (TRL733) that another process of this instance has ended a transaction."""
    what = f"another process runs as instance {instance!r} and has ended this one's work"
    return StreamError("TRL733", what, "give each process an --instance of its own")
