"""Reading a topic with librdkafka's consumer, as a member of a group or without one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import KafkaError as Code
from confluent_kafka import TopicPartition as Place

from ...group.broker_errors import IllegalStateError, KafkaConnectionError, KafkaTimeoutError
from ...group.client import Assignment, TopicPartition
from ...group.state import Latest
from .errors import kafka_error, raising

LOGGER = logging.getLogger(__name__)
POLL_S = 0.1
RECORDS = 5_000
"""Records of one partition that are taken from the consumer at a time."""
ASK_S = 10.0
WAIT_S = 30.0
"""The seconds that a record may take to come."""


class FetchedRecord(NamedTuple):
    """A record of a topic; `timestamp` is in milliseconds, and -1 where there is none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, Any]] | None


class TopicReader:
    """A consumer of the committed records of one topic.

    `read_from` chooses its partitions and offsets. With an `assignment` it joins the group of its properties,
    which chooses the partitions before; `member` is then the membership, None without one. `is_away` asks
    whether there is no broker at all. Raises KafkaError where librdkafka refuses the properties.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        topic: str,
        assignment: Assignment | None = None,
        is_away: Callable[[], bool] = lambda: False,
    ) -> None:
        self.topic, self.member = topic, None
        self._is_away, self._is_cut_off = is_away, False
        self._assignment = assignment or Assignment()
        self._positions: dict[int, int] = {}
        self._paused: set[int] = set()
        # A reader that joins no group need not ask for it. A member that was silent joins again.
        self._harmless = {Code.GROUP_AUTHORIZATION_FAILED if assignment is None else Code._MAX_POLL_EXCEEDED}
        with raising():
            self._consumer: Any = Consumer(dict(properties), logger=LOGGER)
        if assignment is not None:
            calls = {"on_assign": self._assigned, "on_revoke": self._revoked, "on_lost": self._lost}
            self._consumer.subscribe([topic], **calls)

    def _assigned(self, consumer: Any, places: Sequence[Place]) -> None:
        """Take note of the group's assignment, and begin at its offsets; `poll` calls this."""
        # The membership must be that of this assignment: the broker does not check the one of a client that
        # has lost its own meanwhile, whose name is empty.
        member = consumer.consumer_group_metadata()
        self.member = member if consumer.memberid() else None
        self._positions, self._is_cut_off = {}, False
        self._assignment.assign(place.partition for place in places)

    def _revoked(self, _consumer: Any, _places: Sequence[Place]) -> None:
        """Take note that the group revokes all partitions; `poll` calls this."""
        self.member, self._is_cut_off = None, False
        self._go_on_with(self._paused)
        self._assignment.revoke()

    def _lost(self, consumer: Any, places: Sequence[Place]) -> None:
        """Take note that this is no member any more; `poll` calls this.

        Where there is no broker, nobody else can have the partitions either: they stay assigned.
        """
        if self._is_away():
            self.member, self._is_cut_off = None, True
            self._go_on_with(self._paused)
        else:
            self._revoked(consumer, places)

    def poll(self, wait_s: float, records_max: int) -> list[FetchedRecord]:
        """Return records, those of a partition in order; wait for the first one.

        Raises KafkaConnectionError while there is no broker for longer than a member may be silent.
        """
        until = time.monotonic() + wait_s
        with raising():
            records = self._records(self._consumer.consume(records_max, 0))
            while not records and (left := until - time.monotonic()) > 0:
                if (first := self._consumer.poll(left)) is None:
                    break
                more: list[Any] = self._consumer.consume(records_max - 1, 0) if records_max > 1 else []
                records = self._records([first, *more])
        if self._is_cut_off:
            raise KafkaConnectionError("the group does not answer")
        return records

    def _records(self, messages: Iterable[Any]) -> list[FetchedRecord]:
        """Return the records of what the consumer returned; raise its first error."""
        topic, positions = self.topic, self._positions
        records: list[FetchedRecord] = []
        for message in messages:
            number, offset = message.partition(), message.offset()
            if (error := message.error()) is None:
                kind, time_ms = message.timestamp()
                records.append(
                    FetchedRecord(
                        topic,
                        number,
                        offset,
                        time_ms if kind else -1,
                        message.key(),
                        message.value(),
                        message.headers(),
                    )
                )
                positions[number] = offset + 1
            elif error.code() == Code._PARTITION_EOF:
                positions[number] = offset
            elif error.code() not in self._harmless:
                raise kafka_error(error)
        return records

    def read_from(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        self._go_on_with(self._paused)
        with raising():
            self._consumer.assign([Place(self.topic, number, offset) for number, offset in offsets.items()])
        self._positions = {number: offset for number, offset in offsets.items() if offset >= 0}

    def pause(self, number: int, *, is_paused: bool) -> None:
        """Stop reading a partition, or go on with it."""
        if not is_paused:
            self._go_on_with({number} & self._paused)
        elif number not in self._paused:
            with raising():
                self._consumer.pause([Place(self.topic, number)])
            self._paused.add(number)

    def _go_on_with(self, numbers: Collection[int]) -> None:
        """Go on with paused partitions, which librdkafka else keeps paused in later assignments."""
        if numbers:
            with raising():
                self._consumer.resume([Place(self.topic, number) for number in numbers])
            self._paused -= set(numbers)

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the first offset of a partition, and the end of what is committed. Asks the broker."""
        with raising():
            first, end = self._consumer.get_watermark_offsets(Place(self.topic, number), ASK_S)
        return first, end

    def has_read(self, number: int) -> bool:
        """Return whether the position in a partition is known."""
        return number in self._positions

    def position(self, number: int) -> int:
        """Return the offset behind the last record that was polled, or that was skipped as uncommitted.

        Raises IllegalStateError where nothing of the partition was read yet.
        """
        if number not in self._positions:
            raise IllegalStateError(f"{self.topic}, partition {number} is not assigned")
        return self._positions[number]

    def high_water(self, number: int) -> int | None:
        """Return where a partition ended at the last fetch, None before the first one; asks no broker."""
        with raising():
            found = self._consumer.get_watermark_offsets(Place(self.topic, number), cached=True)
        return None if found is None or found[1] < 0 else found[1]

    def committed(self, place: TopicPartition, within_s: float) -> int | None:
        """Return the group's offset of a partition of any topic, None without one.

        Raises KafkaTimeoutError while a transaction is open that may still change it.
        """
        with raising():
            [found] = self._consumer.committed([Place(*place)], timeout=within_s)
        if found.error is not None:
            raise kafka_error(found.error)
        return found.offset if found.offset >= 0 else None

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of the group, and wait for the broker as long as a member may be silent."""
        places = [Place(*place, offset) for place, offset in offsets.items()]
        with raising():
            committed = self._consumer.commit(offsets=places, asynchronous=False)
        for place in committed:
            if place.error is not None:
                raise kafka_error(place.error)

    def close(self) -> None:
        """Leave the group, and close the connections."""
        with raising():
            self._consumer.close()


def records_from(reader: TopicReader, number: int, begin: int | None = None) -> Iterator[FetchedRecord]:
    """Yield the records of a partition from an offset on, or from its first, up to its end as it is now.

    Raises KafkaTimeoutError if they do not come.
    """
    first, end = reader.bounds(number)
    reader.read_from({number: first if begin is None else begin})
    limit = time.monotonic() + WAIT_S
    while reader.position(number) < end:
        for record in reader.poll(POLL_S, RECORDS):
            limit = time.monotonic() + WAIT_S
            if record.offset < end:
                yield record
        if time.monotonic() > limit:
            raise KafkaTimeoutError(f"no record within {WAIT_S} s")


def read_compacted(
    reader: TopicReader, partitions: Collection[int], going_on: Callable[[], bool]
) -> dict[int, dict[str, bytes]] | None:
    """Return the records of each partition by key, up to its end; None where `going_on` turns false.

    Waits for transactions that began before. Raises StreamError (TRL731) for a record without a key;
    KafkaError where the broker refuses.
    """
    found = {number: Latest(reader.topic) for number in partitions}
    unread = set(partitions)
    reader.read_from(dict.fromkeys(partitions, OFFSET_BEGINNING))
    while unread:
        if not going_on():
            return None
        for record in reader.poll(POLL_S, RECORDS):
            found[record.partition].put(record.key, record.value)
        # The high water mark is of a fetch after the start. Nobody can read up to it while a
        # transaction below it is open.
        unread = {number for number in unread if not _is_read(reader, number)}
    return {number: latest.values for number, latest in found.items()}


def _is_read(reader: TopicReader, number: int) -> bool:
    end = reader.high_water(number)
    return end is not None and reader.has_read(number) and reader.position(number) >= end
