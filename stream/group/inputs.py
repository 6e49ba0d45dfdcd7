"""The partitions that a process reads: where it goes on in each, and checks of their topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..error import StreamError
from ..process.kafka_metrics import KafkaMetrics
from .changed_topics import Loss, read_error
from .client import ClientRecord, GroupClient, TopicPartition

CHECK_S = 5.0
"""Seconds between two checks of the topics that a process reads."""


class Inputs:
    """The inputs of one process; `next` has the offset of the next record of each assigned partition.

    `lost` makes the error for a topic that is not the one that was read.
    """

    def __init__(
        self,
        client: GroupClient,
        metrics: KafkaMetrics,
        report: Callable[[str], None],
        lost: Callable[[Loss], StreamError] | None = None,
    ) -> None:
        self.next: dict[TopicPartition, int] = {}
        self._client, self._metrics, self._report = client, metrics, report
        self._lost = lost or read_error
        self._checked = 0.0

    def check(self, topic: str, read: Mapping[int, int]) -> None:
        """Raise StreamError where the topic is not the one that was read up to these offsets."""
        if (loss := self._client.find_loss(topic, read)) is not None:
            raise self._lost(loss)

    def check_again(self, now: float) -> bool:
        """Check all topics every `CHECK_S`, and when a consumer knows of another topic.

        Returns whether it did so.
        """
        by_topic: dict[str, dict[int, int]] = {self._client.topic: {}}
        for place, offset in self.next.items():
            by_topic.setdefault(place.topic, {})[place.partition] = offset
        if now - self._checked < CHECK_S and not any(map(self._client.is_recreated, by_topic)):
            return False
        self._checked = now
        for topic, offsets in by_topic.items():
            self.check(topic, offsets)
        return True

    def committed(self, place: TopicPartition) -> int | None:
        """Return the offset to go on from, None where the group committed none; report deleted records."""
        committed = self._client.committed(place)
        self.check(place.topic, {} if committed is None else {place.partition: committed})
        if committed is None:
            return None
        first = self._client.first(place)
        self.report_deleted(place, committed, first)
        return max(first, committed)

    def report_deleted(self, place: TopicPartition, expected: int, first: int) -> None:
        """Report the records between the one that comes next and the first that exists, if there are any."""
        if (count := first - expected) > 0:
            text = f"{place.topic}, partition {place.partition}: Kafka has deleted {count} records"
            hint = "increase the topic's retention"
            self._report(f"{text} that were not read ({expected} to {first - 1}); {hint}")
            self._metrics.deleted(place.topic, count)

    def unread(self, records: Sequence[ClientRecord]) -> list[ClientRecord]:
        """Return the records that were not read before; report the deleted ones before them.

        Raises StreamError where offsets that were read come again because the topic is another one.
        """
        by_place = records_by_place(records)
        for place, found in by_place.items():
            expected, first = self.next[place], found[0].offset
            if first < expected:
                self.check(place.topic, {place.partition: expected})
            elif first > expected:
                # The marker of a transaction has an offset, too.
                self.report_deleted(place, expected, min(self._client.first(place), first))
        # A fetch may come from before a seek: these records are the same topic's, and were read.
        read = {
            (record.topic, record.partition, record.offset)
            for place, found in by_place.items()
            for record in found
            if record.offset < self.next[place]
        }
        return [
            record
            for record in records
            if not read or (record.topic, record.partition, record.offset) not in read
        ]


def records_by_place(records: Iterable[ClientRecord]) -> dict[TopicPartition, list[ClientRecord]]:
    """Return the records of each partition, in the order given."""
    found: dict[tuple[str, int], list[ClientRecord]] = {}
    for record in records:
        place = record.topic, record.partition
        of_place = found.get(place)
        if of_place is None:
            of_place = found[place] = []
        of_place.append(record)
    return {TopicPartition(*place): of_place for place, of_place in found.items()}
