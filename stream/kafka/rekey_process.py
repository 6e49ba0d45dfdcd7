"""The rekey stage as a process of a consumer group: reads spans and log records, sends candidates.

Each turn reads many records and sends what the pure `Rekeyer` makes of them in one transaction, together
with its state and the offsets to go on from. So nothing is lost or doubled when a process dies at any
point: whoever goes on begins at the last transaction that was committed. Offsets are said with the group's
generation; the broker refuses them from a process whose partitions others have taken over meanwhile, and
so all of its transaction. Every transaction says the offsets of all its sources, ticks too.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.errors import CommitFailedError, KafkaError, UnsupportedCodecError
from kafka.structs import TopicPartition

from ...schemas.otlp.signal import Signal
from ...schemas.settings import SessionSettings
from ...schemas.time import NS
from ..error import PROCESS_ERRORS, StreamError
from ..ingest.limits import ReceiverLimits
from ..messages.topics import Topic
from ..messages.unjoined import Unjoined
from ..process.faultpoints import RekeyFault, fault_point
from ..process.kafka_metrics import TransactionOutcome
from ..process.rekey_metrics import RekeyMetrics
from ..process.unread import UnreadNotice
from ..stages.rekey import Input, Record, Rekeyer, Transaction
from .assignment import not_taken
from .compacted import read_compacted
from .consumer import Reader
from .settings import KafkaSettings
from .topics import Patience, ask_at_start, look, require
from .transactions import FENCED, Sent, Transactions

PROCESS = "rekey"
RECORD_BYTES_MAX = ReceiverLimits().unpacked_bytes_max
"""Bytes of a record beyond which it is not read: the limit of a request to `tracline serve`."""
TICK_S_MIN = 0.05
RETRY_S = 1.0
"""How long to wait before what Kafka did not do is tried again."""
AHEAD_NS = 10_000_000_000
"""How far one input of a source may be read ahead of the other, by the times of their records."""
UNJOINED_SAID_S = 60.0
"""How often it is said at most that log records found no span."""
REFUSALS_MAX = 3
"""How often in a row Kafka may refuse something for a reason that waiting does not mend."""

SENDS = (Topic.EVENTS, Topic.REKEY_STATE, Topic.DEAD_LETTER)
"""The topics it writes."""
LETTERS = ("internal", "size", "empty")
"""The codes of the rekeyer's dead letters beside those of span data."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the process needs of the world: the time (ns since the epoch), where to say how it goes, metrics.

    `instance` names the process: its successor of that name need not wait for a transaction it left open.
    `timeout_s` is how long it may be silent before others take its partitions over, and how long one of its
    transactions may take. It ends when `stopping` is set.
    """

    instance: str
    timeout_s: float
    metrics: RekeyMetrics
    say: Callable[[str], None]
    stopping: threading.Event
    now: Callable[[], int] = time.time_ns
    clock: Callable[[], float] = time.monotonic


class Rekeying:
    """The process; `run` works until it is to stop."""

    def __init__(
        self, kafka: KafkaSettings, rekeyer: Rekeyer, around: Surroundings, *, reads_logs: bool = False
    ) -> None:
        """`rekeyer` has no source yet, and is of topics as they are; `reads_logs`: so is that of logs."""
        self._kafka, self._rekeyer, self._around = kafka, rekeyer, around
        self._names = {topic: kafka.topic(topic) for topic in Topic}
        self._reads = (Topic.SPANS, Topic.LOGS) if reads_logs else (Topic.SPANS,)
        self._topics = {self._names[topic]: topic for topic in self._reads}
        self._tick_s = max(rekeyer.settings.tick_s, TICK_S_MIN)
        self._transactions = Transactions(kafka, PROCESS, around.instance, around.timeout_s)
        self._reader: Reader | None = None
        self._settled: int | None = None
        self._next: dict[Input, int] = {}
        self._heard: dict[Input, float] = {}
        self._read_up_to: dict[Input, int] = {}
        self._without_span = 0
        self._said_without_span = -UNJOINED_SAID_S
        self._ticked = around.clock()
        self._refusals = 0
        self._is_away = False
        self._said: int | None = None
        self._notice = UnreadNotice(around.say)

    @property
    def is_ready(self) -> bool:
        """Return whether it goes on with all the partitions that it has (it may have none)."""
        return self._settled is not None and self._reader is not None and self._is_settled(self._reader)

    def run(self) -> None:
        """Work until told to stop; then leave the group.

        Raises StreamError: TRL731, TRL732, TRL735 (state and topics that do not fit), TRL733 (another process
        has its name), TRL734 (Kafka refuses what it does).
        """
        try:
            while not self._around.stopping.is_set():
                try:
                    self._turn()
                except KafkaError as error:
                    self._wait_for_kafka(error)
        finally:
            self._transactions.discard()
            if self._reader is not None:
                self._reader.close()

    def _turn(self) -> None:
        """Read what there is, up to a transaction's worth, and carry it on; tick where it is time."""
        around = self._around
        if self._reader is None:
            beside = self._names[Topic.LOGS] if Topic.LOGS in self._reads else None
            spans = self._names[Topic.SPANS]
            self._reader = Reader(self._kafka, PROCESS, spans, around.timeout_s, beside)
        reader = self._reader
        if not self._transactions.is_open:
            self._transactions.open()
        # Before it has joined the group there is nothing to tick for, and it must not ask all the time.
        until = self._ticked + self._tick_s if self._is_settled(reader) else around.clock() + RETRY_S
        records = reader.gather(around.clock, until)
        # First who we are, then whether that is still so: whoever is moved later is refused by the broker.
        member = reader.member()
        if member is None or not self._is_settled(reader):
            self._settle(reader)
            return
        reader.check_again(around.clock(), self._places(self._next))
        if records:
            self._carry(reader, records, member)
        if self._is_settled(reader):
            self._pace(reader)
        if self._is_settled(reader) and around.clock() - self._ticked >= self._tick_s:
            self._tick(reader, member)

    def _is_settled(self, reader: Reader) -> bool:
        """Return whether the state is that of the partitions that the group has given last."""
        return 0 < reader.moves.count == self._settled

    def _settle(self, reader: Reader) -> None:
        """Go on with the partitions that are ours now, from what was last committed of each."""
        self._settled = None
        self._next.clear()
        for number in self._rekeyer.assigned:
            self._rekeyer.revoke(number)
        count, owned = reader.moves.count, reader.moves.owned
        self._count_partitions(reader)
        inputs = [Input(topic, number) for topic in self._reads for number in sorted(owned)]
        committed = {one: self._committed(reader, one) for one in inputs}
        stored = self._stored(reader, owned, count)
        if stored is None or count != reader.moves.count:
            return
        for number in sorted(owned):
            self._rekeyer.assign(number, stored[number])
        reader.follow([self._place(one) for one in inputs if one.topic is not Topic.SPANS])
        begin = {one: self._begin(reader, one, offset) for one, offset in committed.items()}
        for one, offset in begin.items():
            if not reader.seek(self._place(one), offset):
                return
            self._heard[one] = self._around.clock()
        self._next, self._read_up_to = begin, {}
        self._expect_logs(self._behind(reader))
        self._settled = count
        if owned and count != self._said:
            self._around.say(f"goes on with partitions {', '.join(map(str, sorted(owned)))}")
            self._said = count
        if not owned:
            self._around.metrics.clear()

    def _place(self, one: Input) -> TopicPartition:
        """Return an input as Kafka's client calls it."""
        return TopicPartition(self._names[one.topic], one.partition)

    def _places(self, offsets: Mapping[Input, int]) -> dict[TopicPartition, int]:
        """Return offsets by what Kafka's client calls their partitions."""
        return {self._place(one): offset for one, offset in offsets.items()}

    def _committed(self, reader: Reader, one: Input) -> int | None:
        """Return the offset to go on from in an input, None where nothing was committed."""
        offset, deleted = reader.committed(self._place(one))
        self._tell_deleted(one, deleted)
        return offset

    def _begin(self, reader: Reader, one: Input, committed: int | None) -> int:
        """Return where to go on reading an input.

        Log records that are read for the first time begin where their spans may still be waited for.
        """
        if committed is not None:
            return committed
        time = self._rekeyer.record_time(one.partition)
        if one.topic is Topic.SPANS or not time:
            return reader.first(self._place(one))
        hold = round(self._rekeyer.settings.hold_s * NS)
        return reader.first_since(self._place(one), max(0, time - hold) // 1_000_000)

    def _behind(self, reader: Reader) -> dict[Input, int]:
        """Return how many records of each input are not read."""
        left = reader.behind(map(self._place, self._next))
        return {one: left[self._place(one)] for one in self._next}

    def _expect_logs(self, left: Mapping[Input, int]) -> None:
        """Let sources whose log records are not read wait for them."""
        for one, count in left.items():
            if one.topic is Topic.LOGS and count:
                self._rekeyer.expect_logs(one.partition)

    def _pace(self, reader: Reader) -> None:
        """Let an input wait that was read far ahead of the other one of its source."""
        if len(self._reads) == 1:
            return
        for one in self._next:
            other = Input(Topic.LOGS if one.topic is Topic.SPANS else Topic.SPANS, one.partition)
            ahead = self._read_up_to.get(one, 0) - self._read_up_to.get(other, 0)
            is_ahead = ahead > AHEAD_NS and reader.has_unread(self._place(other))
            reader.pause(self._place(one), is_paused=is_ahead)

    def _tell_deleted(self, one: Input, count: int) -> None:
        """Say that records are lost, if there are any."""
        if count:
            name = self._names[one.topic]
            text = f"{name}, partition {one.partition}: Kafka has deleted {count} records that were not read"
            self._around.say(f"{text}; let it keep them for longer")
            self._around.metrics.kafka.deleted(name, count)

    def _stored(
        self, reader: Reader, owned: frozenset[int], count: int
    ) -> dict[int, dict[str, bytes]] | None:
        """The state of sources; None where they are not ours any more, or the process is to stop.

        It is read after their offsets, which are stable: all that belongs to them is in the topic by then.
        """
        if not owned:
            return {}

        def going_on() -> bool:
            return reader.moves.count == count and not self._around.stopping.is_set()

        return read_compacted(self._kafka, PROCESS, self._names[Topic.REKEY_STATE], owned, going_on)

    def _count_partitions(self, reader: Reader) -> None:
        """Raise StreamError (TRL732) where partitions were added."""
        spans, events = self._names[Topic.SPANS], self._names[Topic.EVENTS]
        found = (reader.partitions(spans), self._transactions.partitions(events))
        if found != self._rekeyer.counts:
            before = self._rekeyer.counts
            what = (
                f"{spans} had {before[0]} partitions and {events} {before[1]}, "
                f"and they have {found[0]} and {found[1]}"
            )
            hint = "sessions would change their partition: begin with new topics and a new state"
            raise StreamError("TRL732", what, hint)
        logs = self._names[Topic.LOGS]
        if Topic.LOGS in self._reads and (count := reader.partitions(logs)) != found[0]:
            what = f"{spans} has {found[0]} partitions and {logs} {count}"
            hint = f"delete {logs} and make it again with: tracline stream topics --create"
            raise StreamError("TRL732", what, hint)

    def _carry(self, reader: Reader, records: Sequence[Any], member: Any) -> None:
        """Take records in and commit what comes of them; one by one where one of them is poison."""
        fault_point(RekeyFault.RECEIVED)
        for one, record in {self._input(record): record for record in reversed(records)}.items():
            self._tell_deleted(one, reader.deleted(self._place(one), self._next[one], record.offset))
        # A fetch may come from before a seek: what was read is the same topic's, and is not read twice.
        records = [record for record in records if record.offset >= self._next[self._input(record)]]
        if not records:
            return
        try:
            done = self._taken(records)
        except Exception as error:
            if isinstance(error, PROCESS_ERRORS):
                raise
            self._settle(reader)
            for record in records:
                if not self._is_settled(reader):
                    return
                self._carry_alone(reader, record, member)
            # The consumer stands where it stood when they were gathered.
            self._settled = None
            return
        self._commit(done, member, records)

    def _carry_alone(self, reader: Reader, record: Any, member: Any) -> None:
        """Take one record in, or put it aside where it cannot be."""
        try:
            done = self._taken([record])
        except Exception as error:
            if isinstance(error, PROCESS_ERRORS):
                raise
            # What broke it has spoiled the state of its source.
            self._settle(reader)
            if not self._is_settled(reader):
                return
            done = self._rekeyer.refuse(self._record(record), type(error).__name__)
        self._commit(done, member, [record])

    def _taken(self, records: Sequence[Any]) -> Transaction:
        """Return what comes of records; those that cannot be span data are put aside."""
        usable = [self._record(record) for record in records if _refusal(record) is None]
        done = self._rekeyer.take(usable)
        for record in records:
            if (refusal := _refusal(record)) is not None:
                done.add(self._rekeyer.refuse(self._record(record), refusal[1], code=refusal[0]))
        heard = self._around.clock()
        for record in records:
            one = self._input(record)
            self._heard[one] = heard
            self._read_up_to[one] = max(self._record(record).time, self._read_up_to.get(one, 0))
        return done

    def _input(self, record: Any) -> Input:
        """Return the input that a record was read from."""
        return Input(self._topics[record.topic], record.partition)

    def _record(self, record: Any) -> Record:
        """A record as the rekeyer takes it; one without a timestamp comes now."""
        time = record.timestamp * 1_000_000 if record.timestamp >= 0 else self._around.now()
        topic = self._topics[record.topic]
        return Record(record.partition, record.offset, time, record.value or b"", topic)

    def _tick(self, reader: Reader, member: Any) -> None:
        """Tell every events partition how late it is; quiet sources, read to their end, go by the clock."""
        now = self._ticked = self._around.clock()
        self._count_partitions(reader)
        if not self._rekeyer.assigned:
            return
        # The client's own memory of the ends says nothing while the broker is away.
        left = self._behind(reader)
        self._expect_logs(left)
        idle = [one for one in left if not left[one] and now - self._heard[one] >= self._tick_s]
        self._commit(self._rekeyer.tick(idle, self._around.now()), member, ())
        if all(one in idle for one in left):
            self._notice.idle()
        metrics = self._around.metrics
        metrics.kafka.lag({(self._names[one.topic], one.partition): count for one, count in left.items()})
        metrics.progress.watermark(min(self._rekeyer.watermarks().values()))
        metrics.spans.waiting.set(self._rekeyer.waiting())
        metrics.spans.log_records_waiting.set(self._rekeyer.waiting_records())
        metrics.traces_held.set(self._rekeyer.remembered())

    def _commit(self, done: Transaction, member: Any, records: Sequence[Any]) -> None:
        """Send it all in one transaction, which a KafkaError has ended."""
        fault_point(RekeyFault.TAKEN)
        offsets = {**self._next, **done.offsets}
        try:
            self._transactions.begin()
            self._transactions.produce(self._sent(done))
            fault_point(RekeyFault.PRODUCED)
            self._transactions.offsets(self._places(offsets), member)
            fault_point(RekeyFault.OFFSETS)
            self._transactions.commit()
        except KafkaError as error:
            self._around.metrics.kafka.transaction(TransactionOutcome.ABORTED)
            raise self._transactions.abandon(error) from None
        fault_point(RekeyFault.COMMITTED)
        self._refusals = 0
        if self._is_away:
            self._around.say("Kafka answers again")
            self._is_away = False
        self._next = offsets
        self._count(done, records)

    def _sent(self, done: Transaction) -> Iterable[Sent]:
        for output in done.outputs:
            key = None if output.key is None else output.key.encode("utf-8")
            yield self._names[output.topic], output.partition, key, output.value

    def _count(self, done: Transaction, records: Sequence[Any]) -> None:
        """Tell the metrics of a transaction."""
        metrics = self._around.metrics
        for record in records:
            metrics.kafka.read(record.topic, 1, len(record.value or b""))
        sent: dict[Topic, int] = {}
        for output in done.outputs:
            sent[output.topic] = sent.get(output.topic, 0) + 1
        for topic, count in sent.items():
            metrics.kafka.sent(self._names[topic], count)
        metrics.kafka.transaction(TransactionOutcome.COMMITTED)
        metrics.spans_in.inc(done.items[Topic.SPANS])
        metrics.log_records_in.inc(done.items[Topic.LOGS])
        metrics.candidates.inc(done.candidates)
        metrics.spans.early.inc(done.early)
        metrics.spans.count_spans(done.census)
        self._notice.add(done.census)
        for signal, topic in ((Signal.SPANS, Topic.SPANS), (Signal.LOGS, Topic.LOGS)):
            metrics.spans.rejected[signal].inc(done.rejected[topic])
        metrics.spans.flaws(Counter(done.dead_letters))
        for reason, count in done.unjoined.items():
            metrics.spans.unjoined(reason, count)
        self._say_without_span(done.unjoined[Unjoined.WITHOUT_SPAN])
        for code in done.dead_letters:
            metrics.progress.dead_letter(code)

    def _say_without_span(self, count: int) -> None:
        """Say now and then that log records found no span."""
        self._without_span += count
        now = self._around.clock()
        if not self._without_span or now - self._said_without_span < UNJOINED_SAID_S:
            return
        text = f"{self._without_span} log records with content found no span on their partition to add to"
        hint = f"{self._names[Topic.LOGS]} must be partitioned by trace like {self._names[Topic.SPANS]}"
        self._around.say(f"{text}; {hint}")
        self._without_span, self._said_without_span = 0, now

    def _wait_for_kafka(self, error: KafkaError) -> None:
        """Say that something has to be done again, and give it a moment."""
        # The consumer may have passed records of which nothing has come: it goes back to what is committed.
        self._settled = None
        if refused := not_taken(error, self._kafka.group(PROCESS), self._around.timeout_s):
            raise refused from error
        if isinstance(error, UnsupportedCodecError):
            what = f"{self._names[Topic.SPANS]} is compressed in a way that is not installed here"
            hint = "let the collector compress with zstd or gzip, or install python-snappy or lz4"
            raise StreamError("TRL734", what, hint) from error
        if isinstance(error, CommitFailedError):
            self._around.say("others have taken over partitions of this process; joins them again")
            return
        if not error.retriable and not isinstance(error, FENCED):
            self._refusals += 1
            if self._refusals >= REFUSALS_MAX:
                raise _refused(error) from error
        # What will be sent when the broker is back has not come yet: nothing is quiet meanwhile.
        self._heard = dict.fromkeys(self._heard, self._around.clock())
        if not self._is_away:
            self._is_away = True
            self._around.say(f"Kafka: {type(error).__name__}; tries again until it answers")
        self._around.stopping.wait(RETRY_S)


def rekeying(
    kafka: KafkaSettings, sessions: SessionSettings, around: Surroundings, wait_s: float
) -> Rekeying | None:
    """The process over the topics as they are; None where it is to end before a broker answers.

    Raises StreamError: TRL721 to TRL724 where settings, brokers or topics are not as they must be.
    """
    patience = Patience(wait_s, around.stopping, around.say)
    found = ask_at_start(kafka, PROCESS, patience, lambda admin: look(admin, kafka))
    if found is None:
        return None
    require(found, kafka, Topic.SPANS, Topic.LOGS, *SENDS)
    counts = (found[Topic.SPANS].partitions, found[Topic.EVENTS].partitions)
    rekeyer = Rekeyer(sessions, *counts, kafka.message_bytes_max, kafka.spans_topic, kafka.logs_topic)
    if Topic.LOGS not in found:
        hint = "make it with tracline stream topics --create, and start again, where spans lack their content"
        around.say(f"reads no log records: {kafka.logs_topic} is missing; {hint}")
    return Rekeying(kafka, rekeyer, around, reads_logs=Topic.LOGS in found)


def _refusal(record: Any) -> tuple[str, str] | None:
    """Why a record cannot be span data: a code and the reason."""
    if record.value is None:
        return "empty", "has no value"
    if len(record.value) > RECORD_BYTES_MAX:
        return "size", f"is larger than {RECORD_BYTES_MAX} bytes"
    return None


def _refused(error: KafkaError) -> StreamError:
    hint = "check what this user may do, and that the topics take records as large as message_bytes_max"
    return StreamError("TRL734", f"Kafka refuses what the rekeyer does: {type(error).__name__}", hint)
