"""Reading as a member of a consumer group, whose offsets are committed elsewhere.

The group divides the partitions of one topic anew whenever a process comes or goes; `moves` says that it has.
Another topic may be read beside it, at the partitions of the same numbers: a second consumer, which is in no
group, has them assigned. So both are with one process whatever topics the other members read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import KafkaError, UnknownTopicOrPartitionError
from kafka.structs import TopicPartition

from ..error import StreamError
from .assignment import Moves, join
from .preflight import LISTEN_S, must_listen
from .settings import RECONNECT_MS_MAX, KafkaSettings, connecting
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
    """A consumer of one topic, and of another one `beside` it, if one is named.

    What it does raises KafkaError where the broker does not answer, or refuses. A process that says nothing
    for `timeout_s` loses its partitions to others.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        process: str,
        topic: str,
        timeout_s: float,
        beside: str | None = None,
    ) -> None:
        self.moves = Moves()
        self._topic = topic
        self._checks = TopicChecks(settings, process)
        self._checked = 0.0
        sizes = {"max_partition_fetch_bytes": FETCH_BYTES, "fetch_max_bytes": 2 * FETCH_BYTES}
        self._consumer = join(settings, process, topic, timeout_s, self.moves, **sizes)
        self._beside: Any = None
        if beside is not None:
            self._beside = consumer_in_no_group(settings, process, **sizes)

    def close(self) -> None:
        """Leave the group."""
        self._checks.close()
        with suppress(KafkaError):
            self._consumer.close(autocommit=False, timeout_ms=CLOSE_MS)
        if self._beside is not None:
            with suppress(KafkaError):
                self._beside.close(autocommit=False, timeout_ms=CLOSE_MS)

    def member(self) -> Any:
        """Return who it is in the group, for `Transactions.offsets`; None where it is in none."""
        member = self._consumer.group_metadata()
        return member if member.generation_id >= 0 else None

    def partitions(self, topic: str) -> int:
        """Return how many partitions the topic has, as far as it knows."""
        found = self._of(topic).partitions_for_topic(topic)
        if not found:
            # It is deleted, and may be created again.
            raise UnknownTopicOrPartitionError(topic)
        return len(found)

    def gather(self, clock: Callable[[], float], until: float) -> list[Any]:
        """Records in the order of each partition, as many as come together; none where none come by then.

        Once `moves` has changed during this they may be of partitions that belong to others.
        """
        gathered: list[Any] = []
        size, moved = 0, self.moves.count
        while len(gathered) < RECORDS_MAX and size < BYTES_MAX:
            wait = min(max(until - clock(), 0.0), POLL_S)
            for records in self._polled(wait):
                if not gathered:
                    until = clock() + LINGER_S
                gathered += records
                size += sum(len(record.value or b"") for record in records)
            if not gathered or clock() >= until or self.moves.count != moved:
                break
        return gathered

    def _polled(self, wait: float) -> list[list[Any]]:
        """Take records from the clients, by partition; wait for some of the first topic if none came."""
        beside: list[list[Any]] = []
        if self._beside is not None and self._beside.assignment():
            beside = _poll(self._beside, 0)
        return beside + _poll(self._consumer, 0 if beside else round(wait * 1000))

    def follow(self, places: Collection[TopicPartition]) -> None:
        """Read these partitions beside the first topic, and no others."""
        if self._beside is not None:
            self._beside.assign(list(places))

    def committed(self, place: TopicPartition) -> tuple[int | None, int]:
        """Return the offset to go on from in a partition, and how many records were deleted before that.

        None where nothing was committed. Raises KafkaTimeoutError while a transaction is open that may still
        say so, and StreamError (TRL735) where the topic is not the one that was read, or the partition ends
        before that.
        """
        committed: int | None = self._consumer.committed(place, timeout_ms=ASK_MS)
        self.check(place.topic, {} if committed is None else {place.partition: committed})
        if committed is None:
            return None, 0
        first = self.first(place)
        return max(first, committed), max(0, first - committed)

    def deleted(self, place: TopicPartition, expected: int, found: int) -> int:
        """Return how many records were deleted where one was expected next, and another was found.

        A marker of a transaction leaves its offset out, too. Raises StreamError (TRL735) where what was read
        comes again because the topic is not the one that was read.
        """
        if found < expected:
            self.check(place.topic, {place.partition: expected})
        return max(0, self.first(place) - expected) if found > expected else 0

    def check(self, topic: str, read: Mapping[int, int]) -> None:
        """Raise StreamError (TRL735) where the topic is not the one that was read up to these offsets."""
        if (loss := self._checks.find_loss(topic, read)) is not None:
            raise lost(loss)

    def check_again(self, now: float, read: Mapping[TopicPartition, int]) -> None:
        """Do as `check` where a consumer knows of another topic, or the last time was `CHECK_S` ago."""
        by_topic: dict[str, dict[int, int]] = {self._topic: {}}
        for place, offset in read.items():
            by_topic.setdefault(place.topic, {})[place.partition] = offset
        is_due = now - self._checked >= CHECK_S
        if is_due or any(self._checks.is_recreated(topic, self._of(topic)) for topic in by_topic):
            self._checked = now
            for topic, offsets in by_topic.items():
                self.check(topic, offsets)

    def first(self, place: TopicPartition) -> int:
        """Return the offset of the first record that is there."""
        return self._of(place.topic).beginning_offsets([place], timeout_ms=ASK_MS)[place]

    def first_since(self, place: TopicPartition, time_ms: int) -> int:
        """Return the offset of the first record that is not older; the end where there is none."""
        consumer = self._of(place.topic)
        found = consumer.offsets_for_times({place: time_ms}).get(place)
        return consumer.end_offsets([place], timeout_ms=ASK_MS)[place] if found is None else found.offset

    def seek(self, place: TopicPartition, offset: int) -> bool:
        """Go on reading there; False where the partition was revoked just now."""
        try:
            self._of(place.topic).seek(place, offset)
        except ValueError:
            return False
        return True

    def behind(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return how many records of each partition are not read, by what the broker says now."""
        by_topic: dict[str, list[TopicPartition]] = {}
        for place in places:
            by_topic.setdefault(place.topic, []).append(place)
        left: dict[TopicPartition, int] = {}
        for topic, own in by_topic.items():
            consumer = self._of(topic)
            ends = consumer.end_offsets(own, timeout_ms=ASK_MS)
            for place in own:
                # What is in an open transaction lies between the two.
                end = max(ends[place], consumer.highwater(place) or 0)
                left[place] = max(0, end - (consumer.position(place, timeout_ms=ASK_MS) or 0))
        return left

    def has_unread(self, place: TopicPartition) -> bool:
        """Return whether a partition may have records that are not read, without asking the broker."""
        consumer = self._of(place.topic)
        end = consumer.highwater(place)
        return end is None or end > (consumer.position(place, timeout_ms=ASK_MS) or 0)

    def pause(self, place: TopicPartition, *, is_paused: bool) -> None:
        """Let a partition wait, or go on with it."""
        consumer = self._of(place.topic)
        if (place in consumer.paused()) != is_paused:
            (consumer.pause if is_paused else consumer.resume)(place)

    def _of(self, topic: str) -> Any:
        """Return the consumer that reads a topic."""
        return self._consumer if topic == self._topic else self._beside


def _poll(consumer: Any, wait_ms: int) -> list[list[Any]]:
    """Take records from a client, by partition.

    What was fetched of a paused partition kafka-python (3.0) keeps until it is resumed, and takes up again
    where it has read no other partition since: the one that was read last stays, empty, in the place that
    must be free. Then the resumed partition is neither read nor fetched any more.
    """
    fetcher = consumer._fetcher
    if not fetcher._next_partition_records:
        fetcher._next_partition_records = None
    return list(consumer.poll(wait_ms, max_records=POLLED).values())


def consumer_in_no_group(settings: KafkaSettings, process: str, **limits: Any) -> Any:
    """Return a consumer to which partitions are assigned."""
    must_listen(settings, LISTEN_S)
    return KafkaConsumer(
        **connecting(settings, process),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        allow_auto_create_topics=False,
        reconnect_backoff_max_ms=RECONNECT_MS_MAX,
        **limits,
    )


def lost(loss: Loss) -> StreamError:
    """The error (TRL735) that a topic is not the one that was read."""
    if loss.is_recreated:
        return StreamError("TRL735", loss.what, "start again, to read the new topic from its beginning")
    hint = "brokers have lost records: tell the group with Kafka's own tools at which offset to go on"
    return StreamError("TRL735", loss.what, hint)
