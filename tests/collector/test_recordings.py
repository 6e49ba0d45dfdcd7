"""Recordings of agent frameworks on their way through a real collector and Kafka to the archive."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracline.archive.manifest import read_manifest
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
"""How long the pipeline may take for all recordings."""


def moved(name: str, now: int) -> list[bytes]:
    """Return a recording's requests as if its last span had just ended."""
    requests = [
        ExportTraceServiceRequest.FromString(body)
        for body in requests_of(FOLDER / name / "otlp" / "requests.pb.zst")
    ]
    spans = [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    later = now - max(span.end_time_unix_nano for span in spans)
    for span in spans:
        span.start_time_unix_nano += later
        span.end_time_unix_nano += later
        for event in span.events:
            event.time_unix_nano += later
    return [request.SerializeToString() for request in requests]


@pytest.fixture(autouse=True)
def sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what all processes are told of sessions."""
    for name in ("lateness_s", "hold_s", "tick_s"):
        monkeypatch.setenv(f"TRACLINE_SESSIONS_{name.upper()}", str(getattr(LIVE, name)))


def test_recordings_come_through_as_they_happened(
    kafka: KafkaSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The archive of the pipeline over Kafka holds what the script says happened, where recordings are exact.

    Of all recordings it holds the events that an audit of their requests finds, in the same order.
    """
    now, recorded = time.time_ns(), names()
    requests = {name: moved(name, now) for name in recorded}
    dumped: dict[str, list[Event]] = {}
    for name in recorded:
        (tmp_path / name).mkdir()
        write_dump(tmp_path / name / "requests.pb.zst", requests[name])
        dumped[name], _ = read(tmp_path / name, tmp_path / "dumped" / name)
    make_topics(kafka)
    with collecting(kafka, tmp_path / "collector") as (port, _):
        for name in recorded:
            for body in requests[name]:
                headers = {"content-type": "application/x-protobuf"}
                url = f"http://127.0.0.1:{port}/v1/traces"
                assert httpx.post(url, content=body, headers=headers, verify=False).status_code == 200
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
    assert not {name: said for name, said in wrong.items() if said}
    assert len(events) == sum(map(len, dumped.values()))
    with capsys.disabled():
        print(f"\n{len(events)} events of {len(recorded)} recordings, {len(recorded) - len(NOT_YET)} exact")


def through_kafka(kafka: KafkaSettings, folder: Path, count: int) -> None:
    """Carry what is in the topic of spans to an archive that holds so many events."""
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
