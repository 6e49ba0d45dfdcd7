"""One seed's run of the pipeline, with its faults, and what must have come of it."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from random import Random

from tracline.archive.manifest import ManifestSource
from tracline.archive.writer import archive_writer
from tracline.rules.model.digest import rule_set_digest
from tracline.rules.packs.load import load_packs
from tracline.schemas.candidate import Candidate
from tracline.schemas.event import Event, Kind
from tracline.schemas.frames.events import event_frame
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.stream.ingest.request import Encoding
from tracline.stream.messages.codec import (
    Activation,
    CandidateBatch,
    Mark,
    decode_dead_letter,
    decode_judged,
    decode_verdicts,
    encode,
)
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.monitor import Terms
from tracline.stream.stages.rekey import Record
from tracline.stream.stages.resolve import Source

from ..serve.days import day
from ..serve.live import IDLE_S, SETTINGS, arriving, wire
from ..serve.truth import PACK, Ids, Told, ids_of
from .broker import Broker
from .parted import parted
from .processes import INPUTS, Crash, Layout, MonitorProcess, RekeyProcess

OTHER_PACK = PACK.replace("recover: violation, formula: eventually thanks", "formula: eventually thanks")
"""The same questions under other rules: `thanked` recovers, and one rule more."""
OTHER_PACK += "  - {id: no-refund, formula: always not refund}\n"
POISON = (b"\x00", b"no OTLP", b"{", b'{"resourceSpans": [{"scopeSpans": 7}]}')
DAMAGED = (b"", b"TL", b"TL\x01\xff\xff", b"garbage", b"TL\x01\x81\xa4type\xa5other")


LOGS_UNDERWAY_S = 60
"""How long before or after its span a log record may come, in seconds."""
LOGS_UNTIL_S = 110
"""How long after the end of its span it comes at the latest: less than the lateness."""
HOUR = 3_600 * NS


@dataclass
class World:
    """A run: the broker, two processes of each kind at most, and the faults that were met."""

    seed: int
    folder: Path
    is_late: bool = False
    """Whether some spans come hours after others of their time, and none a second time."""
    hits: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = Random(f"simulation {self.seed}")
        choose = self.random.choice
        self.told = day(self.seed, choose((1, 2, 3)))
        largest = _largest(self.told)
        sizes = largest, 3 * largest, 900_000
        self.layout = Layout(choose((1, 2, 3)), choose((1, 2, 4)), choose(sizes))
        self.finish = choose((True, False))
        self.activates = self.random.random() < 0.4 and not self.is_late
        self.crashes = choose((0.0, 0.003, 0.02))
        # By chances of its own: the other faults of a seed are those that it had.
        self.parting = Random(f"log records {self.seed}")
        self.parts = 0.0 if self.is_late else self.parting.choice((0.0, 0.5, 1.0))
        # Of which topics records are read most of the time: those of the other one fall behind.
        self.behind = self.parting.choice((INPUTS, INPUTS[:1], INPUTS[:1], INPUTS[1:]))
        self.packs = self._packs()
        self.broker = Broker()
        self.now = 0
        self.planted: list[tuple[Topic, int, int]] = []
        self.records: list[tuple[int, int, bytes]] = []
        self.rekeyers: dict[int, RekeyProcess] = {}
        self.monitors: dict[int, MonitorProcess] = {}
        self.source_owner = dict.fromkeys(range(self.layout.sources), 0)
        self.partition_owner = dict.fromkeys(range(self.layout.partitions), 0)
        first = load_packs([self.packs[0]])
        self.terms = Terms(
            SETTINGS,
            self.layout.partitions,
            # Small, so that states stand in pieces, and what is judged in several messages.
            self.layout.bytes_max // 8,
            finish=self.finish,
            rules=dict(first.sources),
        )

    def _packs(self) -> tuple[Path, Path]:
        files = self.folder / "desk.yaml", self.folder / "other.yaml"
        for file, text in zip(files, (PACK, OTHER_PACK), strict=True):
            file.write_text(text)
        return files

    def gap(self, name: str) -> None:
        """Between two steps of a process: it may crash here."""
        # The monitor comes to far fewer gaps.
        often = 5 if name.startswith("monitor") else 1
        if self.random.random() < self.crashes * often:
            self.hits[name] += 1
            raise Crash(name)

    def run(self) -> None:
        """Let all spans come, with faults; then let every session close, without."""
        arriving_spans = arriving(self.told, self.random, 0.0 if self.is_late else 0.1)
        apart = {
            (one.trace_id, one.span_id) for _, one in arriving_spans if self.parting.random() < self.parts
        }
        if self.is_late:
            late = [
                (time + self.random.choice((0, 0, 0, 2 * IDLE_S)) * NS, span) for time, span in arriving_spans
            ]
            arriving_spans = sorted(late, key=lambda one: one[0])
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
            self.broker.append(Topic.SPANS, source, None, wire([span], Encoding.PROTOBUF), time)
            if self.activates and place == middle:
                self._activate()
            self._maybe_poison()
            if self.random.random() < 0.15:
                self._some_turns()
            if self.random.random() < 0.02:
                self._rebalance()
            if self.random.random() < 0.02:
                self._expire()
        self.crashes = 0.0
        self._send_records(self.now + HOUR)
        for _ in range(3):
            self._drain()
            self.now += round(2 * IDLE_S + SETTINGS.hold_s) * NS
            self._tick()
        self._drain()

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
        due = sorted(one for one in self.records if one[0] <= until)
        self.records = [one for one in self.records if one[0] > until]
        for time, source, record in due:
            for _ in range(1 + (self.parting.random() < 0.1)):
                self.broker.append(Topic.LOGS, source, None, record, min(time, until))
                self.hits["log record"] += 1

    def _some_turns(self) -> None:
        """A few steps of whichever processes."""
        for _ in range(self.random.randint(1, 4)):
            if self.random.random() < 0.5:
                sources = self.random.sample(
                    range(self.layout.sources), self.random.randint(1, self.layout.sources)
                )
                most = self.random.randint(1, 20)
                topics = self.behind if self.parting.random() < 0.8 else INPUTS
                self._rekey(self.source_owner[sources[0]], sources, most, topics)
            else:
                self._monitor(self.random.randrange(self.layout.partitions))

    def _rekey(self, owner: int, sources: list[int], most: int, topics: Collection[Topic] = INPUTS) -> bool:
        try:
            return self._rekeyer(owner).turn(sources, most, topics)
        except Crash:
            self.rekeyers.pop(owner, None)
            return True

    def _monitor(self, partition: int) -> bool:
        owner = self.partition_owner[partition]
        try:
            return self._monitor_of(owner).turn(partition, commits=self.random.random() < 0.3)
        except Crash:
            self.monitors.pop(owner, None)
            return True

    def _tick(self) -> None:
        for owner in sorted(set(self.source_owner.values())):
            try:
                self._rekeyer(owner).tick(self.now)
            except Crash:
                self.rekeyers.pop(owner, None)

    def _drain(self) -> None:
        """Let everything that can be read be worked off."""
        going_on = True
        while going_on:
            going_on = self._expire()
            for owner in sorted(set(self.source_owner.values())):
                going_on |= self._rekey(owner, list(range(self.layout.sources)), 50)
            for partition in range(self.layout.partitions):
                while self._monitor(partition):
                    going_on = True

    def _expire(self) -> bool:
        """Let the transactions that dead processes left open time out; whether there were any."""
        expired = self.broker.expire([process.name for process in self.rekeyers.values()])
        self.hits["expired"] += expired
        return expired > 0

    def _rekeyer(self, owner: int) -> RekeyProcess:
        """A process, begun where there is none."""
        if owner not in self.rekeyers:
            process = RekeyProcess(f"rekey-{owner}", self.broker, SETTINGS, self.layout, self.gap)
            process.assign(one for one, by in self.source_owner.items() if by == owner)
            self.rekeyers[owner] = process
        return self.rekeyers[owner]

    def _monitor_of(self, owner: int) -> MonitorProcess:
        if owner not in self.monitors:
            process = MonitorProcess(self.broker, self.terms, self.gap)
            process.assign(one for one, by in self.partition_owner.items() if by == owner)
            self.monitors[owner] = process
        return self.monitors[owner]

    def _rebalance(self) -> None:
        """A source and a partition go to another process; sometimes the old one does not know yet."""
        source = self.random.randrange(self.layout.sources)
        old, new = self.source_owner[source], 1 - self.source_owner[source]
        self.source_owner[source] = new
        self.broker.generation[source] += 1
        zombie = self.rekeyers.get(old)
        if zombie is not None and self.random.random() < 0.5:
            self.hits["zombie"] += 1
            try:
                zombie.turn([source], 5)
            except Crash as crash:
                self.hits["fenced"] += str(crash) == "fenced"
                del self.rekeyers[old]
        if old in self.rekeyers:
            self.rekeyers[old].revoke([source])
        if new in self.rekeyers:
            self.rekeyers[new].assign([source])
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
            offset = self.broker.append(Topic.SPANS, source, None, self.random.choice(POISON), self.now)
            self.planted.append((Topic.SPANS, source, offset))
        if self.parting.random() < 0.01:
            source = self.parting.randrange(self.layout.sources)
            offset = self.broker.append(Topic.LOGS, source, None, self.parting.choice(POISON), self.now)
            self.planted.append((Topic.LOGS, source, offset))
        if self.random.random() < 0.01:
            partition = self.random.randrange(self.layout.partitions)
            offset = self.broker.append(Topic.EVENTS, partition, None, self.random.choice(DAMAGED), self.now)
            self.planted.append((Topic.EVENTS, partition, offset))

    def _activate(self) -> None:
        """Put the other rule set in force, in every partition."""
        data = encode(Activation(dict(load_packs([self.packs[1]]).sources)))
        for partition in range(self.layout.partitions):
            self.broker.append(Topic.EVENTS, partition, None, data, self.now)
        self.hits["activation"] += 1

    # What came of it, as a consumer that drops what it has seen reads it.

    def _read(self, topic: Topic) -> Iterator[Record]:
        for partition in range(self.layout.partitions):
            yield from self.broker.read(topic, partition, 0, 1 << 60)[0]

    def verdicts(self) -> dict[str, dict]:
        """The verdict records by id."""
        seen: dict[int, Mark] = {}
        found: dict[str, dict] = {}
        for record in self._read(Topic.VERDICTS):
            message = decode_verdicts(record.value)
            mark = Mark(message["partition"], message["offset"], message["index"])
            if mark.partition in seen and mark <= seen[mark.partition]:
                self.hits["dropped"] += 1
                continue
            seen[mark.partition] = mark
            for verdict in message["verdicts"]:
                assert verdict["id"] not in found, "a verdict came twice above the mark"
                found[verdict["id"]] = verdict
        return found

    def judged(self) -> list[tuple[Event, str]]:
        """Events and `end` rows with the rule set that judged them, in order; watermarks never go back."""
        seen: dict[int, Mark] = {}
        watermarks: dict[int, int] = {}
        found: list[tuple[Event, str]] = []
        for record in self._read(Topic.JUDGED):
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

    def archive(self, judged: list[tuple[Event, str]]) -> Path:
        """An archive of what was judged."""
        root = self.folder / "archive"
        with archive_writer(root) as writer:
            writer.write(
                event_frame([event for event, _ in judged]), ManifestSource("judged", "0" * 64), (0, 0)
            )
        return root

    def letters(self) -> set[tuple[Topic, int, int]]:
        """Return where what could not be read stands, by the dead letters."""
        topics = {"otlp_spans": Topic.SPANS, "otlp_logs": Topic.LOGS, "tracline.events": Topic.EVENTS}
        found: set[tuple[Topic, int, int]] = set()
        for partition in range(2):
            for record in self.broker.read(Topic.DEAD_LETTER, partition, 0, 1 << 60)[0]:
                letter = decode_dead_letter(record.value)
                if letter.code != "size":
                    found.add((topics[letter.topic], letter.partition, letter.offset))
        return found

    def truth(self, judged: list[tuple[Event, str]]) -> Ids:
        """Return what the generator's events must give, under the rule sets that were in force when."""
        digests = {rule_set_digest(load_packs([pack])): pack for pack in self.packs}
        by_place = {
            (e.session_id, e.occurrence, e.seq): digest for e, digest in judged if e.kind is not Kind.END
        }
        found: Ids = {}
        for one in self.told:
            found |= _expected(one, by_place, digests)
        return found


def _largest(told: list[Told]) -> int:
    """The bytes of the largest candidate: a message must have room for it."""
    source = Source(SETTINGS)
    for one in told:
        source.hear(Decoded(tuple(one.spans)), one.spans[-1].end)
    source.idle(source.record_time + round(SETTINGS.hold_s) * NS)
    released = [one.made for one in source.release(source.record_time)]
    candidates = [one for one in released if isinstance(one, Candidate)]
    return max(len(encode(CandidateBatch(0, 1, 0, 0, [candidate]))) for candidate in candidates)


def _expected(told: Told, by_place: dict, digests: dict[str, Path]) -> Ids:
    """A conversation's verdicts: each run of events under one rule set by itself, the last one to its end."""
    found: Ids = {}
    events = told.events
    runs = [
        (digest, list(own))
        for digest, own in groupby(events, key=lambda e: by_place[e.session_id, e.occurrence, e.seq])
    ]
    for number, (digest, own) in enumerate(runs):
        found |= ids_of([own], digests[digest], closed=number == len(runs) - 1)
    return found
