"""The archiver as a process of a consumer group: copies judged events from their topic to an archive.

The archive's manifest says where to go on, with what mark, and what was being written; the offsets of the
group are committed only so that one sees from outside how far it is. Several processes add to one folder in
turns. Each looks first whether the manifest still stands where it left it, so that one whose partition was
taken over meanwhile adds nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from kafka import KafkaProducer
from kafka.errors import IllegalStateError, KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from ...archive.chunk import ArchiveCheckpoint, Chunk, RuleTexts
from ..error import StreamError
from ..messages.codec import DeadLetter, encode_dead_letter
from ..messages.topics import Topic
from ..process.archive_metrics import ArchiveMetrics
from ..process.faultpoints import ArchiveFault, fault_point
from ..stages.archive import Gathering, Pace, resumed, too_many
from ..stages.rekey import Record
from .assignment import Moves, join, not_taken
from .settings import KafkaSettings, producing
from .topic_checks import CHECK_S, TopicChecks
from .topics import Patience, ask_at_start, look, require

PROCESS = "archive"
LETTERS = ("TRL731",)
"""The codes of the archiver's dead letters."""
RECORDS_MAX = 500
"""Messages that are read at a time."""
POLL_MS = 200
RETRY_S = 1.0
ASK_MS = 5_000
CLOSE_MS = 5_000


class Entered(Protocol):
    """What was entered into an archive's manifest: files, their bytes and rows."""

    @property
    def files(self) -> int: ...  # noqa: D102
    @property
    def bytes(self) -> int: ...  # noqa: D102
    @property
    def rows(self) -> int: ...  # noqa: D102


class Archive(Protocol):
    """An archive that several processes add to in turns."""

    def lock(self) -> AbstractContextManager[None]:
        """Wait for the lock and hold it; every other method except `checkpoint` needs it."""
        ...

    def checkpoint(self, partition: int) -> ArchiveCheckpoint | None:
        """Return how far the archive has come with a partition, None where it has nothing of it."""
        ...

    def write_rules(self, digest: str, packs: RuleTexts) -> None:
        """Write a rule set; once is enough."""

    def begin(self, chunk: Chunk) -> None:
        """Enter that files of the chunk are written next."""

    def write(self, chunk: Chunk) -> None:
        """Write the files of the chunk, but for those that were entered before."""

    def commit(self) -> Entered:
        """Enter the written files into the manifest."""
        ...

    def finish(self, chunk: Chunk) -> ArchiveCheckpoint:
        """Enter that the chunk is in the archive."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the process needs of the world: metrics, where to say how it goes, when to end, a clock.

    `timeout_s` is how long it may be silent before others take its partitions over.
    """

    metrics: ArchiveMetrics
    say: Callable[[str], None]
    stopping: threading.Event
    timeout_s: float = 45.0
    clock: Callable[[], float] = time.monotonic


