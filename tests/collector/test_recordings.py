"""Recordings of agent frameworks on their way through a real collector and Kafka to the archive."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tracline.archive.manifest import read_manifest
from tracline.schemas.time import NS
from tracline.stream.kafka.settings import KafkaSettings

from ..frameworks.compare import PACKS, Event, differences, read
from ..frameworks.not_yet import NOT_YET
from ..frameworks.recordings import FOLDER, names, requests_of, truth_of_recording, write_dump
from ..kafka.rekeying import letters, make_topics, until
from ..kafka.stage import TIMEOUT_S, running
from ..kafka.talking import LIVE
from .test_collector import collecting

pytestmark = pytest.mark.collector
ALL_S = 120
"""The time in seconds that the pipeline may take for all recordings."""
SESSIONS = replace(LIVE, lateness_s=90)
"""No recording is longer than that: none of its spans is late, in whatever order the collector sends them."""


Requests = dict[str, list[bytes]]
"""Requests of OTLP by signal, `traces` or `logs`."""


def moved(name: str, ended: int) -> Requests:
    """Return a recording's requests as if its last span had ended at that time (ns since the epoch)."""
    traces = [
        ExportTraceServiceRequest.FromString(body)
        for body in requests_of(FOLDER / name / "otlp" / "requests.pb.zst")
    ]
    file = FOLDER / name / "other" / "v1_logs.pb.zst"
    logs = [ExportLogsServiceRequest.FromString(body) for body in requests_of(file)] if file.exists() else []
    later = ended - max(span.end_time_unix_nano for span in spans_of(traces))
    for span in spans_of(traces):
        span.start_time_unix_nano += later
        span.end_time_unix_nano += later
        for event in span.events:
            event.time_unix_nano += later
    for record in records_of(logs):
        record.time_unix_nano += later if record.time_unix_nano else 0
        record.observed_time_unix_nano += later if record.observed_time_unix_nano else 0
    return {
        "traces": [request.SerializeToString() for request in traces],
        "logs": [request.SerializeToString() for request in logs],
    }


def spans_of(requests: Sequence[ExportTraceServiceRequest]) -> Iterator[Span]:
    """Yield the spans of requests."""
    for request in requests:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                yield from scope.spans


def records_of(requests: Sequence[ExportLogsServiceRequest]) -> Iterator[LogRecord]:
    """Yield the log records of requests."""
    for request in requests:
        for resource in request.resource_logs:
            for scope in resource.scope_logs:
                yield from scope.log_records


@pytest.fixture(autouse=True)
def sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the session settings of all processes."""
    for name in ("lateness_s", "hold_s", "tick_s"):
        monkeypatch.setenv(f"TRACLINE_SESSIONS_{name.upper()}", str(getattr(SESSIONS, name)))


def test_recordings_come_through_as_they_happened(
    kafka: KafkaSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The archive of the pipeline over Kafka holds the events of the script, where recordings are exact.

    Of all recordings it holds the events that an audit of their requests finds, in the same order.
    """
    recorded = names()
    ended = time.time_ns() - round((SESSIONS.lateness_s - LIVE.lateness_s) * NS)
    requests = {name: moved(name, ended) for name in recorded}
    dumped: dict[str, list[Event]] = {}
    for name in recorded:
        (tmp_path / name).mkdir()
        for signal, bodies in requests[name].items():
            if bodies:
                write_dump(tmp_path / name / f"{signal}.pb.zst", bodies)
        dumped[name], _ = read(tmp_path / name, tmp_path / "dumped" / name)
    make_topics(kafka)
    with collecting(kafka, tmp_path / "collector") as (port, _):
        for name in recorded:
            for signal, bodies in requests[name].items():
                for body in bodies:
                    post(f"http://127.0.0.1:{port}/v1/{signal}", body)
    through_kafka(kafka, tmp_path, sum(map(len, dumped.values())))
    events, verdicts = read(tmp_path / "archive", tmp_path / "archived")
    assert not letters(kafka)
    wrong: dict[str, list[str]] = {}
    for name in recorded:
        ids = {event["session_id"] for event in dumped[name]}
        archived = [event for event in events if event["session_id"] in ids]
        if in_order(archived) != in_order(dumped[name]):
            wrong[name] = ["other events than those of the dump"]
        elif name not in NOT_YET:
            given = [verdict for verdict in verdicts if verdict["session_id"] in ids]
            wrong[name] = differences(truth_of_recording(name), archived, given)
    assert not {name: differing for name, differing in wrong.items() if differing}
    assert len(events) == sum(map(len, dumped.values()))
    with capsys.disabled():
        print(f"\n{len(events)} events of {len(recorded)} recordings, {len(recorded) - len(NOT_YET)} exact")


def post(url: str, body: bytes) -> None:
    """Send a request of OTLP to the collector, which must take it."""
    headers = {"content-type": "application/x-protobuf"}
    assert httpx.post(url, content=body, headers=headers, verify=False).status_code == 200


def through_kafka(kafka: KafkaSettings, folder: Path, count: int) -> None:
    """Carry what is in the topics of spans and log records to an archive that holds so many events."""
    archive, wait = folder / "archive", ("--timeout-s", TIMEOUT_S)
    options = ("--archive", str(archive), "--every-s", "1")

    def archived() -> int:
        return sum(entry.events for entry in read_manifest(archive).entries)

    with (
        running(kafka, folder / "rekey.log", "rekey", *wait) as rekey,
        running(kafka, folder / "monitor.log", "monitor", *wait, "--rules", *PACKS) as monitor,
        running(kafka, folder / "archive.log", "archive", *wait, *options) as archiver,
    ):
        until("all is archived", lambda: archived() >= count, within_s=ALL_S)
        for stage in (rekey, monitor, archiver):
            assert stage.stop() == 0, stage.log.read_text()


def in_order(events: list[Event]) -> list[tuple[object, ...]]:
    """Return of events what must be equal wherever they were judged, in the order of each session."""
    events = [event for event in events if event["kind"] != "end"]
    return sorted(
        (event["session_id"], event["occurrence"], event["seq"], event["event_id"]) for event in events
    )
