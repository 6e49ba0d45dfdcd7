"""The commit policy of the archiver: files first, then the archive's manifest, which has the offsets.

The manifest has the offset to resume at, the last mark, and the range that was being written. Several
processes add to one folder in turns. Each first compares the manifest with the one that it wrote last, so
that a process whose partition the group has assigned to another one since adds nothing. The group's offsets
are committed last, for readers of the group's lag.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ...archive.chunk import ArchiveCheckpoint, Chunk
from ...archive.shared_writer import LiveArchive
from ...schemas.records.dead_letter import DeadLetter, encode_dead_letter
from ..messages.topics import Topic
from ..process.archive_metrics import ArchiveMetrics
from ..process.faultpoints import ArchiveFault, fault_point
from ..stages.archive import ArchiveStage, ChunkBuffer, ChunkLimits, JudgedRecord, chunk_of, resumed, too_many
from .archive_records import read_judged
from .broker_errors import IllegalStateError, KafkaError
from .changed_topics import archived_error, archived_marks_error
from .client import ClientRecord, GroupClient, OutgoingRecord, TopicPartition, record_of
from .inputs import Inputs, records_by_place
from .process import BatchLimits, GoingOn, GroupDriver


@dataclass(frozen=True, slots=True)
class ArchiveRuntime:
    """The runtime of the process: its clock, reports and metrics; it ends when `stopping` is set.

    `timeout_s` is how long it may be silent before the group assigns its partitions to others. `fault_point`
    marks fault points.
    """

    metrics: ArchiveMetrics
    report: Callable[[str], None]
    stopping: threading.Event
    timeout_s: float = 45.0
    clock: Callable[[], float] = time.monotonic
    fault_point: Callable[[StrEnum], None] = fault_point


class ArchiveDriver(GroupDriver):
    """The driver of the archive stage: its topic, and the metrics of a process that waits."""

    process = "archive"
    limits = BatchLimits(records=500, polled=500)

    def __init__(self, topic: str, metrics: ArchiveMetrics) -> None:
        self.topics, self._metrics = (topic,), metrics

    def rest(self) -> None:
        """Set the metrics of a process without partitions."""
        self._metrics.kafka.lag({})
        self._metrics.progress.watermark(None)
        self._metrics.rows_waiting.set(0)


class ManifestPolicy:
    """Archives the buffer of each partition when it is due, or when nothing comes any more."""

    refusals_max = None

    def __init__(
        self,
        client: GroupClient,
        names: Mapping[Topic, str],
        archive: LiveArchive,
        runtime: ArchiveRuntime,
        limits: ChunkLimits,
    ) -> None:
        self.driver = ArchiveDriver(names[Topic.JUDGED], runtime.metrics)
        self.inputs = Inputs(client, runtime.metrics.kafka, runtime.report, archived_error)
        self.commits = 0
        self._topic, self._names = names[Topic.JUDGED], names
        self._client, self._archive, self._runtime = client, archive, runtime
        self._stage = ArchiveStage(self._topic, limits)
        self._open: dict[int, ChunkBuffer] = {}
        self._bases: dict[int, ArchiveCheckpoint | None] = {}
        self._active = runtime.clock()

    def prepare(self) -> None:
        """Raise an error at once where the folder takes no files."""
        with self._archive.lock():
            pass

    def resume(self, owned: frozenset[int], going_on: GoingOn) -> dict[TopicPartition, int] | None:
        """Resume partitions at the offsets of the archive's manifest."""
        self._open.clear()
        self._bases = {number: self._archive.checkpoint(number) for number in sorted(owned)}
        known = {number: base.next for number, base in self._bases.items() if base is not None}
        if owned:
            self.inputs.check(self._topic, known)
        offsets: dict[TopicPartition, int] = {}
        for number, base in self._bases.items():
            place = TopicPartition(self._topic, number)
            first = self._client.first(place)
            begin = ArchiveCheckpoint(first, first) if base is None else resumed(base, first)
            if base is not None:
                self.inputs.report_deleted(place, base.next, begin.next)
            self._open[number] = self._stage.buffer(number, begin)
            offsets[place] = begin.next
        self._active = self._runtime.clock()
        return offsets if going_on() else None

    def carry(self, records: Sequence[ClientRecord], member: Any) -> bool:  # noqa: ARG002
        """Gather records, and archive what is due."""
        for place, polled in records_by_place(records).items():
            self._active = self._runtime.clock()
            self._runtime.fault_point(ArchiveFault.RECEIVED)
            if not self._gather(place, polled):
                return False
        return True

    def between(self, member: Any) -> bool:  # noqa: ARG002
        """Archive what is too much to hold, and everything where no message comes any more."""
        is_going_on = all(map(self._archive_one, too_many(self._open)))
        patience_s = min(
            (buffer.patience_s for buffer in self._open.values()), default=self._stage.limits.every_s
        )
        if self._runtime.clock() - self._active >= patience_s:
            is_going_on = self._archive_ready() and is_going_on
        self._count()
        return is_going_on

    def finish(self) -> None:
        """Archive what was gathered."""
        with suppress(KafkaError):
            self._archive_ready()

    def _gather(self, place: TopicPartition, records: Sequence[ClientRecord]) -> bool:
        """Gather the records of a partition, and archive what is due; return False as `carry`."""
        buffer, metrics = self._open[place.partition], self._runtime.metrics
        expected = buffer.progress.next
        if records[0].offset < expected:
            # A fetch may come from before a seek: these records are the same topic's, and were read.
            self.inputs.check(self._topic, {place.partition: expected})
            records = [record for record in records if record.offset >= expected]
            if not records:
                return True
        metrics.kafka.read(self._topic, len(records), sum(len(record.value or b"") for record in records))
        if records[0].offset > expected and self._client.first(place) > expected:
            # Records were deleted. The next settling reports them and begins behind the gap.
            if buffer.is_ready:
                self._archive_one(place.partition)
            return False
        return self._step(place, buffer, [read_judged(record_of(record)) for record in records])

    def _step(self, place: TopicPartition, buffer: ChunkBuffer, records: Sequence[JudgedRecord]) -> bool:
        """Step records, and archive the buffer whenever it is due; return False as `carry`."""
        while records:
            result = self._stage.step(buffer, records)
            for dead_letter in result.outputs:
                self._write_dead_letter(dead_letter)
            if result.metrics.repeats:
                self._repeated(place.partition, result.writes.progress.mark, result.metrics.repeats)
            buffer.apply(result.writes)
            self.inputs.next[place] = buffer.progress.next
            if self._stage.is_due(buffer) and not self._archive_one(place.partition):
                return False
            records = records[result.metrics.taken :]
        return True

    def _repeated(self, number: int, mark: tuple[int, int] | None, count: int) -> None:
        """Count messages that were dropped for their marks, if the events are still those that marks are of.

        Raises StreamError (TRL751) where their topic ends before: everything judged would be dropped.
        """
        judged = {} if mark is None else {number: mark[0] + 1}
        if (loss := self._client.find_loss(self._names[Topic.EVENTS], judged)) is not None:
            raise archived_marks_error(loss, self._topic)
        self._runtime.metrics.repeats.inc(count)

    def _archive_ready(self) -> bool:
        """Archive everything that may be; return False as `carry`."""
        ready = [number for number, buffer in self._open.items() if buffer.is_ready]
        return all(map(self._archive_one, ready))

    def _archive_one(self, number: int) -> bool:
        """Archive the buffer of a partition; return False where another process has done so."""
        buffer = self._open[number]
        chunk = chunk_of(buffer)
        with self._archive.lock():
            if self._archive.checkpoint(number) != self._bases[number]:
                return False
            for digest, packs in chunk.activated.items():
                self._archive.write_rules(digest, packs)
            if chunk.events:
                self._write(chunk)
            checkpoint = self._bases[number] = self._archive.finish(chunk)
        buffer.restart(checkpoint, self._stage.limits.every_s)
        with suppress(KafkaError):
            self._client.commit({TopicPartition(self._topic, number): checkpoint.next})
        self.commits += 1
        self._runtime.fault_point(ArchiveFault.COMMITTED)
        return True

    def _write(self, chunk: Chunk) -> None:
        """Write the files of a chunk, and enter them in the manifest."""
        metrics = self._runtime.metrics
        self._archive.begin(chunk)
        self._runtime.fault_point(ArchiveFault.WRITING)
        self._archive.write(chunk)
        self._runtime.fault_point(ArchiveFault.WRITTEN)
        entered = self._archive.commit()
        self._runtime.fault_point(ArchiveFault.ENTERED)
        metrics.files.inc(entered.files)
        metrics.bytes.inc(entered.bytes)
        metrics.rows.inc(entered.rows)

    def _write_dead_letter(self, dead_letter: DeadLetter) -> None:
        """Write a dead letter. Raises KafkaError where the broker does not acknowledge it."""
        topic = self._names[Topic.DEAD_LETTER]
        self._client.produce(OutgoingRecord(topic, None, None, encode_dead_letter(dead_letter)))
        self._runtime.metrics.progress.dead_letter(dead_letter.code)

    def _count(self) -> None:
        """Set the metrics of the buffers, and of how far the monitor had judged what was read."""
        metrics = self._runtime.metrics
        behind: dict[tuple[str, int], int] = {}
        for number, buffer in self._open.items():
            with suppress(IllegalStateError):
                # It may be revoked just now.
                end = self._client.high_water(TopicPartition(self._topic, number))
                if end is not None:
                    behind[self._topic, number] = max(0, end - buffer.progress.next)
        metrics.kafka.lag(behind)
        metrics.rows_waiting.set(sum(buffer.progress.rows for buffer in self._open.values()))
        watermarks = [buffer.progress.watermark for buffer in self._open.values()]
        known = [watermark for watermark in watermarks if watermark is not None]
        metrics.progress.watermark(min(known, default=None))
