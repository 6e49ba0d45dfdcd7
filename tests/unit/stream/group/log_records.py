"""The recorded spans and log records of agents as records of their topics, and what happened in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.archive.manifest import ManifestSource
from tracline.archive.writer import archive_writer
from tracline.schemas.event import Event
from tracline.schemas.frames.events import event_frame
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.settings import SessionSettings
from tracline.schemas.time import NS
from tracline.stream.messages.codec import CandidateBatch
from tracline.stream.messages.topics import Topic

from ....frameworks.compare import differences, read
from ....frameworks.recordings import FOLDER, requests_of, truth_of_recording

SETTINGS = SessionSettings(lateness_s=600, hold_s=3_600, idle_s=600, tick_s=0.2)
RECORDINGS = ("openai-opentelemetry-events", "openai-opentelemetry-default", "semantic-kernel")
DAY = 24 * 3_600 * NS

Sent = tuple[Topic, str, bytes]
"""The topic of a record, the trace that it is of, and its value."""


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


def assembled(batches: Iterable[CandidateBatch], until_ns: int) -> list[Event]:
    """Return the events of the candidates, by the second stage of session assembly."""
    sessions: dict[str, SessionAssembler] = {}
    for candidate in (candidate for batch in batches for candidate in batch.candidates):
        assembler = SessionAssembler(candidate.session_id, 600 * NS)
        sessions.setdefault(candidate.session_id, assembler).add(candidate)
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
