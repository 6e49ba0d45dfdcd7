"""`tracline doctor` asks a running `tracline serve`, and gets what a dump of the same spans gives."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracline.cli import tracline
from tracline.rules.packs.load import shipped_packs

from ..frameworks.recordings import FOLDER, requests_of, write_dump
from .serving import PLAIN, PROTOBUF, TRACLINE, WAIT_S, Serving, running

QUICK = {"lateness_s": 1, "hold_s": 1, "tick_s": 1}
TOKEN = "a-token-of-this-test-0123456789"
BEARER = {"authorization": f"Bearer {TOKEN}"}
YEAR_NS = 365 * 86_400 * 10**9
RECORDINGS = ("openai-openinference", "openai-agents-openllmetry", "langfuse")


def run(source: str | Path, *more: str) -> Result:
    """Run `tracline doctor`."""
    return CliRunner().invoke(tracline, ["doctor", str(source), "--format", "json", *more])


def a_year_ago() -> bytes:
    """Return the spans of some recordings as one request, at times that are over on any clock."""
    whole = ExportTraceServiceRequest()
    for name in RECORDINGS:
        for data in requests_of(FOLDER / name / "otlp" / "requests.pb.zst"):
            whole.MergeFromString(data)
    for resource in whole.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                span.start_time_unix_nano -= YEAR_NS
                span.end_time_unix_nano -= YEAR_NS
    return whole.SerializeToString()


def answer(serving: Serving, events: int) -> httpx.Response:
    """Ask until so many events are judged, or for too long; the last answer."""
    until = time.monotonic() + WAIT_S
    while True:
        found = httpx.get(f"{serving.url}/doctor", headers=BEARER, timeout=WAIT_S, verify=PLAIN)
        if sum(scope["events"] for scope in found.json()) >= events or time.monotonic() > until:
            return found


def test_a_running_serve_diagnoses_like_a_dump(tmp_path: Path) -> None:
    """The answer is the same array, behind the token; what does not answer so is TRL606."""
    body = a_year_ago()
    write_dump(tmp_path / "spans.pb.zst", [body])
    wanted = json.loads(run(tmp_path / "spans.pb.zst").stdout)
    assert {scope["scope"]: scope["lacks"] for scope in wanted if scope["lacks"]} == {
        "opentelemetry.instrumentation.openai_agents": ["session"]
    }
    with running(tmp_path, shipped_packs()[0], "--token", TOKEN, sessions=QUICK) as serving:
        before = run(serving.url, "--token", TOKEN)
        assert (before.exit_code, before.stdout.strip()) == (0, "[]")
        assert serving.send(body, PROTOBUF | BEARER).status_code == 200
        found = answer(serving, sum(scope["events"] for scope in wanted))
        assert found.json() == wanted
        assert found.headers["content-type"] == "application/json"
        line = [str(TRACLINE), "doctor", serving.url, "--format", "json", "--token", TOKEN]
        done = subprocess.run(line, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert (done.returncode, json.loads(done.stdout)) == (1, wanted)
        for source, more, what in (
            (serving.url, (), "rejected the token, or requires one"),
            (serving.url, ("--token", TOKEN + "x"), "rejected the token, or requires one"),
            (f"{serving.url}/metrics", ("--token", TOKEN), "returned status 404"),
            (f"{serving.url}/healthz?", ("--token", TOKEN), "returned an unexpected response"),
        ):
            refused = run(source, *more)
            assert (refused.exit_code, refused.stdout) == (2, "")
            assert "TRL606" in refused.stderr
            assert what in refused.stderr
        assert serving.stop() == 0, serving.log


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://[::1", "https://127.0.0.1:1"])
def test_nobody_there_is_an_error(address: str) -> None:
    """If no server listens, or the address is invalid, the error has a hint."""
    done = run(address)
    assert done.exit_code == 2
    assert "TRL606" in done.stderr
    assert "start `tracline serve`" in done.stderr
