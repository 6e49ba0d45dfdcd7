"""Recordings of real agents whose content stands in log records, sent to a running `tracline serve`.

The findings must be those of their script, in whatever order spans and log records come.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import chain, zip_longest
from pathlib import Path

import httpx
import polars as pl
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs
from tracline.schemas.instrumentations.lacks import Lack
from tracline.schemas.otlp.signal import Signal
from tracline.schemas.settings import SessionSettings
from tracline.schemas.time import NS
from tracline.stream.ingest.request import Encoding
from tracline.stream.messages.unjoined import Unjoined
from tracline.stream.process.faultpoints import ServeFault
from tracline.stream.serve.doctor import Doctor

from ..support.conversations.recordings import FOLDER, requests_of, truth_of_recording
from ..support.http.receiving import values
from ..support.processes.live import IDLE_S, Live, Sent
from ..support.processes.serving import PLAIN, PROTOBUF, WAIT_S, Serving, rows, running, until_judged
from ..support.truth.compare import PACKS, differences

RECORDINGS = ("openai-opentelemetry-events", "openai-opentelemetry-default", "semantic-kernel")
ARRIVALS = ("logs first", "logs last", "interleaved", "doubled")
AT_A_PROCESS = (*zip(RECORDINGS, ARRIVALS, strict=False), (RECORDINGS[0], "doubled"))
"""The recordings that are sent to a process; to a pipeline in this one all of them come in all orders."""
SESSIONS = {
    # The time goes by spans alone: a tick is longer than the test, and the recordings are shorter than this.
    "tick_s": 86_400,
    "lateness_s": 3_600,
    "hold_s": 86_400,
    "idle_s": 600,
}
HOURS_NS = 3_600 * NS
SIGKILLED = -9
PATHS = {Signal.SPANS: "/v1/traces", Signal.LOGS: "/v1/logs"}

Came = tuple[Signal, bytes]
"""A request: what it brings, and its body."""


def requests(name: str, arrival: str) -> list[Came]:
    """The requests of a recording in the order in which they arrive, and one that is hours later."""
    spans = [(Signal.SPANS, body) for body in requests_of(FOLDER / name / "otlp" / "requests.pb.zst")]
    logs = [(Signal.LOGS, body) for body in requests_of(FOLDER / name / "other" / "v1_logs.pb.zst")]
    assert len(spans) > 1
    assert len(logs) > 1
    mixed = [message for message in chain.from_iterable(zip_longest(spans, logs)) if message is not None]
    mixed_requests = {
        "logs first": logs + spans,
        "logs last": spans + logs,
        "interleaved": mixed,
        "doubled": mixed + logs + spans[::-1] + logs[::-1],
    }[arrival]
    return [*mixed_requests, (Signal.SPANS, later([body for _, body in spans]))]


def later(bodies: Sequence[bytes]) -> bytes:
    """A request of one span without content, hours after the others."""
    resources = chain.from_iterable(TracesData.FromString(body).resource_spans for body in bodies)
    scopes = chain.from_iterable(resource.scope_spans for resource in resources)
    last = max(span.end_time_unix_nano for scope in scopes for span in scope.spans)
    request = TracesData()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="tick")
    span.trace_id, span.span_id = b"\x07" * 16, b"\x07" * 8
    span.start_time_unix_nano = span.end_time_unix_nano = last + 3 * HOURS_NS
    return request.SerializeToString()


def send(serving: Serving, came: Came) -> None:
    """Send a request, which must be taken."""
    signal, body = came
    url = f"{serving.url}{PATHS[signal]}"
    httpx.post(url, content=body, headers=PROTOBUF, timeout=WAIT_S, verify=PLAIN).raise_for_status()


def wrong(name: str, folder: Path) -> list[str]:
    """In what the archive and the verdicts of the store differ from what happened."""
    archive = pl.read_parquet(folder / "archive" / "**" / "*.parquet")
    verdicts = [json.loads(record) for (record,) in rows(folder, "SELECT record FROM verdict")]
    return differences(truth_of_recording(name), archive.iter_rows(named=True), verdicts)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("name", RECORDINGS)
def test_events_are_what_happened_in_any_order_of_arrival(
    name: str, arrival: str, restarts: bool, tmp_path: Path
) -> None:
    """The same where the pipeline restarts after each request: its store has the waiting spans."""
    settings = SessionSettings(lateness_s=3_600, hold_s=86_400, idle_s=IDLE_S)
    with closing(Live(tmp_path, compile_rule_set(load_packs(PACKS)), settings, now=time.time_ns())) as live:
        for signal, body in requests(name, arrival):
            live.send(Sent(live.now, body, Encoding.PROTOBUF, signal))
            if restarts:
                live.restart()
        live.finish()
        assert [batch for batch in live.batches if batch.unjoined[Unjoined.WITHOUT_SPAN]] == []
    assert wrong(name, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arrival"), AT_A_PROCESS)
def test_the_archive_of_a_process_holds_what_happened(name: str, arrival: str, tmp_path: Path) -> None:
    """Events and verdicts of a running process are those of the script; every record finds its span."""
    with running(tmp_path, PACKS[0], "--rules", *PACKS[1:], sessions=SESSIONS) as serving:
        for came in requests(name, arrival):
            send(serving, came)
        metrics = httpx.get(f"{serving.url}/metrics", timeout=WAIT_S, verify=PLAIN).text
        assert serving.stop() == 0, serving.log
    assert wrong(name, tmp_path) == []
    assert ("without_span",) not in values(metrics, "tracline_log_records_unjoined_total")


@pytest.mark.slow
def test_records_that_wait_survive_a_kill(tmp_path: Path) -> None:
    """Killed while they wait, it goes on where it was; each event comes once."""
    name = RECORDINGS[0]
    waiting = requests(name, "logs first")
    fault = f"{ServeFault.COMMITTED}:2"
    with running(tmp_path, PACKS[0], "--rules", *PACKS[1:], sessions=SESSIONS, fault=fault) as killed:
        with suppress(httpx.TransportError):
            while waiting:
                send(killed, waiting[0])
                waiting = waiting[1:]
                until_judged(killed, tmp_path)
        assert killed.ended() == SIGKILLED
    with running(tmp_path, PACKS[0], "--rules", *PACKS[1:], sessions=SESSIONS) as serving:
        for came in waiting:
            send(serving, came)
        assert serving.stop() == 0, serving.log
    assert wrong(name, tmp_path) == []


def test_records_that_come_too_late_are_counted(tmp_path: Path) -> None:
    """Once its span has gone on without its content a log record changes nothing, and is counted.

    The doctor misses them until they come.
    """
    spans = requests(RECORDINGS[0], "logs last")
    logs = [body for signal, body in spans if signal is Signal.LOGS]
    doctor = Doctor()
    with closing(Live(tmp_path, compile_rule_set(load_packs(PACKS)), now=time.time_ns())) as live:
        for signal, body in spans:
            if signal is Signal.SPANS:
                live.send(Sent(live.now, body, Encoding.PROTOBUF))
        before = live.events
        for batch in live.batches:
            doctor.add_spans(batch.spans, batch.plain_requests)
            doctor.add_events(batch.outputs.events, log_records=batch.log_records)
        assert Lack.LOG_RECORDS in {lack for diagnosis in doctor.diagnosed() for lack in diagnosis.lacks}
        for body in logs:
            live.send(Sent(live.now, body, Encoding.PROTOBUF, Signal.LOGS))
            doctor.add_events((), log_records=live.batches[-1].log_records)
        assert Lack.LOG_RECORDS not in {lack for diagnosis in doctor.diagnosed() for lack in diagnosis.lacks}
        assert sum(batch.unjoined[Unjoined.LATE] for batch in live.batches) > 10
        assert live.events.equals(before)
