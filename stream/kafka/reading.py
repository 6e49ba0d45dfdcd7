"""Reading one topic as a member of a consumer group, whose offsets are committed elsewhere.

The group divides the partitions anew whenever a process comes or goes; `moves` says that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from kafka.errors import KafkaError, UnknownTopicOrPartitionError
from kafka.structs import TopicPartition

from ..error import StreamError
from .moves import Moves, join
from .settings import KafkaSettings
from .topic_checks import CHECK_S, Loss, TopicChecks

RECORDS_MAX = 1_000
"""Records that are gathered; collectors send one for each trace."""
BYTES_MAX = 1 << 20
"""Bytes of records after which no more of them are gathered: about half a second's work of the rekeyer."""
POLLED = 100
"""Records that are taken from the client at a time."""
LINGER_S = 0.2
"""How long is waited for more records after the first one: a transaction has a message for each partition."""
POLL_S = 0.2
"""How long is waited for the first one, before it is seen whether partitions have moved or all is to end."""
FETCH_BYTES = 4 << 20
"""How much is fetched of a partition at a time; a larger record is fetched alone."""
ASK_MS = 1_000
"""How long the broker may take to answer a question."""
CLOSE_MS = 5_000


class Reader:
    """A consumer of one topic. What it does raises KafkaError where the broker does not answer, or refuses.

    A process that says nothing for `timeout_s` loses its partitions to others.
    """

    def __init__(self, settings: KafkaSettings, process: str, topic: str, timeout_s: float) -> None:
        self.moves = Moves()
        self._topic = topic
        self._checks = TopicChecks(settings, process)
        self._checked = 0.0
        sizes = {"max_partition_fetch_bytes": FETCH_BYTES, "fetch_max_bytes": 2 * FETCH_BYTES}
        self._consumer = join(settings, process, topic, timeout_s, self.moves, **sizes)

    def close(self) -> None:
        """Leave the group."""
        self._checks.close()
        with suppress(KafkaError):
            self._consumer.close(autocommit=False, timeout_ms=CLOSE_MS)

    def member(self) -> Any:
        """Who it is in the group, for `Transactions.offsets`; None where it is in none."""
        member = self._consumer.group_metadata()
        return member if member.generation_id >= 0 else None

    def partitions(self) -> int:
        """How many partitions the topic has, as far as it knows."""
        found = self._consumer.partitions_for_topic(self._topic)
        if not found:
            # It is deleted, and may be created again.
            raise UnknownTopicOrPartitionError(self._topic)
        return len(found)

    def gather(self, clock: Callable[[], float], until: float) -> list[Any]:
        """Records in the order of each partition, as many as come together; none where none come by then.

        Once `moves` has changed during this they may be of partitions that belong to others.
        """
        gathered: list[Any] = []
        size, moved = 0, self.moves.count
        while len(gathered) < RECORDS_MAX and size < BYTES_MAX:
            wait = min(max(until - clock(), 0.0), POLL_S)
            polled = self._consumer.poll(round(wait * 1000), max_records=POLLED)
            for records in polled.values():
                if not gathered:
                    until = clock() + LINGER_S
                gathered += records
                size += sum(len(record.value or b"") for record in records)
            if not gathered or clock() >= until or self.moves.count != moved:
                break
        return gathered

    def committed(self, number: int) -> tuple[int, int]:
        """Where to go on reading a partition, and how many records were deleted before that.

        Raises KafkaTimeoutError while a transaction is open that may still say so, and StreamError (TRL735)
        where the topic is not the one that was read, or the partition ends before that.
        """
        place = TopicPartition(self._topic, number)
        committed: int | None = self._consumer.committed(place, timeout_ms=ASK_MS)
        self.check({} if committed is None else {number: committed})
        first = self._first(place)
        return (first, 0) if committed is None else (max(first, committed), max(0, first - committed))

    def deleted(self, number: int, expected: int, found: int) -> int:
        """How many records were deleted where one was expected next, and another was found.

        A marker of a transaction leaves its offset out, too. Raises StreamError (TRL735) where what was read
        comes again because the topic is not the one that was read.
        """
        if found < expected:
            self.check({number: expected})
        place = TopicPartition(self._topic, number)
        return max(0, self._first(place) - expected) if found > expected else 0

    def check(self, read: Mapping[int, int]) -> None:
        """Raise StreamError (TRL735) where the topic is not the one that was read up to these offsets."""
        if (loss := self._checks.find_loss(self._topic, read)) is not None:
            raise lost(loss)

    def check_again(self, now: float, read: Mapping[int, int]) -> None:
        """Do as `check` where the consumer knows of another topic, or the last time was `CHECK_S` ago."""
        if self._checks.is_recreated(self._topic, self._consumer) or now - self._checked >= CHECK_S:
            self._checked = now
            self.check(read)

    def _first(self, place: TopicPartition) -> int:
        """The offset of the first record that is there."""
        return self._consumer.beginning_offsets([place], timeout_ms=ASK_MS)[place]

    def seek(self, number: int, offset: int) -> bool:
        """Go on reading there; False where the partition was revoked just now."""
        try:
            self._consumer.seek(TopicPartition(self._topic, number), offset)
        except ValueError:
            return False
        return True

    def behind(self, numbers: Collection[int]) -> dict[int, int]:
        """How many records of each partition are not read, by what the broker says now."""
        places = {number: TopicPartition(self._topic, number) for number in numbers}
        ends = self._consumer.end_offsets(list(places.values()), timeout_ms=ASK_MS)
        left: dict[int, int] = {}
        for number, place in places.items():
            # What is in an open transaction lies between the two.
            end = max(ends[place], self._consumer.highwater(place) or 0)
            left[number] = max(0, end - (self._consumer.position(place, timeout_ms=ASK_MS) or 0))
        return left


def lost(loss: Loss) -> StreamError:
    """The error (TRL735) that a topic is not the one that was read."""
    if loss.is_recreated:
        return StreamError("TRL735", loss.what, "start again, to read the new topic from its beginning")
    hint = "brokers have lost records: tell the group with Kafka's own tools at which offset to go on"
    return StreamError("TRL735", loss.what, hint)
