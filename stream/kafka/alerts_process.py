"""The alerts process: reads verdicts, writes alerts and state in transactions, delivers what it has written.

One process of the group is at work, the one that has the only partition of the topic of alerts; others wait
to take over. Verdicts' offsets, the state behind them and the alerts that come of them are in one
transaction. What is delivered is read back from the topic of alerts, and its offset committed once every
receiver took it: what a crash interrupts is delivered again, with the same id.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import CommitFailedError, KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from ..alerts.alert import Alert, decode
from ..alerts.delivery import Delivery
from ..error import StreamError
from ..messages.topics import Topic
from ..process.alert_metrics import AlertMetrics
from ..process.faultpoints import AlertFault, fault_point
from ..process.kafka_metrics import TransactionOutcome
from ..stages.alert import CODE, PROCESS, Alerting, Turned
from ..stages.rekey import Record
from .assignment import Moves, join, not_taken
from .compacted import read_compacted
from .consumer import lost
from .preflight import LISTEN_S, must_listen
from .settings import KafkaSettings, connecting
from .topic_checks import CHECK_S, TopicChecks
from .topics import Patience, ask_at_start, look, require
from .transactions import FENCED, Sent, Transactions

SENDS = (Topic.ALERTS, Topic.ALERTS_STATE, Topic.DEAD_LETTER)
"""The topics it writes."""
LETTERS = (CODE, "TRL764")
"""The codes of its dead letters."""
RECORDS_MAX = 1_000
"""Messages of a transaction."""
POLL_MS = 200
ASK_MS = 2_000
CLOSE_MS = 5_000
RETRY_S = 1.0
"""How long to wait before what Kafka did not do is tried again."""
REFUSALS_MAX = 5
"""Transactions in a row that Kafka may refuse, for a reason that waiting does not mend."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the process needs of the world: metrics, where to say how it goes, when to end, clocks.

    `instance` names the process: its successor of that name need not wait for a transaction it left open.
    `timeout_s` is how long it may be silent before another takes over, and how long a transaction may take.
    `now` is the time of day in nanoseconds since the epoch. `alerting` and `delivery` make what it begins
    with, whenever it comes to be the one at work.
    """

    instance: str
    timeout_s: float
    metrics: AlertMetrics
    say: Callable[[str], None]
    stopping: threading.Event
    alerting: Callable[[int], Alerting]
    delivery: Callable[[], Delivery]
    now: Callable[[], int] = time.time_ns
    clock: Callable[[], float] = time.monotonic


class AlertsProcess:
    """The process; `run` works until it is to stop."""

    def __init__(self, kafka: KafkaSettings, partitions: int, around: Surroundings) -> None:
        """`partitions` are how many the topic of verdicts has."""
        self._kafka, self._partitions, self._around = kafka, partitions, around
        self._names = {topic: kafka.topic(topic) for topic in Topic}
        self._place = TopicPartition(self._names[Topic.ALERTS], 0)
        self._verdicts = [TopicPartition(self._names[Topic.VERDICTS], n) for n in range(partitions)]
        self._next: dict[TopicPartition, int] = {}
        self._transactions = Transactions(kafka, PROCESS, around.instance, around.timeout_s)
        self._moves = Moves()
        self._member: Any = None
        self._reader: Any = None
        self._checks = TopicChecks(kafka, PROCESS)
        self._settled: int | None = None
        self._alerting = around.alerting(partitions)
        self._delivery = around.delivery()
        self._worked: int | None = None
        self._undelivered: deque[tuple[int, Alert | None]] = deque()
        self._refusals = 0
        self._checked = around.clock()
        self._is_away = False

    @property
    def is_ready(self) -> bool:
        """Return whether it is at work, or waits to take over."""
        return self._settled is not None and self._settled == self._moves.count

    def run(self) -> None:
        """Work until told to stop; then leave the group.

        Raises StreamError: TRL731, TRL732, TRL735, TRL761, TRL763, TRL764, TRL766 (topics and state that do
        not fit), TRL733 (another process has its name), TRL734 (Kafka refuses what it does).
        """
        try:
            while not self._around.stopping.is_set():
                try:
                    self._turn()
                except KafkaError as error:
                    self._wait_for_kafka(error)
        finally:
            self._transactions.discard()
            self._checks.close()
            for consumer in (self._reader, self._member):
                if consumer is not None:
                    consumer.close(autocommit=False, timeout_ms=CLOSE_MS)

    def _turn(self) -> None:
        """Read verdicts and commit what comes of them; deliver what was committed."""
        if self._member is None:
            self._member = join(self._kafka, PROCESS, self._place.topic, self._around.timeout_s, self._moves)
        if not self._transactions.is_open:
            self._transactions.open()
        self._hear_alerts()
        # First who we are, then whether that is still so: whoever is moved later is refused by the broker.
        member = self._member.group_metadata()
        if member.generation_id < 0 or not self._moves.is_divided:
            # While the group is being divided nobody can say who is at work.
            self._settled = None
            return
        if not self.is_ready:
            self._settle()
            return
        if not self._moves.owned:
            return
        polled = self._reader.poll(POLL_MS, max_records=RECORDS_MAX)
        is_due = self._around.clock() - self._checked >= CHECK_S
        if is_due or self._checks.is_recreated(self._names[Topic.VERDICTS], self._reader):
            self._checked = self._around.clock()
            self._check(self._next)
        self._is_away = False
        records = [record for some in polled.values() for record in some]
        # A letter is written before the alert that it tells of is taken for delivered.
        if records or self._alerting.has_letters:
            fault_point(AlertFault.RECEIVED)
            self._take(records, member)
        self._deliver()

    def _hear_alerts(self) -> None:
        """Read what was committed to the topic of alerts, as far as there is room for it."""
        is_working = self.is_ready and bool(self._moves.owned)
        if is_working and not self._delivery.has_room():
            self._member.pause(self._place)
        polled = self._member.poll(0 if is_working else POLL_MS, max_records=1 if is_working else None)
        if not self.is_ready:
            return
        for record in (record for some in polled.values() for record in some):
            try:
                alert = decode(record.value or b"")
            except StreamError as error:
                self._alerting.letter(_record(record), self._place.topic, error.code, str(error))
                self._undelivered.append((record.offset, None))
                continue
            self._delivery.offer(alert)
            self._undelivered.append((record.offset, alert))

    def _settle(self) -> None:
        """Find out whether we are the one at work, and go on from what was last committed."""
        self._settled = None
        count, owned = self._moves.count, self._moves.owned
        if count == 0:
            return
        if owned and not self._go_on(count):
            return
        if count == self._moves.count:
            self._settled = count
            self._around.say("is at work" if owned else "waits: another process is at work")
            if not owned:
                self._around.metrics.clear()

    def _go_on(self, count: int) -> bool:
        """Stand where the last transaction left off. False where we are not the one at work any more.

        State is read after the offsets, which are stable: all that belongs to them is there by then.
        """
        begin = {place: self._committed(place) for place in (*self._verdicts, self._place)}
        records = read_compacted(
            self._kafka,
            PROCESS,
            self._names[Topic.ALERTS_STATE],
            [0],
            lambda: self._moves.count == count and not self._around.stopping.is_set(),
        )
        if records is None:
            return False
        self._alerting = self._around.alerting(self._partitions)
        self._alerting.restore(records[0])
        if self._worked != count:
            # Another process may have resolved since what we took for firing.
            self._delivery, self._worked = self._around.delivery(), count
        for alert in self._alerting.firing.values():
            self._delivery.resume(alert)
        self._undelivered.clear()
        if self._reader is None:
            self._reader = _reader(self._kafka, self._names[Topic.VERDICTS], self._partitions)
        try:
            self._member.seek(self._place, begin.pop(self._place))
            self._member.resume(self._place)
        except ValueError:
            # It was revoked just now.
            return False
        for place, offset in begin.items():
            self._reader.seek(place, offset)
        self._next = begin
        return True

    def _committed(self, place: TopicPartition) -> int:
        """Where to go on. Raises KafkaTimeoutError while a transaction is open that may still say so."""
        committed: int | None = self._member.committed(place, timeout_ms=ASK_MS)
        first: int = self._member.beginning_offsets([place], timeout_ms=ASK_MS)[place]
        self._check({place: committed or 0})
        if committed is not None:
            self._tell_deleted(place, committed, first)
        return first if committed is None else max(first, committed)

    def _check(self, read: Mapping[TopicPartition, int]) -> None:
        """Raise StreamError (TRL735) where a topic is not the one that was read up to these offsets."""
        for topic in {place.topic for place in read}:
            own = {place.partition: offset for place, offset in read.items() if place.topic == topic}
            if (loss := self._checks.find_loss(topic, own)) is not None:
                raise lost(loss)

    def _tell_deleted(self, place: TopicPartition, expected: int, first: int) -> None:
        """Say that messages are lost, if there are any: a partition begins behind the one that comes next."""
        if expected < first:
            text = f"{place.topic}, partition {place.partition}: Kafka has deleted {expected} to {first - 1}"
            self._around.say(f"{text} before they were read; let it keep them for longer")
            self._around.metrics.kafka.deleted(place.topic, first - expected)

    def _unread(self, records: Sequence[Any]) -> list[Any]:
        """Return the records that were not read before, and say what Kafka has deleted.

        Raises StreamError (TRL735) where what was read comes again because the topic is another one.
        """
        for record in {record.partition: record for record in reversed(records)}.values():
            place = TopicPartition(self._names[Topic.VERDICTS], record.partition)
            expected, found = self._next[place], record.offset
            if found > expected:
                first: int = self._reader.beginning_offsets([place], timeout_ms=ASK_MS)[place]
                self._tell_deleted(place, expected, min(first, found))
            if found < expected:
                self._check({place: expected})
        # A fetch may come from before a seek: what was read is the same topic's, and is not read twice.
        unread = [
            record for record in records if record.offset >= self._next[self._verdicts[record.partition]]
        ]
        for record in unread:
            self._next[self._verdicts[record.partition]] = record.offset + 1
        return unread

    def _compare_marks(self, repeated: Mapping[int, int]) -> None:
        """Raise StreamError (TRL766) where marks for which messages were dropped are of other events.

        All that is judged of a topic that was made anew would be dropped until its offsets have caught up.
        """
        if not repeated:
            return
        events = self._names[Topic.EVENTS]
        judged = {number: offset + 1 for number, offset in repeated.items()}
        if (loss := self._checks.find_loss(events, judged)) is not None:
            hint = "its new verdicts would be dropped as repeats: let the alerts begin with an empty state"
            raise StreamError("TRL766", loss.what, hint)

    def _take(self, records: Sequence[Any], member: Any) -> None:
        """Take messages in, and commit what comes of them with their offsets. Raises KafkaError."""
        records = self._unread(records)
        for record in records:
            self._alerting.take(_record(record))
        turned = self._alerting.turn()
        self._compare_marks(turned.repeated)
        fault_point(AlertFault.STEPPED)
        try:
            self._transactions.begin()
            self._transactions.produce(self._sent(turned))
            fault_point(AlertFault.PRODUCED)
            going_on = {place: max(self._position(place), self._next[place]) for place in self._verdicts}
            self._transactions.offsets(going_on, member)
            self._transactions.commit()
        except KafkaError as error:
            raise self._aborted(error) from None
        self._refusals = 0
        if turned.alerts:
            fault_point(AlertFault.COMMITTED)
        self._count(turned, records)

    def _position(self, place: TopicPartition) -> int:
        position: int | None = self._reader.position(place, timeout_ms=ASK_MS)
        assert position is not None, "every partition was sought"
        return position

    def _sent(self, turned: Turned) -> Iterator[Sent]:
        for output in turned.outputs:
            key = None if output.key is None else output.key.encode("utf-8", "surrogatepass")
            yield self._names[output.topic], output.partition, key, output.value

    def _deliver(self) -> None:
        """Send what is due, and note what every receiver took."""
        self._delivery.work(self._around.now())
        done: int | None = None
        while self._undelivered:
            offset, alert = self._undelivered[0]
            if alert is not None and not self._delivery.is_settled(alert):
                break
            done = offset + 1
            self._undelivered.popleft()
        if done is not None:
            fault_point(AlertFault.DELIVERED)
            self._member.commit({self._place: OffsetAndMetadata(done, "", -1)}, timeout_ms=ASK_MS)
        if self._delivery.has_room():
            self._member.resume(self._place)

    def _count(self, turned: Turned, records: Sequence[Any]) -> None:
        """Tell the metrics of a transaction."""
        metrics, verdicts = self._around.metrics, self._names[Topic.VERDICTS]
        metrics.kafka.read(verdicts, len(records), sum(len(record.value or b"") for record in records))
        for topic in SENDS:
            count = sum(output.topic is topic for output in turned.outputs)
            metrics.kafka.sent(self._names[topic], count)
        metrics.kafka.transaction(TransactionOutcome.COMMITTED)
        metrics.statuses.inc(turned.statuses)
        metrics.repeats.inc(turned.repeats)
        for code in turned.dead_letters:
            metrics.progress.dead_letter(code)
        for alert in turned.alerts:
            (metrics.raised if alert.ends is None else metrics.resolved).inc()
        metrics.firing.set(len(self._alerting.firing))
        metrics.series.set(self._alerting.series)
        if (watermark := self._alerting.watermark) is not None:
            metrics.progress.watermark(watermark)
        behind = {
            (place.topic, place.partition): max(
                0, (self._reader.highwater(place) or 0) - self._position(place)
            )
            for place in self._verdicts
        }
        metrics.kafka.lag(behind)

    def _aborted(self, error: KafkaError) -> KafkaError:
        """Let go of a transaction, so that the next turn begins at the last that was committed; gives why."""
        self._settled = None
        self._around.metrics.kafka.transaction(TransactionOutcome.ABORTED)
        error = self._transactions.abandon(error)
        if isinstance(error, (*FENCED, CommitFailedError)) or error.retriable:
            return error
        self._refusals += 1
        if self._refusals >= REFUSALS_MAX:
            hint = "check what this user may do, and that the topics take records of message_bytes_max"
            what = f"Kafka refuses the transactions of alerts: {type(error).__name__}"
            raise StreamError("TRL734", what, hint)
        return error

    def _wait_for_kafka(self, error: KafkaError) -> None:
        """Say that something has to be done again, and give it a moment.

        Delivery goes on, unless the group has moved the work to another process: an alert that is not sent
        again for long is over at Alertmanager, while nothing is known to be over.
        """
        if refused := not_taken(error, self._kafka.group(PROCESS), self._around.timeout_s):
            raise refused from error
        self._settled = None
        is_ours = self._worked == self._moves.count and bool(self._moves.owned)
        if is_ours and not isinstance(error, CommitFailedError):
            self._delivery.work(self._around.now())
        if not self._is_away:
            self._is_away = True
            self._around.say(f"Kafka: {type(error).__name__}; tries again until it answers")
        self._around.stopping.wait(RETRY_S)


def alerts_process(kafka: KafkaSettings, around: Surroundings, wait_s: float) -> AlertsProcess | None:
    """The process over the topics as they are; None where it is to end before a broker answers.

    Raises StreamError: TRL721 to TRL724 where settings, brokers or topics are not as they must be.
    """
    patience = Patience(wait_s, around.stopping, around.say)
    found = ask_at_start(kafka, PROCESS, patience, lambda admin: look(admin, kafka))
    if found is None:
        return None
    require(found, kafka, Topic.VERDICTS, *SENDS)
    return AlertsProcess(kafka, found[Topic.VERDICTS].partitions, around)


def _record(record: Any) -> Record:
    return Record(record.partition, record.offset, record.timestamp * 1_000_000, record.value or b"")


def _reader(kafka: KafkaSettings, topic: str, partitions: int) -> Any:
    """A consumer of all verdicts, in no group."""
    must_listen(kafka, LISTEN_S)
    consumer = KafkaConsumer(
        **connecting(kafka, PROCESS),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        allow_auto_create_topics=False,
        max_partition_fetch_bytes=kafka.request_bytes_max,
    )
    consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
    return consumer
