"""The whole pipeline as a user starts it, fed with conversations and with what nobody can read.

What must come of it is the truth of the conversations. Their spans come one by one, up to a minute after
they ended and so in another order, and a tenth of them a second time.
"""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import msgspec
import orjson
import polars as pl
from confluent_kafka import Producer
from tracline.archive.gaps import gaps
from tracline.archive.manifest import read_manifest
from tracline.schemas.records.risk_crossing import encode_crossing
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.stream.ingest.request import Encoding
from tracline.stream.kafka.properties import producing
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.codec import Activation, Mark, encode, partition_of
from tracline.stream.messages.record import Record
from tracline.stream.messages.risk_messages import decode_risk
from tracline.stream.messages.topics import Topic

from ..support.brokers.reading import read
from ..support.chains.conversation_chain import ABOVE
from ..support.conversations.days import day
from ..support.conversations.keyed import PARTITIONS, SOURCES, source_of
from ..support.conversations.scripts import START_NS
from ..support.evidence.bundle_lines import bundle_lines
from ..support.processes import live
from ..support.processes.live import arriving, places_of, wire
from ..support.processes.serving import audit_of
from ..support.processes.stage import DYING_S, TIMEOUT_S, Stage, running
from ..support.truth.conversations import Ids, Place, PlayedSession, true_ids
from ..support.truth.judging import MonitorOutput

SETTINGS = replace(live.SETTINGS, tick_s=3_600)
"""The time goes by spans alone: a tick is longer than any test."""
SESSIONS = {
    f"TRACLINE_SESSIONS_{name.upper()}": str(getattr(SETTINGS, name))
    for name in ("lateness_s", "hold_s", "idle_s", "tick_s", "skew_s")
}
IDLE_S = SETTINGS.idle_s
END_NS = START_NS + 24 * 3_600 * NS
"""When the time has passed every conversation."""
WAIT_S = 240.0
"""The time that all kills may take, and then the processes that live on."""
CLOSING = "closing"
"""The session ids of spans that only carry the time."""
SECRET = b"a secret"
Value = bytes | None


def poisoned_spans(whole: bytes) -> dict[str, Value]:
    """Records that are no spans, by kind; `whole` is one that is."""
    no_ids = wire([msgspec.structs.replace(_span(CLOSING, END_NS), trace_id="00" * 16)], Encoding.PROTOBUF)
    return {
        "no value": None,
        "text": SECRET,
        "bytes of no protobuf": b"\xff\xff" + SECRET,
        "protobuf that is cut off": whole[:-1],
        "protobuf in gzip": gzip.compress(whole),
        "JSON that is cut off": b'{"resourceSpans": [{"' + SECRET,
        "JSON of something else": b'["' + SECRET + b'"]',
        "JSON with a number for a list": b'{"resourceSpans": [{"scopeSpans": 7}]}',
        "JSON with text for a list": b'{"resourceSpans": "' + SECRET + b'"}',
        "JSON without an end": b"[" * 100_000,
        "JSON that is no UTF-8": b'{"resourceSpans": "\xff"}',
        "a span without ids": no_ids,
    }