class Archiving:
    """The process; `run` works until it is to stop."""

    def __init__(self, kafka: KafkaSettings, archive: Archive, around: Surroundings, pace: Pace) -> None:
        self._kafka, self._archive, self._around, self._pace = kafka, archive, around, pace
        self._topic = kafka.topic(Topic.JUDGED)
        self._moves = Moves()
        self._settled: int | None = None
        self._consumer: Any = None
        self._checks = TopicChecks(kafka, PROCESS)
        self._producer: Any = None
        self._open: dict[int, Gathering] = {}
        self._bases: dict[int, ArchiveCheckpoint | None] = {}
        self._heard = self._checked = around.clock()
        self._is_away = False

    @property
    def is_ready(self) -> bool:
        """Return whether it goes on with all the partitions that it has (it may have none)."""
        return self._settled is not None and self._settled == self._moves.count

    def run(self) -> None:
        """Work until told to stop; then archive what was gathered, and leave the group.

        Raises StreamError (TRL731, TRL751), and what the archive raises.
        """
        with self._archive.lock():
            # A folder that takes no files is told now, not when the first one is due.
            pass
        try:
            while not self._around.stopping.is_set():
                try:
                    self._turn()
                except KafkaError as error:
                    self._wait_for_kafka(error)
            with suppress(KafkaError):
                self._archive_ready()
        finally:
            self._checks.close()
            if self._producer is not None:
                self._producer.close(timeout=CLOSE_MS / 1000)
            if self._consumer is not None:
                self._consumer.close(autocommit=False, timeout_ms=CLOSE_MS)

    def _turn(self) -> None:
        """Read what there is and gather it; archive what is due, or all where nothing comes any more."""
        if self._consumer is None:
            timeout_s, size = self._around.timeout_s, self._kafka.request_bytes_max
            self._consumer = join(
                self._kafka, PROCESS, self._topic, timeout_s, self._moves, max_partition_fetch_bytes=size
            )
        polled = self._consumer.poll(POLL_MS, max_records=RECORDS_MAX)
        if not self.is_ready:
            # What was read began where the group stands, not the archive.
            self._settle()
            return
        is_due = self._around.clock() - self._checked >= CHECK_S
        if is_due or self._checks.is_recreated(self._topic, self._consumer):
            self._checked = self._around.clock()
            self._check({number: one.next for number, one in self._open.items()})
        self._is_away = False
        for place, records in polled.items():
            self._heard = self._around.clock()
            fault_point(ArchiveFault.RECEIVED)
            self._gather(place, records)
        for number in too_many(self._open):
            self._archive_one(number)
        patience_s = min((one.patience_s for one in self._open.values()), default=self._pace.every_s)
        if self._around.clock() - self._heard >= patience_s:
            # No message tells the time any more.
            self._archive_ready()
        self._count()

    def _settle(self) -> None:
        """Go on with the partitions that are ours now, where the archive stands."""
        self._settled = None
        self._open.clear()
        self._bases.clear()
        count, owned = self._moves.count, self._moves.owned
        places = [TopicPartition(self._topic, number) for number in sorted(owned)]
        if places:
            begins = self._consumer.beginning_offsets(places, timeout_ms=ASK_MS)
            known = {place.partition: self._archive.checkpoint(place.partition) for place in places}
            self._check({number: one.next for number, one in known.items() if one is not None})
            for place in places:
                if not self._begin(place, begins[place], known[place.partition]):
                    return
        if count == self._moves.count:
            self._settled = count
            self._heard = self._around.clock()
            if owned:
                self._around.say(f"goes on with partitions {', '.join(map(str, sorted(owned)))}")

    def _begin(self, place: TopicPartition, first: int, standing: ArchiveCheckpoint | None) -> bool:
        """Go on with a partition whose messages begin at `first`; false where it is not ours."""
        self._bases[place.partition] = standing
        begin = ArchiveCheckpoint(first, first) if standing is None else resumed(standing, first)
        if standing is not None and begin.next != standing.next:
            text = f"partition {place.partition}: Kafka has deleted messages {standing.next} to"
            self._around.say(f"{text} {begin.next - 1} before they were archived")
            self._around.metrics.kafka.deleted(self._topic, begin.next - standing.next)
        try:
            self._consumer.seek(place, begin.next)
        except ValueError:
            # It was revoked just now.
            return False
        self._open[place.partition] = Gathering(self._topic, place.partition, begin, self._pace)
        return True

    def _check(self, read: Mapping[int, int]) -> None:
        """Raise StreamError (TRL751) where the topic is not the one that was read up to these offsets."""
        if (loss := self._checks.find_loss(self._topic, read)) is not None:
            hint = "the archive is of the old topic: begin with a new archive folder"
            if not loss.is_recreated:
                hint = f"nothing is changed: start again once all brokers are back. Else {hint}"
            raise StreamError("TRL751", loss.what, hint)

    def _gather(self, place: TopicPartition, records: Sequence[Any]) -> None:
        """Take messages of a partition in, and archive what is due."""
        gathering = self._open[place.partition]
        if records[0].offset < gathering.next:
            # A fetch may come from before a seek: what was read is the same topic's, and is not read twice.
            self._check({place.partition: gathering.next})
            records = [record for record in records if record.offset >= gathering.next]
            if not records:
                return
        self._around.metrics.kafka.read(self._topic, len(records), sum(len(r.value or b"") for r in records))
        if records[0].offset > gathering.next and self._is_lost(place, gathering.next):
            # What was gathered is archived as it is; what follows begins behind the gap.
            if gathering.is_ready:
                self._archive_one(place.partition)
            self._settled = None
            return
        for record in records:
            repeats = gathering.repeats
            letter = gathering.take(
                Record(record.partition, record.offset, record.timestamp * 1_000_000, record.value or b"")
            )
            if letter is not None:
                self._bury(letter)
            if gathering.repeats > repeats:
                self._repeated(place.partition, gathering)
            if gathering.is_due and not self._archive_one(place.partition):
                return

    def _repeated(self, number: int, gathering: Gathering) -> None:
        """Count a message that was dropped for its mark, if the events are still those that marks are of.

        Raises StreamError (TRL751) where their topic ends before: all that is judged would be dropped.
        """
        events = self._kafka.topic(Topic.EVENTS)
        judged = {} if gathering.mark is None else {number: gathering.mark[0] + 1}
        if (loss := self._checks.find_loss(events, judged)) is not None:
            hint = f"what is judged of it would be dropped as repeats of {self._topic}: choose another prefix"
            raise StreamError("TRL751", loss.what, hint)
        self._around.metrics.repeats.inc()

    def _is_lost(self, place: TopicPartition, offset: int) -> bool:
        """Return whether a message was deleted: a marker of a transaction leaves its offset out, too."""
        return self._consumer.beginning_offsets([place], timeout_ms=ASK_MS)[place] > offset

    def _archive_ready(self) -> None:
        """Archive whatever was gathered."""
        for number, gathering in list(self._open.items()):
            if gathering.is_ready:
                self._archive_one(number)

    def _archive_one(self, number: int) -> bool:
        """Archive what was gathered of a partition; false where another process has gone on with it."""
        gathering, metrics = self._open[number], self._around.metrics
        piece = gathering.piece()
        with self._archive.lock():
            if self._archive.checkpoint(number) != self._bases[number]:
                self._settled = None
                return False
            for digest, packs in piece.activated.items():
                self._archive.write_rules(digest, packs)
            if piece.events:
                self._archive.begin(piece)
                fault_point(ArchiveFault.WRITING)
                self._archive.write(piece)
                fault_point(ArchiveFault.WRITTEN)
                entered = self._archive.commit()
                fault_point(ArchiveFault.ENTERED)
                metrics.files.inc(entered.files)
                metrics.bytes.inc(entered.bytes)
                metrics.rows.inc(entered.rows)
            standing = self._bases[number] = self._archive.finish(piece)
        gathering.archived(standing)
        self._commit(number, standing.next)
        fault_point(ArchiveFault.COMMITTED)
        return True

    def _commit(self, number: int, offset: int) -> None:
        place = TopicPartition(self._topic, number)
        # The manifest says it already: the group's offsets are for those who look from outside.
        with suppress(KafkaError):
            self._consumer.commit({place: OffsetAndMetadata(offset, "", -1)}, timeout_ms=ASK_MS)

    def _bury(self, letter: DeadLetter) -> None:
        """Put aside what is no message. Raises KafkaError where that is not acknowledged."""
        if self._producer is None:
            self._producer = KafkaProducer(**producing(self._kafka, PROCESS))
        sent = self._producer.send(self._kafka.topic(Topic.DEAD_LETTER), value=encode_dead_letter(letter))
        sent.get(timeout=ASK_MS / 1000)
        self._around.metrics.progress.dead_letter(letter.code)

    def _count(self) -> None:
        """Tell the metrics what waits, and how far the time has come in what was read."""
        behind: dict[tuple[str, int], int] = {}
        for number, gathering in self._open.items():
            with suppress(IllegalStateError):
                # It may be revoked just now.
                end = self._consumer.highwater(TopicPartition(self._topic, number))
                if end is not None:
                    behind[self._topic, number] = max(0, end - gathering.next)
        self._around.metrics.kafka.lag(behind)
        self._around.metrics.rows_waiting.set(sum(one.rows for one in self._open.values()))
        told = [one.watermark for one in self._open.values() if one.watermark is not None]
        self._around.metrics.progress.watermark(min(told, default=None))

    def _wait_for_kafka(self, error: KafkaError) -> None:
        """Say that Kafka does not do what it should, and give it a moment; then go on from the manifest."""
        if refused := not_taken(error, self._kafka.group(PROCESS), self._around.timeout_s):
            raise refused from error
        self._settled = None
        if not self._is_away:
            self._is_away = True
            self._around.say(f"Kafka: {type(error).__name__}; tries again until it answers")
        self._around.stopping.wait(RETRY_S)


def source_of(kafka: KafkaSettings, patience: Patience) -> tuple[str, str] | None:
    """The name of the topic of judged events as a source, and what identifies it: cluster and topic.

    None where the process is to end before a broker answers. Raises StreamError: TRL721 to TRL724 where
    settings, brokers or topics are not as they must be.
    """
    topic = kafka.topic(Topic.JUDGED)

    def ask(admin: Any) -> str:
        require(look(admin, kafka), kafka, Topic.JUDGED, Topic.DEAD_LETTER)
        return str(admin.describe_cluster()["cluster_id"])

    cluster = ask_at_start(kafka, PROCESS, patience, ask)
    return None if cluster is None else (f"kafka-{topic}", f"{cluster}/{topic}")
