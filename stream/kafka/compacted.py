"""Reading what is remembered in a compacted topic: the latest record of each key, partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from kafka.structs import TopicPartition

from ..error import StreamError
from .consumer import consumer_in_no_group
from .settings import KafkaSettings

POLL_MS = 100
RECORDS = 5_000
"""Records that are taken from the client at a time."""


def read_compacted(
    settings: KafkaSettings,
    process: str,
    topic: str,
    partitions: Collection[int],
    going_on: Callable[[], bool],
) -> dict[int, dict[str, bytes]] | None:
    """The records of each partition by key, up to its end; None where `going_on` says no meanwhile.

    What was begun before and is not committed yet is waited for. Raises StreamError (TRL731) for a record
    with no key, or none of ours; KafkaError where the broker does not answer.
    """
    found: dict[int, dict[str, bytes]] = {number: {} for number in partitions}
    unread = {TopicPartition(topic, number) for number in partitions}
    reader = consumer_in_no_group(settings, process, fetch_max_wait_ms=POLL_MS)
    try:
        reader.assign(sorted(unread))
        reader.seek_to_beginning(*sorted(unread))
        while unread:
            if not going_on():
                return None
            for place, records in reader.poll(timeout_ms=POLL_MS, max_records=RECORDS).items():
                for record in records:
                    _keep(found[place.partition], record.key, record.value, topic)
            # The high water mark is of a fetch after the start. Nobody can read up to it while a
            # transaction below it is open.
            unread = {place for place in unread if not _is_read(reader, place)}
    finally:
        reader.close()
    return found


def _is_read(reader: Any, place: TopicPartition) -> bool:
    end = reader.highwater(place)
    if end is None:
        return False
    position = reader.position(place, timeout_ms=POLL_MS)
    return position is not None and position >= end


def _keep(known: dict[str, bytes], key: bytes | None, value: bytes | None, topic: str) -> None:
    """The record is the latest of its key; without a value it is to be forgotten."""
    try:
        name = (key or b"").decode("utf-8")
    except UnicodeDecodeError:
        name = ""
    if not name:
        hint = "only tracline may write to its topics: look who else does"
        raise StreamError("TRL731", f"a record of {topic} is none of tracline's", hint)
    if value is None:
        known.pop(name, None)
    else:
        known[name] = value
