"""The driver of the rekey stage: the records that it reads, its ticks, its metrics and reports."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ...schemas.chat.find import InputFlaw
from ...schemas.time import NS
from ..ingest.limits import ReceiverLimits
from ..messages.record import Input, Record
from ..messages.topics import Topic
from ..messages.unjoined import Unjoined
from ..process.faultpoints import RekeyFault, fault_point
from ..process.rekey_metrics import RekeyMetrics
from ..process.unread import UnreadNotice
from ..stages.rekey import SIGNALS, RekeyCounts
from .changed_topics import changed_counts, unequal_counts
from .client import ClientRecord, GroupClient, TopicPartition
from .inputs import Inputs, records_by_place
from .process import BatchLimits
from .rekey_sources import EncodedRekeyResult, RekeySources, refused, requests_of
from .transactional import TransactionalDriver, TransactionFaults

PROCESS = "rekey"
RECORD_BYTES_MAX = ReceiverLimits().unpacked_bytes_max
"""Bytes of a record beyond which the process does not read it: the limit of a request to `tracline serve`."""
TICK_S_MIN = 0.05
AHEAD_NS = 10_000_000_000
"""Nanoseconds that the process may read one input of a source ahead of the other, by record time."""
UNJOINED_REPORT_S = 60.0
"""The least time between two reports that log records found no span, in seconds."""


@dataclass(frozen=True, slots=True)
class RekeyRuntime:
    """The runtime of the process: its time (ns since the epoch), clock, reports and metrics.

    `instance` names the process: its successor of that name need not wait for a transaction it left open.
    `timeout_s` is how long it may be silent before the group assigns its partitions to others, and how long
    one of its transactions may take. It ends when `stopping` is set. `fault_point` marks fault points.
    """

    instance: str
    timeout_s: float
    metrics: RekeyMetrics
    report: Callable[[str], None]
    stopping: threading.Event
    now: Callable[[], int] = time.time_ns
    clock: Callable[[], float] = time.monotonic
    fault_point: Callable[[StrEnum], None] = fault_point


class RekeyDriver(TransactionalDriver[EncodedRekeyResult]):
    """The driver of the rekey stage over spans, and log records beside them where `reads_logs`."""

    process = PROCESS
    limits = BatchLimits(records=4_000, bytes=4 << 20, linger_s=0.2, polled=500)
    """About half a second's work; a transaction has a message for each partition of events."""
    state_topic = Topic.REKEY_STATE
    faults = TransactionFaults(RekeyFault.RECEIVED, RekeyFault.TAKEN, RekeyFault.PRODUCED, RekeyFault.OFFSETS)

    def __init__(
        self,
        client: GroupClient,
        names: Mapping[Topic, str],
        sources: RekeySources,
        inputs: Inputs,
        runtime: RekeyRuntime,
        *,
        reads_logs: bool,
    ) -> None:
        reads = (Topic.LOGS, Topic.SPANS) if reads_logs else (Topic.SPANS,)
        self.topics = tuple(names[topic] for topic in reads)
        self._client, self._names, self._sources = client, names, sources
        self._settings = sources.stage.settings
        self._inputs, self._runtime, self._reads_logs = inputs, runtime, reads_logs
        self._topics = {names[topic]: topic for topic in reads}
        self._tick_s = max(self._settings.tick_s, TICK_S_MIN)
        self._ticked = runtime.clock()
        self._active: dict[TopicPartition, float] = {}
        self._read_up_to: dict[TopicPartition, int] = {}
        self._without_span = 0
        self._reported_without_span = -UNJOINED_REPORT_S
        self._notice = UnreadNotice(runtime.report)

    def deadline(self) -> float:
        """Return when the next tick is due."""
        return self._ticked + self._tick_s

    def begin(self) -> None:
        """Drop all sources. Raises StreamError (TRL732) where partitions were added."""
        self._sources.clear()
        self._check_partitions()

    def inputs_of(self, owned: frozenset[int]) -> list[TopicPartition]:
        """Return the partitions of spans, then those of log records."""
        return [TopicPartition(topic, number) for topic in reversed(self.topics) for number in sorted(owned)]

    def restore(self, owned: frozenset[int], state: Mapping[int, Mapping[str, bytes]]) -> bool:
        """Resume these sources."""
        for number in sorted(owned):
            self._sources.assign(number, state[number])
        return True

    def first_offset(self, place: TopicPartition) -> int:
        """Return the first record; of log records the first whose span may still be waiting."""
        record_time = self._sources.record_time(place.partition)
        if self._topics[place.topic] is Topic.SPANS or not record_time:
            return self._client.first(place)
        hold = round(self._settings.hold_s * NS)
        return self._client.first_since(place, max(0, record_time - hold) // 1_000_000)

    def resumed(self) -> None:
        """Start from new positions: no input is idle yet."""
        self._active = dict.fromkeys(self._inputs.next, self._runtime.clock())
        self._read_up_to = {}
        self._expect_logs(self._client.unread(self._inputs.next))

    def rest(self) -> None:
        """Set the metrics of a process without partitions."""
        self._runtime.metrics.clear()

    def wait(self, *, is_assigned: bool) -> None:  # noqa: ARG002
        """Take note that records may wait at the broker: no input is idle meanwhile."""
        self._active = dict.fromkeys(self._active, self._runtime.clock())

    def step(self, records: Sequence[ClientRecord]) -> EncodedRekeyResult:
        """Return the candidates that come of records, and dead letters of those that cannot be span data."""
        self._expect_logs(self._left_at_the_broker())
        flaws = [_flaw(record) for record in records]
        pairs = [(self._record(record), flaw) for record, flaw in zip(records, flaws, strict=True)]
        scope = self._sources.stage.settings.scope
        read = iter(requests_of([record for record, flaw in pairs if flaw is None], scope))
        return self._sources.step(
            next(read) if flaw is None else refused(record, flaw) for record, flaw in pairs
        )

    def refuse(self, record: ClientRecord, error: Exception) -> EncodedRekeyResult:
        """Return the dead letter of a record that breaks the stage."""
        flaw = InputFlaw("record", "internal", type(error).__name__)
        return self._sources.refuse(refused(self._record(record), flaw), flaw)

    def between(self, commit: Callable[[EncodedRekeyResult], None]) -> None:
        """Pause inputs that are ahead, and commit a tick when it is due."""
        if self._reads_logs:
            self._pause_ahead()
        if self._runtime.clock() >= self.deadline():
            self._tick(commit)

    def _pause_ahead(self) -> None:
        """Pause an input that the process has read far ahead of the other one of its source."""
        for place in self._inputs.next:
            [beside] = [topic for topic in self.topics if topic != place.topic]
            partner = TopicPartition(beside, place.partition)
            ahead = self._read_up_to.get(place, 0) - self._read_up_to.get(partner, 0)
            self._client.pause(place, is_paused=ahead > AHEAD_NS and self._may_have_unread(partner))

    def _may_have_unread(self, place: TopicPartition) -> bool:
        end = self._client.high_water(place)
        return end is None or end > self._client.position(place)

    def _tick(self, commit: Callable[[EncodedRekeyResult], None]) -> None:
        """Send the watermarks to every partition of events; those of quiet inputs follow the clock."""
        now = self._ticked = self._runtime.clock()
        self._check_partitions()
        # The ends that the client remembers are stale while the broker is away.
        unread = self._client.unread(self._inputs.next)
        self._expect_logs(unread)
        idle = [place for place in unread if not unread[place] and now - self._active[place] >= self._tick_s]
        commit(self._sources.tick([self._input(place) for place in idle], self._runtime.now()))
        if len(idle) == len(unread):
            self._notice.idle()
        metrics = self._runtime.metrics
        metrics.kafka.lag({(place.topic, place.partition): count for place, count in unread.items()})
        metrics.progress.watermark(min(self._sources.watermarks().values()))
        metrics.spans.waiting.set(self._sources.waiting())
        metrics.spans.log_records_waiting.set(self._sources.waiting_records())
        metrics.traces_held.set(self._sources.remembered())

    def _left_at_the_broker(self) -> dict[TopicPartition, int]:
        """Return the number of unread records of each input at the last poll; asks no broker."""
        ends = {place: self._client.high_water(place) for place in self._inputs.next}
        return {place: end - self._client.position(place) for place, end in ends.items() if end is not None}

    def _expect_logs(self, unread: Mapping[TopicPartition, int]) -> None:
        """Let sources with unread log records wait for them."""
        for place, count in unread.items():
            if self._topics[place.topic] is Topic.LOGS and count:
                self._sources.expect_logs(place.partition)

    def _check_partitions(self) -> None:
        """Raise StreamError (TRL732) where partitions were added."""
        spans, events, logs = (self._names[topic] for topic in (Topic.SPANS, Topic.EVENTS, Topic.LOGS))
        found = self._client.partitions(spans), self._client.transactions.partitions(events)
        before = self._sources.counts
        if found != (before.sources, before.partitions):
            what = (
                f"{spans} had {before.sources} partitions and {events} {before.partitions}, "
                f"and they have {found[0]} and {found[1]}"
            )
            raise changed_counts(what)
        if self._reads_logs and (count := self._client.partitions(logs)) != found[0]:
            raise unequal_counts(spans, found[0], logs, count)

    def _input(self, place: TopicPartition) -> Input:
        return Input(self._topics[place.topic], place.partition)

    def _record(self, record: ClientRecord) -> Record:
        """Return a record of the client; one without a timestamp has the time of now."""
        topic = self._topics[record.topic]
        return Record(record.partition, record.offset, self._time(record), record.value or b"", topic)

    def _time(self, record: ClientRecord) -> int:
        return record.timestamp * 1_000_000 if record.timestamp >= 0 else self._runtime.now()

    def committed(self, result: EncodedRekeyResult, records: Sequence[ClientRecord]) -> None:
        """Apply the changes of the sources, count what was committed, and report what is not read."""
        self._runtime.fault_point(RekeyFault.COMMITTED)
        self._sources.apply(result.writes)
        now = self._runtime.clock()
        for place, found in records_by_place(records).items():
            self._active[place] = now
            self._read_up_to[place] = max(self._read_up_to.get(place, 0), *map(self._time, found))
        self._count(result.metrics)

    def _count(self, counts: RekeyCounts) -> None:
        """Add the counts of a committed step to the metrics, and report unread spans and log records."""
        metrics = self._runtime.metrics
        metrics.spans_in.inc(counts.items[Topic.SPANS])
        metrics.log_records_in.inc(counts.items[Topic.LOGS])
        metrics.candidates.inc(counts.candidates)
        metrics.spans.early.inc(counts.early)
        metrics.spans.count_spans(counts.census)
        self._notice.add(counts.census)
        for topic, signal in SIGNALS.items():
            metrics.spans.rejected[signal].inc(counts.rejected[topic])
        metrics.spans.flaws(Counter(counts.dead_letters))
        for reason, count in counts.unjoined.items():
            metrics.spans.unjoined(reason, count)
        self._report_without_span(counts.unjoined[Unjoined.WITHOUT_SPAN])

    def _report_without_span(self, count: int) -> None:
        """Report now and then that log records found no span."""
        self._without_span += count
        now = self._runtime.clock()
        if not self._without_span or now - self._reported_without_span < UNJOINED_REPORT_S:
            return
        text = f"{self._without_span} log records with content found no span on their partition to add to"
        hint = f"{self._names[Topic.LOGS]} must be partitioned by trace like {self._names[Topic.SPANS]}"
        self._runtime.report(f"{text}; {hint}")
        self._without_span, self._reported_without_span = 0, now


def _flaw(record: ClientRecord) -> InputFlaw | None:
    """Return the flaw of a record that cannot be span data, None where it may be."""
    if record.value is None:
        return InputFlaw("record", "empty", "has no value")
    if len(record.value) > RECORD_BYTES_MAX:
        return InputFlaw("record", "size", f"is larger than {RECORD_BYTES_MAX} bytes")
    return None
