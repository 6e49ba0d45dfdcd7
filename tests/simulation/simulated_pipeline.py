"""One seed's run of the pipeline, with its faults, and what must have come of it."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from random import Random

import orjson
import polars as pl
from tracline.predict.detector import DetectorSettings
from tracline.rules.model.digest import rule_set_digest
from tracline.rules.packs.load import load_packs
from tracline.schemas.event import Event, Kind
from tracline.schemas.records.dead_letter import decode_dead_letter
from tracline.schemas.records.verdict_record import encode_verdict
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.stream.alerts.alert import Alert, decode
from tracline.stream.alerts.delivery import Delivery
from tracline.stream.alerts.rates import default_rates, tolerance
from tracline.stream.group.alerts_state import new_state
from tracline.stream.group.broker_errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from tracline.stream.group.client import TopicPartition
from tracline.stream.ingest.request import Encoding
from tracline.stream.messages.codec import (
    Activation,
    Mark,
    decode_judged,
    decode_verdicts,
    encode,
)
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic
from tracline.stream.process.alert_metrics import AlertMetrics
from tracline.stream.stages.alert import AlertStage, VerdictsRecord
from tracline.stream.stages.archive import ChunkLimits
from tracline.stream.stages.monitor_step import MonitorOptions

from ..support.chains.chains_by_symbol import CHAIN, ChainsByState
from ..support.conversations.days import day
from ..support.processes.live import IDLE_S, SETTINGS, arriving, wire
from ..support.truth.conversations import PACK, Ids, PlayedSession, ids_of
from .largest_candidate import largest_candidate
from .parted import parted
from .processes import (
    KAFKA,
    NAMES,
    TIMEOUT_S,
    TOPICS,
    Crash,
    Layout,
    ObservedBroker,
    Setting,
    SimulatedMonitor,
    Slot,
    alerts_slot,
    archive_slot,
    fated_crash,
    make_topics,
    rekey_slot,
)

OTHER_PACK = PACK.replace("recover: violation, formula: eventually thanks", "formula: eventually thanks")
"""The same questions under other rules: `thanked` recovers, and one rule more."""
OTHER_PACK += "  - {id: no-refund, formula: always not refund}\n"
POISON = (b"\x00", b"no OTLP", b"{", b'{"resourceSpans": [{"scopeSpans": 7}]}')
DAMAGED = (b"", b"TL", b"TL\x01\xff\xff", b"garbage", b"TL\x01\x81\xa4type\xa5other")
LOGS_UNDERWAY_S = 60
"""The most seconds before or after its span that a log record comes."""
LOGS_UNTIL_S = 110
"""The most seconds after the end of its span that it comes: less than the lateness."""
HOUR = 3_600 * NS
INPUTS = (Topic.SPANS, Topic.LOGS)
"""The topics of which a source has a partition each."""
ROUNDS_MAX = 500
"""Turns in which everything must be worked off once nothing goes wrong any more."""
ALERTING = DetectorSettings(arl_ticks=2)
TOLERANCE = tolerance(default_rates(60, 60))
"""Low, so that there are alerts in few conversations."""


@dataclass
class SimulatedPipeline:
    """A run: the broker, two processes of each kind at most, and the faults that were met."""

    seed: int
    folder: Path
    is_late: bool = False
    """If true, some spans come hours after others of their time, and none a second time."""
    hits: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = Random(f"simulation {self.seed}")
        choose = self.random.choice
        self.played = day(self.seed, choose((1, 2, 3)))
        largest = largest_candidate(self.played)
        sizes = largest, 3 * largest, 900_000
        self.layout = Layout(choose((1, 2, 3)), choose((1, 2, 4)), choose(sizes))
        self.finish = choose((True, False))
        self.activates = self.random.random() < 0.4 and not self.is_late
        self.crashes = choose((0.0, 0.003, 0.02))
        self.troubles = choose((0.0, 0.0, 0.01))
        # By chances of its own: the other faults of a seed are those that it had.
        self.parting, self.polling = Random(f"log records {self.seed}"), Random(f"polls {self.seed}")
        self.parts = 0.0 if self.is_late else self.parting.choice((0.0, 0.5, 1.0))
        # Of which topics records are read most of the time: those of the other one fall behind.
        self.behind = self.parting.choice((INPUTS, INPUTS[:1], INPUTS[:1], INPUTS[1:]))
        self.packs = self._packs()
        self.fated = fated_crash(self.seed)
        self.now, self.time, self.depth = 0, 0.0, 0
        self.limits: dict[str, int] = {}
        self.broker = ObservedBroker(lambda: self.time, self._request)
        self.broker.fetch_limit = lambda place: self.limits.get(place.topic, 1 << 30)
        make_topics(self.broker, self.layout)
        self.setting = Setting(
            self.broker, self.layout, lambda: self.time, lambda: self.now, self.gap, self.hits
        )
        self.broker.order = self.setting.order
        self.planted: list[tuple[Topic, int, int]] = []
        self.records: list[tuple[int, int, bytes]] = []
        limits = ChunkLimits(rows=choose((5, 50)), every_s=choose((5.0, 60.0)))
        self.archive = self.folder / "archive"
        self.rekeyers = [rekey_slot(f"rekey-{number}", self.setting, SETTINGS) for number in range(2)]
        self.archivers = [
            archive_slot(f"archive-{number}", self.setting, self.archive, limits) for number in range(2)
        ]
        self.alerters = [
            alerts_slot(f"alerts-{number}", self.setting, TOLERANCE, ALERTING, self._delivery)
            for number in range(2)
        ]
        self.monitors: dict[int, SimulatedMonitor] = {}
        self.judged_up_to: dict[int, int] = {}
        self.partition_owner = dict.fromkeys(range(self.layout.partitions), 0)
        first = load_packs([self.packs[0]])
        self.options = MonitorOptions(
            SETTINGS,
            self.layout.partitions,
            # Small, so that states stand in pieces, and what is judged in several messages.
            self.layout.bytes_max // 8,
            finish=self.finish,
            rules=dict(first.sources),
            chain=CHAIN,
        )
        self.chains = ChainsByState()

    def _packs(self) -> tuple[Path, Path]:
        files = self.folder / "desk.yaml", self.folder / "other.yaml"
        for file, text in zip(files, (PACK, OTHER_PACK), strict=True):
            file.write_text(text)
        return files

    def _delivery(self, metrics: AlertMetrics) -> Delivery:
        return Delivery((), metrics, jitter=self.parting.random, report=lambda _: None)

    def gap(self, slot: str, place: str) -> None:
        """Between two steps of a process: it may crash here, or sleep while others go on."""
        # The others come to far fewer gaps.
        others = 5 if place.endswith("received") else 40
        often = {"rekey": 1, "monitor": 5}.get(slot.partition("-")[0], others)
        if place == self.fated or self.random.random() < min(0.3, self.crashes * often):
            self.fated, self.hits[place] = None if place == self.fated else self.fated, self.hits[place] + 1
            raise Crash(place)
        if slot.startswith("rekey") and not self.depth and self.random.random() < self.crashes / 2:
            self._sleep(slot)

    def _sleep(self, slot: str) -> None:
        """Let a process sleep for longer than its timeouts, while the others take its partitions over."""
        self.hits["zombie"] += 1
        self.depth += 1
        for _ in range(4):
            self.time += TIMEOUT_S / 3
            for rekeyer in self.rekeyers:
                if rekeyer.name != slot:
                    rekeyer.turn()
        self.depth -= 1

    def _request(self, client: str, kind: str) -> None:
        """Before a request: the process may crash here, or the broker not do what it should."""
        if kind == "produce":
            self.gap(client.partition("#")[0], "between records")
        if self.random.random() < self.troubles:
            raise self.random.choice((KafkaConnectionError, KafkaTimeoutError, KafkaError))(kind)

    def run(self) -> None:
        """Let all spans come, with faults; then let every session close, without."""
        arriving_spans = arriving(self.played, self.random, 0.0 if self.is_late else 0.1)
        apart = {
            (arriving_span.trace_id, arriving_span.span_id)
            for _, arriving_span in arriving_spans
            if self.parting.random() < self.parts
        }
        if self.is_late:
            late = [
                (time + self.random.choice((0, 0, 0, 2 * IDLE_S)) * NS, span) for time, span in arriving_spans
            ]
            arriving_spans = sorted(late, key=lambda arriving_span: arriving_span[0])
        middle = len(arriving_spans) // 2
        for place, (time, span) in enumerate(arriving_spans):
            while self.now and time - self.now > 20 * NS and self.random.random() < 0.5:
                self.now = self.random.randrange(self.now, time)
                self._send_records(self.now)
                self._some_turns()
                self._tick()
            self.now = max(time, self.now)
            self._send_records(self.now)
            source = zlib.crc32(span.trace_id.encode()) % self.layout.sources
            if (span.trace_id, span.span_id) in apart:
                span = self._part(span, source, time)
            self._append(Topic.SPANS, source, wire([span], Encoding.PROTOBUF), time)
            if self.activates and place == middle:
                self._activate()
            self._maybe_poison()
            if self.random.random() < 0.15:
                self._some_turns()
            if self.random.random() < 0.02:
                self._rebalance()
            if self.random.random() < 0.02:
                self._expire()
        self.crashes, self.troubles, self.fated = 0.0, 0.0, None
        self._send_records(self.now + HOUR)
        for _ in range(3):
            self._drain()
            self.now += round(2 * IDLE_S + SETTINGS.hold_s) * NS
            self._tick()
        self._drain()
        for slot in self.archivers:
            slot.stop()

    def _part(self, span: Span, source: int, time: int) -> Span:
        """Send a span's messages as a log record, some time before or after it; the span without them."""
        bare, record = parted(span)
        if record is not None:
            ended = max(span.start, span.end)
            comes = max(ended, time + self.parting.randint(-LOGS_UNDERWAY_S, LOGS_UNDERWAY_S) * NS)
            comes = min(comes, ended + LOGS_UNTIL_S * NS)
            self.records.append((comes, source, record))
            if comes <= time:
                self._send_records(time)
        return bare

    def _send_records(self, until: int) -> None:
        """Send the log records that are due."""
        due = sorted(timed for timed in self.records if timed[0] <= until)
        self.records = [timed for timed in self.records if timed[0] > until]
        for time, source, record in due:
            for _ in range(1 + (self.parting.random() < 0.1)):
                self._append(Topic.LOGS, source, record, min(time, until))
                self.hits["log record"] += 1

    def _append(self, topic: Topic, partition: int, value: bytes, time: int) -> int:
        """Send a record, and return its offset."""
        return self.broker.append(NAMES[topic], partition, None, value, time // 1_000_000)

    def _some_turns(self) -> None:
        """A few steps of whichever processes."""
        for _ in range(self.random.randint(1, 4)):
            chance = self.random.random()
            if chance < 0.5:
                topics = self.behind if self.parting.random() < 0.8 else INPUTS
                most = self.random.randint(1, 20)
                self.limits = {NAMES[topic]: most if topic in topics else 0 for topic in INPUTS}
                self._turn(self.random.choice(self.rekeyers))
                self.limits = {}
            elif chance < 0.7:
                self._turn(self.random.choice(self.archivers))
                self._turn(self.random.choice(self.alerters))
            else:
                self._monitor(self.random.randrange(self.layout.partitions))

    def _turn(self, slot: Slot) -> None:
        self.time += 0.2
        slot.turn()

    def _monitor(self, partition: int) -> bool:
        owner, choose = self.partition_owner[partition], self.polling.choice
        counts = {n: choose((1, 1, 2, 5, 20)) for n, by in self.partition_owner.items() if by == owner}
        polled = choose(({partition: counts[partition]}, counts))
        try:
            return self._monitor_of(owner).turn(polled, commits=self.random.random() < 0.3)
        except Crash:
            self.monitors.pop(owner, None)
            return True

    def _tick(self) -> None:
        """Let a tick be due at every rekeyer."""
        for _ in range(2):
            self.time += 1.1 * SETTINGS.tick_s
            for slot in self.rekeyers:
                slot.turn()

    def _drain(self) -> None:
        """Let everything that can be read be worked off."""
        self._until("the rekeyers", self.rekeyers, (Topic.SPANS, Topic.LOGS), "rekey")
        for partition in range(self.layout.partitions):
            while self._monitor(partition):
                pass
        self._until("the alerts", self.alerters, (Topic.VERDICTS,), "alerts")
        for slot in self.archivers:
            self._turn(slot)

    def _until(self, what: str, slots: list[Slot], topics: Collection[Topic], process: str) -> None:
        """Have slots work until their group has committed all of these topics."""
        for _ in range(ROUNDS_MAX):
            for slot in slots:
                self._turn(slot)
            self._expire()
            if all(slot.is_ready for slot in slots) and self._is_read(topics, process):
                return
        raise AssertionError(f"{what} do not come to the end: {[slot.lines[-3:] for slot in slots]}")

    def _is_read(self, topics: Collection[Topic], process: str) -> bool:
        group = KAFKA.group(process)
        places = [
            TopicPartition(NAMES[topic], number)
            for topic in topics
            for number in range(self.broker.partitions(NAMES[topic]))
        ]
        return all((self.broker.committed(group, place) or 0) >= self.broker.end(place) for place in places)

    def _expire(self) -> None:
        """Let the memberships and transactions of dead processes time out, but no others."""
        for _ in range(2):
            self.time += TIMEOUT_S * 0.6
            for slot in (*self.rekeyers, *self.archivers, *self.alerters):
                if slot.running is not None:
                    slot.turn()

    def _monitor_of(self, owner: int) -> SimulatedMonitor:
        if owner not in self.monitors:
            process = SimulatedMonitor(self.setting, self.options, self.judged_up_to, self.chains)
            process.assign(partition for partition, by in self.partition_owner.items() if by == owner)
            self.monitors[owner] = process
        return self.monitors[owner]

    def _rebalance(self) -> None:
        """A rekeyer stops or starts, and a partition of events goes to another process."""
        slot = self.random.choice(self.rekeyers)
        if slot.running is None:
            slot.turn()
        else:
            slot.stop()
        partition = self.random.randrange(self.layout.partitions)
        old, new = self.partition_owner[partition], 1 - self.partition_owner[partition]
        self.partition_owner[partition] = new
        if old in self.monitors:
            self.monitors[old].revoke([partition])
        if new in self.monitors:
            self.monitors[new].assign([partition])
        self.hits["rebalance"] += 1

    def _maybe_poison(self) -> None:
        """Records that nobody can read, among the spans and among the events."""
        if self.random.random() < 0.01:
            source = self.random.randrange(self.layout.sources)
            offset = self._append(Topic.SPANS, source, self.random.choice(POISON), self.now)
            self.planted.append((Topic.SPANS, source, offset))
        if self.parting.random() < 0.01:
            source = self.parting.randrange(self.layout.sources)
            offset = self._append(Topic.LOGS, source, self.parting.choice(POISON), self.now)
            self.planted.append((Topic.LOGS, source, offset))
        if self.random.random() < 0.01:
            partition = self.random.randrange(self.layout.partitions)
            offset = self._append(Topic.EVENTS, partition, self.random.choice(DAMAGED), self.now)
            self.planted.append((Topic.EVENTS, partition, offset))

    def _activate(self) -> None:
        """Put the other rule set in force, in every partition."""
        data = encode(Activation(dict(load_packs([self.packs[1]]).sources), chain=CHAIN))
        for partition in range(self.layout.partitions):
            self._append(Topic.EVENTS, partition, data, self.now)
        self.hits["activation"] += 1

    # What came of it, as a consumer that drops what it has seen reads it.

    def read(self, topic: Topic) -> Iterator[Record]:
        """The records of a topic, partition by partition."""
        for partition in range(self.broker.partitions(NAMES[topic])):
            for record in self.broker.read(TopicPartition(NAMES[topic], partition), 0, 1 << 30)[0]:
                yield Record(
                    partition, record.offset, record.timestamp * 1_000_000, record.value or b"", topic
                )

    def verdicts(self) -> dict[str, dict]:
        """The verdict records by id."""
        seen: dict[int, Mark] = {}
        found: dict[str, dict] = {}
        for record in self.read(Topic.VERDICTS):
            message = decode_verdicts(record.value)
            if message.mark <= seen.get(message.mark.partition, Mark(-1, -1, -1)):
                self.hits["dropped"] += 1
                continue
            seen[message.mark.partition] = message.mark
            for verdict in message.verdicts:
                assert verdict.id not in found, "a verdict came twice above the mark"
                found[verdict.id] = orjson.loads(encode_verdict(verdict))
        return found

    def judged(self) -> list[tuple[Event, str]]:
        """Events and `end` rows with the rule set that judged them, in order; watermarks never go back."""
        seen: dict[int, Mark] = {}
        watermarks: dict[int, int] = {}
        found: list[tuple[Event, str]] = []
        for record in self.read(Topic.JUDGED):
            message = decode_judged(record.value)
            if message.mark.partition in seen and message.mark <= seen[message.mark.partition]:
                continue
            seen[message.mark.partition] = message.mark
            if message.watermark is not None:
                assert message.watermark >= watermarks.get(record.partition, message.watermark)
                watermarks[record.partition] = message.watermark
            sets = [message.digests[number] for number in message.sets]
            found += zip(message.events, sets, strict=True)
        return found

    def archived(self) -> Counter[tuple[str, int, int, str, str]]:
        """Return the rows of the live archive: session, occurrence, place, id, and rule set."""
        rows: Counter[tuple[str, int, int, str, str]] = Counter()
        for file in sorted(self.archive.rglob("*.parquet")):
            frame = pl.read_parquet(file, hive_partitioning=False)
            names = ("session_id", "occurrence", "seq", "event_id", "rules")
            columns = [frame[name].to_physical().to_list() for name in names]
            rows.update(zip(*columns, strict=True))
        return rows

    def alerts(self) -> Counter[tuple[str, str]]:
        """Return the id and status of each alert that was committed."""
        alerts = [decode(record.value) for record in self.read(Topic.ALERTS)]
        return Counter((alert.id, alert.status) for alert in alerts)

    def expected_alerts(self) -> Counter[tuple[str, str]]:
        """Return the alerts of a stage that takes the verdicts in the order in which they were committed.

        A late status, of a tick that is over, counts in the tick in which the stage reads it: so the order of
        the partitions matters.
        """
        committed = self.setting.order.records
        assert Counter(map(_place, committed)) == Counter(map(_place, self.read(Topic.VERDICTS)))
        stage = AlertStage(TOLERANCE, ALERTING, NAMES[Topic.VERDICTS])
        outputs = stage.step(new_state(self.layout.partitions), committed).outputs
        return Counter((alert.id, alert.status) for alert in outputs if isinstance(alert, Alert))

    def letters(self) -> set[tuple[Topic, int, int]]:
        """Return where what could not be read stands, by the dead letters."""
        found: set[tuple[Topic, int, int]] = set()
        for record in self.read(Topic.DEAD_LETTER):
            letter = decode_dead_letter(record.value)
            if letter.code != "size":
                found.add((TOPICS[letter.topic], letter.partition, letter.offset))
        return found

    def truth(self, judged: list[tuple[Event, str]]) -> Ids:
        """Return what the generator's events must give, under the rule sets that were in force when."""
        digests = {rule_set_digest(load_packs([pack])): pack for pack in self.packs}
        by_place = {
            (e.session_id, e.occurrence, e.seq): digest for e, digest in judged if e.kind is not Kind.END
        }
        found: Ids = {}
        for session_played in self.played:
            found |= _expected(session_played, by_place, digests)
        return found


def _place(record: Record | VerdictsRecord) -> tuple[int, int]:
    return record.partition, record.offset


def _expected(played: PlayedSession, by_place: dict, digests: dict[str, Path]) -> Ids:
    """A conversation's verdicts: each run of events under one rule set by itself, the last one to its end."""
    found: Ids = {}
    events = played.events
    runs = [
        (digest, list(run_events))
        for digest, run_events in groupby(events, key=lambda e: by_place[e.session_id, e.occurrence, e.seq])
    ]
    for number, (digest, run_events) in enumerate(runs):
        found |= ids_of([run_events], digests[digest], closed=number == len(runs) - 1)
    return found
