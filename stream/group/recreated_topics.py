"""Topics that do not fit what a process has read of them: recreated, or ending before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..error import StreamError


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


def read_error(loss: Loss) -> StreamError:
    """Return the error (TRL735) that a topic is not the one that was read."""
    if loss.is_recreated:
        return StreamError("TRL735", loss.what, "start again, to read the new topic from its beginning")
    hint = "brokers have lost records: set the offset to resume at with Kafka's own tools"
    return StreamError("TRL735", loss.what, hint)