def poisoned_events(whole: bytes) -> dict[str, Value]:
    """Records that are no messages for the monitor, by kind; `whole` is one that is."""
    return {
        "no value": None,
        "an empty one": b"",
        "text": SECRET,
        "a message that is cut off": whole[: len(whole) // 2],
        "a message of another kind": whole[:3] + b"\x81\xa4type\xa5other",
        "rules that are none": encode(Activation({"desk": SECRET.decode()})),
    }


@dataclass(frozen=True)
class Proof:
    """Records of spans in the order in which they are sent, and what must come of their conversations."""

    pack: Path
    records: tuple[Record, ...]
    ids: Ids
    places: Counter[Place]


def proof(pack: Path, held: Sequence[PlayedSession] | None = None) -> Proof:
    """Hours of conversations in each form of telemetry; at the end the time passes all of them everywhere."""
    random = Random("proof")
    played = [_anywhere(session_played) for session_played in held or day(3, 15)]
    coming = [(time, source_of(span.trace_id), span) for time, span in arriving(played, random, again=0.1)]
    coming += list(_closing())
    offsets = [0] * SOURCES
    records: list[Record] = []
    for time, source, span in coming:
        milliseconds = time // 1_000_000 * 1_000_000
        body = wire([span], random.choice(list(Encoding)))
        records.append(Record(source, offsets[source], milliseconds, body))
        offsets[source] += 1
    made = Proof(
        pack=pack,
        records=tuple(records),
        ids=true_ids(played, pack),
        places=Counter(place for session_played in played for place in session_played.places),
    )
    assert len(made.ids) > 100, "nothing would be shown"
    return made


def _anywhere(played: PlayedSession) -> PlayedSession:
    """The conversation under another name: those of few digits come to every other partition alone."""
    name = played.session.session_id
    return replace(played, session=replace(played.session, session_id=f"{name}-{crc32(name.encode())}"))


def _closing() -> Iterator[tuple[int, int, Span]]:
    """Spans by which every partition learns from every source that the time has passed all conversations."""
    for source in range(SOURCES):
        for partition in range(PARTITIONS):
            names = (f"{CLOSING}-{source}-{number}" for number in range(1_000))
            name = next(
                session_name for session_name in names if partition_of(session_name, PARTITIONS) == partition
            )
            yield END_NS, source, _span(name, END_NS)
    # They go on once the time has passed themselves, and do not close.
    for source in range(SOURCES):
        later = END_NS + 600 * NS
        yield later, source, _span(f"{CLOSING}-{source}", later)


def _span(session_id: str, at: int) -> Span:
    """A span of two messages at that time, which names its session itself; it breaks no rule."""
    text = '[{{"role": "{}", "parts": [{{"type": "text", "content": "late"}}]}}]'
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": "desk",
        "gen_ai.conversation.id": session_id,
        "gen_ai.input.messages": text.format("user"),
        "gen_ai.output.messages": text.format("assistant"),
    }
    trace_id = hashlib.md5(f"{session_id} {at}".encode()).hexdigest()
    return Span(trace_id, trace_id[:16], None, "chat", at, at, attributes=attributes)


@dataclass
class Sender:
    """A sender of spans, a portion at a time, and beside each some records that nobody can read.

    `planted` has the positions of those, by topic, partition and offset, with their digests.
    """

    kafka: KafkaSettings
    proof: Proof
    planted: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole = next(record.value for record in self.proof.records if not record.value.startswith(b"{"))
        message = encode(Activation({"desk": "pack: desk\n"}))
        self._producer: Any = Producer(
            {
                **producing(self.kafka, "test"),
                "delivery.report.only.error": False,
                "on_delivery": self._delivered,
            }
        )
        self._offset = -1
        self._left = list(self.proof.records)
        self._poison = [
            *((Topic.SPANS, value) for value in poisoned_spans(whole).values()),
            *((Topic.EVENTS, value) for value in poisoned_events(message).values()),
        ]

    @property
    def left(self) -> int:
        """Return how many records are not sent yet."""
        return len(self._left)

    def send(self, count: int | None = None) -> None:
        """Send so many records, or all that are left with all the poison."""
        records, self._left = self._left[:count], self._left[count:] if count else []
        poison, self._poison = self._poison[: count and 1], self._poison[1:] if count else []
        for record in records:
            self._producer.produce(
                self.kafka.spans_topic,
                record.value,
                b"trace",
                record.partition,
                timestamp=record.time // 1_000_000,
            )
        for topic, value in poison:
            name, number = self.kafka.topic(topic), len(self.planted) % SOURCES
            # The records of spans carry their times: that is the time of those beside them.
            beside = records[-1].time // 1_000_000 if topic is Topic.SPANS else 0
            self._flush()
            self._producer.produce(name, value, b"poison", number, timestamp=beside)
            self._flush()
            self.planted[name, number, self._offset] = hashlib.sha256(value or b"").hexdigest()
        self._flush()

    def _delivered(self, error: Any, message: Any) -> None:
        """Take note of the offset that the broker gave the last record."""
        assert error is None
        self._offset = message.offset()

    def _flush(self) -> None:
        assert not self._producer.flush(60)

    def is_complete(self, found: MonitorOutput) -> bool:
        """Return whether all that must come of what was sent has come."""
        return not any(self.missing(found).values())

    def missing(self, found: MonitorOutput) -> dict[str, list[Any]]:
        """Return what must still come of what was sent: verdict ids, events, dead letters."""
        return {
            "verdicts": sorted(self.proof.ids.keys() - found.ids.keys()),
            "events": sorted((self.proof.places - found.places).elements()),
            "dead letters": sorted(self.planted.keys() - letters_of(found).keys()),
        }

    def close(self) -> None:
        """Send no more."""
        self._flush()


