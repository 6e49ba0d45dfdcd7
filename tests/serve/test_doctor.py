"""`tracline doctor` asks a running `tracline serve`, and gets what a dump of the same spans gives."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracline.rules.pack import shipped_packs

from ..frameworks.recordings import FOLDER, requests_of, write_dump
from .serving import TRACLINE, WAIT_S, Serving, free_port, running

QUICK = {"lateness_s": 1, "hold_s": 1, "tick_s": 1}
TOKEN = "a-token-of-this-test-0123456789"
YEAR_NS = 365 * 86_400 * 10**9
RECORDINGS = ("openai-openinference", "openai-agents-openllmetry", "langfuse")


def run(source: str | Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run `tracline doctor` as a process of its own."""
    line = [str(TRACLINE), "doctor", str(source), "--format", "json", *more]
    return subprocess.run(line, capture_output=True, text=True, timeout=WAIT_S, check=False)


def a_year_ago() -> list[bytes]:
    """Return the requests of some recordings, at times that are over on any clock."""
    requests: list[bytes] = []
    for name in RECORDINGS:
        for data in requests_of(FOLDER / name / "otlp" / "requests.pb.zst"):
            request = ExportTraceServiceRequest.FromString(data)
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        span.start_time_unix_nano -= YEAR_NS
                        span.end_time_unix_nano -= YEAR_NS
            requests.append(request.SerializeToString())
    return requests


def asked(serving: Serving, wanted: list[dict[str, Any]]) -> tuple[int, list[dict[str, Any]]]:
    """Ask until the answer is the one that is wanted, or for too long; the last exit code and answer."""
    until = time.monotonic() + WAIT_S
    while True:
        done = run(serving.url, "--token", TOKEN)
        found = json.loads(done.stdout)
        if found == wanted or time.monotonic() > until:
            return done.returncode, found


def test_a_running_serve_says_what_a_dump_says(tmp_path: Path) -> None:
    """The same array, behind the token; what is no answer of a `serve`, or none at all, is TRL606."""
    requests = a_year_ago()
    write_dump(tmp_path / "spans.pb.zst", requests)
    dump = run(tmp_path / "spans.pb.zst")
    wanted = json.loads(dump.stdout)
    assert {one["scope"]: one["lacks"] for one in wanted if one["lacks"]} == {
        "opentelemetry.instrumentation.openai_agents": ["session"]
    }
    with running(tmp_path, shipped_packs()[0], "--token", TOKEN, sessions=QUICK) as serving:
        before = run(serving.url, "--token", TOKEN)
        assert (before.returncode, before.stdout.strip()) == (0, "[]")
        for body in requests:
            headers = {"content-type": "application/x-protobuf", "authorization": f"Bearer {TOKEN}"}
            assert serving.send(body, headers).status_code == 200
        assert asked(serving, wanted) == (1, wanted)
        for source, more, what in (
            (serving.url, (), "asks for a token"),
            (serving.url, ("--token", TOKEN + "x"), "asks for a token"),
            (f"{serving.url}/metrics", ("--token", TOKEN), "answers 404"),
            (f"{serving.url}/healthz?", ("--token", TOKEN), "answers with something else"),
        ):
            refused = run(source, *more)
            assert refused.returncode == 2
            assert "TRL606" in refused.stderr
            assert what in refused.stderr
            assert not refused.stdout
        assert serving.stop() == 0, serving.said


@pytest.mark.parametrize("address", [f"http://127.0.0.1:{free_port()}", "http://[::1", "https://127.0.0.1:1"])
def test_nobody_there_is_an_error(address: str) -> None:
    """Where nobody listens, or the address is none, the error says what to do."""
    done = run(address)
    assert done.returncode == 2
    assert "TRL606" in done.stderr
    assert "start it" in done.stderr
