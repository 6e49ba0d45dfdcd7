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

import polars as pl
from kafka import KafkaProducer
from tracline.archive.gaps import gaps
from tracline.archive.manifest import read_manifest
from tracline.examples.spans.sessions import START_NS
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.stream.ingest.request import Encoding
from tracline.stream.kafka.settings import KafkaSettings, producing
from tracline.stream.messages.codec import Activation, encode, partition_of
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic

from ..serve import live
from ..serve.days import day
from ..serve.live import arriving, places_of, wire
from ..serve.serving import audit_of
from ..serve.truth import Ids, Place, Told, true_ids
from .judging import Heard
from .keyed import PARTITIONS, SOURCES, source_of
from .stage import TIMEOUT_S, Stage, running

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
"""How long all that dies may take, and then those who live."""
CLOSING = "closing"
"""What sessions are called whose spans only say what time it is."""
SECRET = b"a secret"
Value = bytes | None


def poisoned_spans(whole: bytes) -> dict[str, Value]:
    """Records that are no spans, by kind; `whole` is one that is."""
    no_ids = wire([replace(_span(CLOSING, END_NS), trace_id="00" * 16)], Encoding.PROTOBUF)
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


def proof(pack: Path, held: Sequence[Told] | None = None) -> Proof:
    """Hours of conversations, told in every manner; at the end the time passes all of them everywhere."""
    random = Random("proof")
    told = [_anywhere(one) for one in held or day(3, 15)]
    coming = [(time, source_of(span.trace_id), span) for time, span in arriving(told, random, again=0.1)]
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
        ids=true_ids(told, pack),
        places=Counter(place for one in told for place in one.places),
    )
    assert len(made.ids) > 100, "nothing would be shown"
    return made


def _anywhere(told: Told) -> Told:
    """The conversation under another name: those of few digits come to every other partition alone."""
    name = told.session.session_id
    return replace(told, session=replace(told.session, session_id=f"{name}-{crc32(name.encode())}"))


def _closing() -> Iterator[tuple[int, int, Span]]:
    """Spans by which every partition hears of every source that the time has passed all conversations."""
    for source in range(SOURCES):
        for partition in range(PARTITIONS):
            names = (f"{CLOSING}-{source}-{number}" for number in range(1_000))
            name = next(one for one in names if partition_of(one, PARTITIONS) == partition)
            yield END_NS, source, _span(name, END_NS)
    # They go on once the time has passed themselves, and do not close.
    for source in range(SOURCES):
        later = END_NS + 600 * NS
        yield later, source, _span(f"{CLOSING}-{source}", later)


def _span(session_id: str, at: int) -> Span:
    """A span that tells of two messages at that time, and says itself whose it is; it breaks no rule."""
    text = '[{{"role": "{}", "parts": [{{"type": "text", "content": "late"}}]}}]'
    told = {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": "desk",
        "gen_ai.conversation.id": session_id,
        "gen_ai.input.messages": text.format("user"),
        "gen_ai.output.messages": text.format("assistant"),
    }
    trace_id = hashlib.md5(f"{session_id} {at}".encode()).hexdigest()
    return Span(trace_id, trace_id[:16], None, "chat", at, at, attributes=told)


