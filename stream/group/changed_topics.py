"""Topics that changed since a process read them: recreated, shorter, or with other numbers of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..error import StreamError

_HINT = "sessions would change their partition: begin with new topics and a new state"


@dataclass(frozen=True, slots=True)
class Loss:
    """The way in which a topic does not fit what was read of it; `is_recreated`: it has another id now."""

    what: str
    is_recreated: bool


def loss_of(
    topic: str, read: Mapping[int, int], ends: Mapping[int, int], *, is_recreated: bool
) -> Loss | None:
    """Return the loss of a topic whose partitions end there and were read up to those offsets, if any."""
    if is_recreated:
        return Loss(f"{topic} was deleted and created again", is_recreated=True)
    for number, offset in read.items():
        if ends[number] < offset:
            what = f"{topic}, partition {number} ends at offset {ends[number]}, and was read up to {offset}"
            return Loss(what, is_recreated=False)
    return None


def archived_error(loss: Loss) -> StreamError:
    """Return the error (TRL751) that a topic is not the one that was archived."""
    hint = "the archive is of the old topic: begin with a new archive folder"
    if not loss.is_recreated:
        hint = f"nothing is changed: start again once all brokers are back. Else {hint}"
    return StreamError("TRL751", loss.what, hint)


def archived_marks_error(loss: Loss, judged: str) -> StreamError:
    """Return the error (TRL751) that the marks of archived messages are of events of an earlier topic."""
    hint = f"what is judged of it would be dropped as repeats of {judged}: choose another prefix"
    return StreamError("TRL751", loss.what, hint)


def counted_marks_error(loss: Loss) -> StreamError:
    """Return the error (TRL766) that the marks of counted verdicts are of events of an earlier topic."""
    hint = "its new verdicts would be dropped as repeats: let the alerts begin with an empty state"
    return StreamError("TRL766", loss.what, hint)


def read_error(loss: Loss) -> StreamError:
    """Return the error (TRL735) that a topic is not the one that was read."""
    if loss.is_recreated:
        return StreamError("TRL735", loss.what, "start again, to read the new topic from its beginning")
    hint = "brokers have lost records: set the offset to resume at with Kafka's own tools"
    return StreamError("TRL735", loss.what, hint)


def changed_counts(what: str) -> StreamError:
    """Return the error (TRL732) that topics of sessions had other numbers of partitions."""
    return StreamError("TRL732", what, _HINT)


def unequal_counts(spans: str, count: int, logs: str, logs_count: int) -> StreamError:
    """Return the error (TRL732) that the topic of log records has another number of partitions than spans."""
    hint = f"delete {logs} and create it again with: tracline stream topics --create"
    return StreamError("TRL732", f"{spans} has {count} partitions and {logs} {logs_count}", hint)
