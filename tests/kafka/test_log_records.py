"""Log records over a real broker: joined to their spans partition by partition, in any order of arrival.

The events that must come are those in the scripts of the recorded agents.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.archive.manifest import ManifestSource
from tracline.archive.writer import archive_writer
from tracline.schemas.event import Event
from tracline.schemas.frames.events import event_frame
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.settings import SessionSettings
from tracline.schemas.time import NS
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.kafka.topics import administering
from tracline.stream.messages.topics import Topic

from ..frameworks.compare import differences, read
from ..frameworks.recordings import FOLDER, requests_of, truth_of_recording
from .keyed import SOURCES, source_of
from .rekeying import WAIT_S, batches, here, letters, make_topics, process, until, until_carried

pytestmark = pytest.mark.slow

SETTINGS = SessionSettings(lateness_s=600, hold_s=3_600, idle_s=600, tick_s=0.2)
RECORDINGS = ("openai-opentelemetry-events", "openai-opentelemetry-default", "semantic-kernel")
DAY = 24 * 3_600 * NS

Sent = tuple[Topic, str, bytes]
"""The topic of a record, the trace that it is of, and its value."""


@pytest.fixture
def kafka(kafka: KafkaSettings) -> KafkaSettings:
    """The shared broker with the topics of this test."""
    make_topics(kafka)
    return kafka


@dataclass
class Clock:
    """The time, as the test sets it (ns since the epoch)."""

    now: int

    def __call__(self) -> int:
        """Return it."""
        return self.now


def by_trace(topic: Topic, body: bytes) -> Iterator[Sent]:
    """A request as the collector sends it: one record for each trace."""
    message: Any = (TracesData if topic is Topic.SPANS else LogsData)()
    message.ParseFromString(body)
    names = {Topic.SPANS: ("resource_spans", "scope_spans", "spans")}
    resources, scopes, items = names.get(topic, ("resource_logs", "scope_logs", "log_records"))
    parts: dict[str, Any] = {}
    for resource in getattr(message, resources):
        for scope in getattr(resource, scopes):
            for item in getattr(scope, items):
                part = parts.setdefault(item.trace_id.hex(), type(message)())
                to = getattr(part, resources).add(resource=resource.resource)
                getattr(getattr(to, scopes).add(scope=scope.scope), items).append(item)
    for trace_id, part in parts.items():
        yield topic, trace_id, part.SerializeToString()


def recorded(name: str) -> tuple[list[Sent], list[Sent]]:
    """The records of a recording's spans, and those of its log records."""
    spans = requests_of(FOLDER / name / "otlp" / "requests.pb.zst")
    logs = requests_of(FOLDER / name / "other" / "v1_logs.pb.zst")
    return (
        [sent for body in spans for sent in by_trace(Topic.SPANS, body)],
        [sent for body in logs for sent in by_trace(Topic.LOGS, body)],
    )


def ended(spans: list[Sent]) -> int:
    """When the last of these spans ended."""
    resources = chain.from_iterable(TracesData.FromString(value).resource_spans for _, _, value in spans)
    scopes = chain.from_iterable(resource.scope_spans for resource in resources)
    return max(span.end_time_unix_nano for scope in scopes for span in scope.spans)


def send(kafka: KafkaSettings, sent: list[Sent], *, beside: int = 0) -> None:
    """Send records to the partitions of their traces, or so many partitions beside them."""
    producer = KafkaProducer(bootstrap_servers=list(kafka.bootstrap_servers))
    for topic, trace_id, value in sent:
        partition = (source_of(trace_id) + beside) % SOURCES
        producer.send(kafka.topic(topic), value, trace_id.encode(), partition=partition)
    producer.flush(timeout=WAIT_S)
    producer.close(timeout=WAIT_S)


def assembled(kafka: KafkaSettings, until_ns: int) -> list[Event]:
    """The events of the candidates that were sent on, by the second stage of session assembly."""
    sessions: dict[str, SessionAssembler] = {}
    for one in (one for batch in batches(kafka) for one in batch.candidates):
        sessions.setdefault(one.session_id, SessionAssembler(one.session_id, 600 * NS)).add(one)
    return [event for session in sessions.values() for event in session.advance(until_ns)]


def wrong(name: str, events: list[Event], folder: Path) -> list[str]:
    """In what events, and an audit of them, differ from what happened."""
    with archive_writer(folder / "archive") as writer:
        writer.write(event_frame(events), ManifestSource("judged", "0" * 64), (0, 0))
    return differences(truth_of_recording(name), *read(folder / "archive", folder / "read"))