@dataclass
class Sender:
    """Who sends: spans, a portion at a time, and beside each some of what nobody can read.

    `planted` says where that stands, by topic, partition and offset, with its digest.
    """

    kafka: KafkaSettings
    proof: Proof
    planted: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole = next(one.value for one in self.proof.records if not one.value.startswith(b"{"))
        message = encode(Activation({"desk": "pack: desk\n"}))
        self._producer: Any = KafkaProducer(**producing(self.kafka, "test"))
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
        for one in records:
            self._producer.send(
                self.kafka.spans_topic,
                one.value,
                key=b"trace",
                partition=one.partition,
                timestamp_ms=one.time // 1_000_000,
            )
        for topic, value in poison:
            name, number = self.kafka.topic(topic), len(self.planted) % SOURCES
            # The time of spans' records is told: that of those beside it.
            beside = records[-1].time // 1_000_000 if topic is Topic.SPANS else None
            sent = self._producer.send(name, value, b"poison", partition=number, timestamp_ms=beside).get(60)
            self.planted[name, number, sent.offset] = hashlib.sha256(value or b"").hexdigest()
        self._producer.flush()

    def is_heard(self, heard: Heard) -> bool:
        """Return whether all that must come of what was sent has come."""
        return not any(self.missing(heard).values())

    def missing(self, heard: Heard) -> dict[str, list[Any]]:
        """Return what must still come of what was sent: verdict ids, events, dead letters."""
        return {
            "verdicts": sorted(self.proof.ids.keys() - heard.ids.keys()),
            "events": sorted((self.proof.places - heard.places).elements()),
            "dead letters": sorted(self.planted.keys() - letters_of(heard).keys()),
        }

    def close(self) -> None:
        """Send no more."""
        self._producer.close()


@dataclass(frozen=True)
class Pipeline:
    """Rekey, monitor and archive, which a user starts and restarts over one folder."""

    kafka: KafkaSettings
    pack: Path
    folder: Path

    @property
    def archive(self) -> Path:
        """The live archive."""
        return self.folder / "archive"

    def rekey(self, name: str, fault: str | None = None) -> AbstractContextManager[Stage]:
        """Start a rekeyer of that name."""
        return self._start("rekey", name, fault, "--instance", name)

    def monitor(self, name: str, fault: str | None = None) -> AbstractContextManager[Stage]:
        """Start a monitor."""
        return self._start("monitor", name, fault, "--rules", str(self.pack))

    def archiver(self, name: str, fault: str | None = None) -> AbstractContextManager[Stage]:
        """Start an archiver, which writes files of some twenty rows."""
        often = ("--rows", "20", "--every-s", "2")
        return self._start("archive", name, fault, "--archive", str(self.archive), *often)

    def _start(
        self, command: str, name: str, fault: str | None, *flags: str
    ) -> AbstractContextManager[Stage]:
        log = self.folder / f"{command}-{name}.log"
        return running(self.kafka, log, command, "--timeout-s", TIMEOUT_S, *flags, fault=fault)


def stop(*stages: Stage) -> None:
    """Stop them one after the other, each when it has read all that there is; each exits 0."""
    for stage in stages:
        # The mark of a transaction is no message. A rekeyer tells its lag with its ticks: here is none.
        if "rekey" not in stage.log.name:
            stage.until("tracline_kafka_lag", lambda lags: bool(lags) and max(lags) <= 1, WAIT_S)
        assert stage.stop() == 0, stage.log.read_text()


def assert_whole(pipeline: Pipeline, sender: Sender, heard: Heard) -> None:
    """Verdicts, events and dead letters came once, and no others; so the archive, and an audit of it, say."""
    proof, archive = sender.proof, pipeline.archive
    assert heard.ids == Counter(proof.ids.keys())
    assert conversations(heard.places) == proof.places
    assert letters_of(heard) == sender.planted
    assert not any(SECRET.decode() in one.reason for one in heard.letters)
    rows = pl.read_parquet(archive / "**" / "*.parquet")
    assert conversations(places_of(rows)) == proof.places
    ends = rows.filter(pl.col("kind") == "end").group_by("session_id", "occurrence").len()
    assert ends["len"].to_list() == [1] * len({place[:2] for place in proof.places})
    assert gaps(read_manifest(archive)) == 0
    assert audit_of(pipeline.folder, pipeline.pack, pipeline.folder / "bundle").keys() == proof.ids.keys()


def letters_of(heard: Heard) -> dict[tuple[str, int, int], str]:
    """The digests that the dead letters tell, by topic, partition and offset."""
    return {(one.topic, one.partition, one.offset): one.sha256 for one in heard.letters}


def conversations(places: Counter[Place]) -> Counter[Place]:
    """Those that are no span's that only says what time it is."""
    return Counter({place: count for place, count in places.items() if not place[0].startswith(CLOSING)})