@dataclass(frozen=True)
class Pipeline:
    """Rekey, monitor and archive, which a user starts and restarts over one folder.

    The monitors follow the `chain`, if there is one.
    """

    kafka: KafkaSettings
    pack: Path
    folder: Path
    chain: Path | None = None

    @property
    def predicting(self) -> tuple[str, ...]:
        """The options by which a monitor and an audit follow the chain."""
        return () if self.chain is None else ("--predict", str(self.chain), "--above", str(ABOVE))

    @property
    def archive(self) -> Path:
        """The live archive."""
        return self.folder / "archive"

    def rekey(self, name: str, fault: str | None = None) -> AbstractContextManager[Stage]:
        """Start a rekeyer of that name."""
        return self._start("rekey", name, fault, "--instance", name)

    def monitor(self, name: str, fault: str | None = None) -> AbstractContextManager[Stage]:
        """Start a monitor."""
        return self._start("monitor", name, fault, "--rules", str(self.pack), *self.predicting)

    def disk_monitor(self, name: str, fault: str | None = None) -> AbstractContextManager[Stage]:
        """Start a monitor with its state on disk."""
        store = ("--store", "rocksdict", "--data", str(self.folder / "state"))
        return self._start("monitor", name, fault, "--rules", str(self.pack), *self.predicting, *store)

    def archiver(self, name: str, fault: str | None = None) -> AbstractContextManager[Stage]:
        """Start an archiver, which writes files of some twenty rows."""
        often = ("--rows", "20", "--every-s", "2")
        return self._start("archive", name, fault, "--archive", str(self.archive), *often)

    def _start(
        self, command: str, name: str, fault: str | None, *flags: str
    ) -> AbstractContextManager[Stage]:
        log = self.folder / f"{command}-{name}.log"
        timeout_s = DYING_S if fault else TIMEOUT_S
        return running(self.kafka, log, command, "--timeout-s", timeout_s, *flags, fault=fault)


def stop(*stages: Stage) -> None:
    """Stop them one after the other, each when it has read all that there is; each exits 0."""
    for stage in stages:
        # The mark of a transaction is no message. A rekeyer reports its lag with its ticks: here is none.
        if "rekey" not in stage.log.name:
            stage.until("tracline_kafka_lag", lambda lags: bool(lags) and max(lags) <= 1, WAIT_S)
        assert stage.stop() == 0, stage.log.read_text()


def assert_whole(pipeline: Pipeline, sender: Sender, found: MonitorOutput) -> None:
    """Verdicts, events and dead letters came once, and no others; the archive, and an audit of it, agree."""
    proof, archive = sender.proof, pipeline.archive
    assert found.ids == Counter(proof.ids.keys())
    assert conversations(found.places) == proof.places
    assert letters_of(found) == sender.planted
    assert not any(SECRET.decode() in letter.reason for letter in found.letters)
    rows = pl.read_parquet(archive / "**" / "*.parquet")
    assert conversations(places_of(rows)) == proof.places
    ends = rows.filter(pl.col("kind") == "end").group_by("session_id", "occurrence").len()
    assert ends["len"].to_list() == [1] * len({place[:2] for place in proof.places})
    assert gaps(read_manifest(archive)) == 0
    bundle = pipeline.folder / "bundle"
    audited = audit_of(pipeline.folder, pipeline.pack, bundle, *pipeline.predicting)
    assert audited.keys() == proof.ids.keys()
    if pipeline.chain is not None:
        assert crossings(pipeline.kafka) == {line["id"]: line for line in bundle_lines(bundle, "risk.jsonl")}
        assert rows["chain"].null_count() == 0


def crossings(kafka: KafkaSettings) -> dict[str, dict]:
    """The crossings of risk by id, as a reader has them that drops repeated messages by their marks."""
    seen: dict[int, Mark] = {}
    found: dict[str, dict] = {}
    for record in read(kafka, kafka.topic(Topic.RISK)):
        message = decode_risk(record.value)
        if message.mark > seen.get(message.mark.partition, Mark(-1, -1, -1)):
            seen[message.mark.partition] = message.mark
            for crossing in message.crossings:
                assert crossing.id not in found, "a crossing came twice above the mark"
                found[crossing.id] = orjson.loads(encode_crossing(crossing))
    assert len(found) > 50, "nothing would be shown"
    return found


def letters_of(found: MonitorOutput) -> dict[tuple[str, int, int], str]:
    """The digests in the dead letters, by topic, partition and offset."""
    return {(letter.topic, letter.partition, letter.offset): letter.sha256 for letter in found.letters}


def repeated(found: MonitorOutput) -> int:
    """Return the count of messages that came twice, dead letters included: some polls send only these."""
    return found.again + len(found.letters) - len(letters_of(found))


def conversations(places: Counter[Place]) -> Counter[Place]:
    """Those that are not of a span that only carries the time."""
    return Counter({place: count for place, count in places.items() if not place[0].startswith(CLOSING)})