def portions(name: str, arrival: str) -> list[list[Sent]]:
    """The records in the portions in which they are sent; what is in one portion is read before the next."""
    spans, logs = recorded(name)
    mixed = [one for one in chain.from_iterable(zip_longest(spans, logs)) if one is not None]
    third = -(-len(mixed) // 3)
    return {
        "logs first": [logs, spans],
        "logs last": [spans, logs],
        "interleaved": [mixed[first : first + third] for first in range(0, len(mixed), third)],
        "doubled": [logs, mixed, spans + logs],
    }[arrival]


@pytest.mark.parametrize(
    ("name", "arrival"),
    [
        (RECORDINGS[0], "logs first"),
        (RECORDINGS[1], "logs last"),
        (RECORDINGS[2], "interleaved"),
        (RECORDINGS[0], "doubled"),
    ],
)
def test_candidates_hold_what_log_records_say(
    name: str, arrival: str, kafka: KafkaSettings, tmp_path: Path
) -> None:
    """Whichever comes first, and whichever process has read it, each event comes once and whole."""
    clock = Clock(ended(recorded(name)[0]))
    for number, portion in enumerate(portions(name, arrival)):
        send(kafka, portion)
        with here(kafka, instance=f"{number}", sessions=SETTINGS, now=clock, reads_logs=True):
            until_carried(kafka)
    assert not [one for batch in batches(kafka) for one in batch.candidates], "nothing is due yet"
    clock.now += DAY
    with here(kafka, instance="last", sessions=SETTINGS, now=clock, reads_logs=True) as last:
        until("all went on", lambda: last.count("tracline_rekey_candidates_total"))
        until("none waits", lambda: not last.count("tracline_spans_waiting"))
        assert last.count("tracline_log_records_unjoined_total", reason="without_span") == 0
    assert last.error is None
    assert not letters(kafka)
    assert wrong(name, assembled(kafka, clock.now), tmp_path) == []


def test_records_on_another_partition_are_counted_and_said(kafka: KafkaSettings) -> None:
    """They find no span within `hold_s`; the process names the remedy, and goes on."""
    spans, logs = recorded(RECORDINGS[0])
    clock = Clock(ended(spans))
    send(kafka, spans)
    send(kafka, logs, beside=1)
    with here(kafka, sessions=SETTINGS, now=clock, reads_logs=True) as running:
        until_carried(kafka)
        # The broker's time, by which records wait, is that of this machine.
        clock.now = max(clock.now, time.time_ns()) + DAY
        lost = "tracline_log_records_unjoined_total"
        until("they are dropped", lambda: running.count(lost, reason="without_span") > 10)
        until("it is said", lambda: any("partitioned by trace" in line for line in running.lines))
    assert running.error is None


def test_what_is_no_log_record_is_put_aside(kafka: KafkaSettings) -> None:
    """A dead letter names topic, partition, offset and digest; records beside it are read."""
    _, logs = recorded(RECORDINGS[0])
    poison = b"\xff" * 20
    topic, trace_id, _ = logs[0]
    send(kafka, [(topic, trace_id, poison), *logs])
    with here(kafka, sessions=SETTINGS, reads_logs=True) as running:
        until_carried(kafka)
        (letter,) = letters(kafka)
        until("log records are read", lambda: running.count("tracline_rekey_log_records_total") > 10)
    assert (letter.topic, letter.partition, letter.offset, letter.code, letter.sha256) == (
        kafka.logs_topic,
        source_of(trace_id),
        0,
        "otlp-protobuf",
        hashlib.sha256(poison).hexdigest(),
    )


def test_without_the_topic_spans_are_carried_as_before(kafka: KafkaSettings) -> None:
    """The process reports once that no log records are read, and carries the spans."""
    with administering(kafka) as admin:
        admin.delete_topics([kafka.logs_topic])
    spans, _ = recorded(RECORDINGS[0])
    with process(kafka, sessions=replace(SETTINGS, lateness_s=0)) as running:
        send(kafka, spans)
        until("candidates come", lambda: any(batch.candidates for batch in batches(kafka)))
        running.process.terminate()
        assert running.ended() == 0, running.lines
        (said,) = [line for line in running.lines if kafka.logs_topic in line]
    assert "reads no log records" in said
