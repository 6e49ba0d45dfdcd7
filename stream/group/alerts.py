"""The driver of the alerts stage: verdicts in, and the delivery of the alerts that were committed.

The process reads the committed alerts back, and commits their offset once every receiver took them: what a
crash interrupts is delivered again, with the same id.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ...schemas.records.dead_letter import DeadLetter
from ..alerts.alert import Alert, decode
from ..alerts.delivery import Delivery
from ..error import StreamError
from ..messages.record import Record, dead_letter_output
from ..messages.topics import Topic
from ..process.alert_metrics import AlertMetrics
from ..process.faultpoints import AlertFault, fault_point
from ..stages.alert import PROCESS, AlertsCounts, AlertStage
from ..stages.result import StageResult
from .alerts_state import EncodedAlertsResult, encoded, new_state, read_state, read_verdicts
from .changed_topics import counted_marks_error
from .client import ClientRecord, GroupClient, TopicPartition, record_of
from .inputs import Inputs
from .process import POLL_S, BatchLimits
from .transactional import TransactionalDriver, TransactionFaults

ALERTS_POLLED = 1_000
"""Alerts that a process that waits takes from the client at a time."""


@dataclass(frozen=True, slots=True)
class AlertsRuntime:
    """The runtime of the process: its time of day (ns since the epoch), clock, reports and metrics.

    `instance` names the process: its successor of that name need not wait for a transaction it left open.
    `timeout_s` is how long it may be silent before another takes over, and how long a transaction may take.
    `delivery` returns a new delivery, whenever the process takes over. `fault_point` marks fault points.
    """

    instance: str
    timeout_s: float
    metrics: AlertMetrics
    report: Callable[[str], None]
    stopping: threading.Event
    stage: AlertStage
    delivery: Callable[[], Delivery]
    now: Callable[[], int] = time.time_ns
    clock: Callable[[], float] = time.monotonic
    fault_point: Callable[[StrEnum], None] = fault_point


class AlertsDriver(TransactionalDriver[EncodedAlertsResult]):
    """The driver of the alerts stage, and the delivery of the alerts that were committed."""

    process = PROCESS
    limits = BatchLimits(records=1_000)
    state_topic = Topic.ALERTS_STATE
    faults = TransactionFaults(AlertFault.RECEIVED, AlertFault.STEPPED, AlertFault.PRODUCED)

    def __init__(
        self,
        client: GroupClient,
        names: Mapping[Topic, str],
        partitions: int,
        inputs: Inputs,
        runtime: AlertsRuntime,
    ) -> None:
        """Drive the stage over a topic of verdicts with so many `partitions`."""
        self.topics = (names[Topic.VERDICTS],)
        self._client, self._names, self._partitions = client, names, partitions
        self._inputs, self._runtime = inputs, runtime
        self._alerts = TopicPartition(names[Topic.ALERTS], 0)
        self._verdicts = [TopicPartition(names[Topic.VERDICTS], number) for number in range(partitions)]
        self._state, self._delivery = new_state(partitions), runtime.delivery()
        self._delivering: int | None = None
        self._undelivered: deque[tuple[int, Alert | None]] = deque()
        self._refused: deque[EncodedAlertsResult] = deque()

    def status(self, owned: frozenset[int]) -> str:
        """Return the report about an assignment."""
        return "active" if owned else "standby: another process is active"

    def poll_beside(self, *, is_working: bool) -> None:
        """Read what was committed to the topic of alerts, as far as there is room for it."""
        if not is_working:
            # What comes before the state is restored is polled again from its offset.
            self._client.poll(self._alerts.topic, POLL_S, ALERTS_POLLED)
            return
        self._client.pause(self._alerts, is_paused=not self._delivery.has_room())
        for record in self._client.poll(self._alerts.topic, 0, 1):
            try:
                alert = decode(record.value or b"")
            except StreamError as error:
                self._refused.append(_refused(record_of(record), self._alerts.topic, error))
                self._undelivered.append((record.offset, None))
                continue
            self._delivery.offer(alert)
            self._undelivered.append((record.offset, alert))

    def inputs_of(self, owned: frozenset[int]) -> list[TopicPartition]:
        """Return all partitions of verdicts, and the one of alerts."""
        return [*self._verdicts, self._alerts] if owned else []

    def restore(self, owned: frozenset[int], state: Mapping[int, Mapping[str, bytes]]) -> bool:
        """Resume from the state of the last transaction."""
        if not owned:
            return True
        self._state = read_state(state[0], self._partitions, self._runtime.stage)
        if self._delivering != self._client.assignment.count:
            # Another process may have resolved alerts that were firing here.
            self._delivery, self._delivering = self._runtime.delivery(), self._client.assignment.count
        for alert in self._state.firing.values():
            self._delivery.resume(alert)
        self._undelivered.clear()
        self._refused.clear()
        return True

    def first_offset(self, place: TopicPartition) -> int:
        """Return the first record."""
        return self._client.first(place)

    def rest(self) -> None:
        """Set the metrics of a process that waits."""
        self._runtime.metrics.clear()

    def wait(self, *, is_assigned: bool) -> None:
        """Deliver while the broker does not answer, unless the group has moved the work to another process.

        Alertmanager takes an alert for over that is not sent again for long, while it may still fire.
        """
        if is_assigned and self._delivering == self._client.assignment.count:
            self._delivery.work(self._runtime.now())

    def step(self, records: Sequence[ClientRecord]) -> EncodedAlertsResult:
        """Return the alerts that come of messages of verdicts, and the records of what changes.

        Raises StreamError (TRL766) where messages were dropped for marks of other events.
        """
        read = [read_verdicts(record_of(record)) for record in records]
        result = self._runtime.stage.step(self._state, read)
        self._compare_marks(result.metrics.repeated)
        return encoded(self._state, result)

    def refuse(self, record: ClientRecord, error: Exception) -> EncodedAlertsResult:  # noqa: ARG002
        """Raise the error: a message of verdicts that cannot be read never comes to this."""
        raise error

    def _compare_marks(self, repeated: Mapping[int, int]) -> None:
        """Raise StreamError (TRL766) where marks for which messages were dropped are of other events.

        Everything judged of a recreated topic would be dropped until its offsets have caught up.
        """
        if not repeated:
            return
        judged = {number: offset + 1 for number, offset in repeated.items()}
        if (loss := self._client.find_loss(self._names[Topic.EVENTS], judged)) is not None:
            raise counted_marks_error(loss)

    def between(self, commit: Callable[[EncodedAlertsResult], None]) -> None:
        """Deliver what is due, and commit the offset of the alerts that every receiver took."""
        while self._refused:
            # A dead letter is committed before the offset of the alert that it is about.
            commit(self._refused[0])
            self._refused.popleft()
        self._delivery.work(self._runtime.now())
        done: int | None = None
        while self._undelivered:
            offset, alert = self._undelivered[0]
            if alert is not None and not self._delivery.is_settled(alert):
                break
            done = offset + 1
            self._undelivered.popleft()
        if done is not None:
            self._runtime.fault_point(AlertFault.DELIVERED)
            self._client.commit({self._alerts: done})

    def committed(
        self,
        result: EncodedAlertsResult,
        records: Sequence[ClientRecord],  # noqa: ARG002
    ) -> None:
        """Apply the changes of the state, and count what was committed."""
        metrics, counts = self._runtime.metrics, result.metrics
        if counts.raised or counts.resolved:
            self._runtime.fault_point(AlertFault.COMMITTED)
        if result.writes is not None:
            self._state.apply(result.writes)
        metrics.statuses.inc(counts.statuses)
        metrics.repeats.inc(counts.repeats)
        metrics.raised.inc(counts.raised)
        metrics.resolved.inc(counts.resolved)
        metrics.firing.set(len(self._state.firing))
        metrics.series.set(self._state.series)
        if (watermark := self._state.watermark) is not None:
            metrics.progress.watermark(watermark)
        behind = {
            (place.topic, place.partition): max(0, (self._client.high_water(place) or 0) - offset)
            for place, offset in self._inputs.next.items()
        }
        metrics.kafka.lag(behind)


def _refused(record: Record, topic: str, error: StreamError) -> EncodedAlertsResult:
    """Return the dead letter of a record of the topic of alerts: its place, its digest and its error."""
    offset, digest = record.origin
    at = PROCESS, topic, record.partition, offset, record.time
    dead_letter = DeadLetter(*at, "record", error.code, str(error), digest.hex())
    return StageResult((dead_letter_output(dead_letter),), None, AlertsCounts(dead_letters=[error.code]))
