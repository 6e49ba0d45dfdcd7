"""`tracline serve` as a user meets it: the process, its ports, its end, and what it refuses."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tracline.batch.audit.as_judged import audit_as_judged
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.packs.load import shipped_packs
from tracline.schemas.span import Span
from tracline.stream.ingest.request import Encoding

from ..support.conversations.scripts import START_NS
from ..support.processes.live import audited, wire
from ..support.processes.serving import (
    JSON,
    PLAIN,
    PROTOBUF,
    WAIT_S,
    Serving,
    audit_of,
    free_port,
    rows,
    run_to_end,
    running,
)

QUICK = {"lateness_s": 1, "tick_s": 1}
BOUND_S = QUICK["lateness_s"] + QUICK["tick_s"] + 1
BOT_SESSIONS = 16
"""So many that the feed shows at once all that they break."""
FIRST_SESSIONS = 4
"""Sessions before them: a process that has loaded its loops, or compiled them, has judged these."""
COMPILED_S = 300.0
"""The time that a test waits for them: without a cache a busy machine compiles for minutes."""
Broken = set[tuple[str, str, str]]
"""Broken rules: session, pack, rule."""


def run_bot(url: str, sessions: int, seed: int) -> Broken:
    """Have the instrumented bot send its spans there, and return the rules it broke."""
    line = [sys.executable, "-m", "tracline.examples.instrumented_bot", "--endpoint", url]
    line += ["--sessions", str(sessions), "--seed", str(seed), "--break", "0.9"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=WAIT_S, check=True)
    broken = [json.loads(text) for text in done.stdout.splitlines()]
    return {(rule["session_id"], rule["pack"], rule["rule"]) for rule in broken}


def news(url: str, wait_s: float = WAIT_S) -> Iterator[str]:
    """The console's live feed, line by line, as it comes; it ends where the test has waited enough."""
    until = time.monotonic() + wait_s
    with httpx.stream("GET", f"{url}/feed", timeout=WAIT_S) as feed:
        for line in feed.iter_lines():
            yield line
            if time.monotonic() > until:
                return


@pytest.mark.slow
@pytest.mark.alone
def test_violations_of_an_agent_with_the_plain_sdk_are_given_in_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bot's broken rules are in the console's feed and the store, each in time, and no others.

    After SIGTERM the process ends with 0 and everything is archived, with the rules: an audit finds the same
    verdicts, by rules that are named and as judged.
    """
    packs = [str(pack) for pack in shipped_packs()]
    more = [word for pack in packs[1:] for word in ("--rules", pack)]
    with running(tmp_path, packs[0], *more, sessions=QUICK) as serving:
        first = played(serving.url, FIRST_SESSIONS, 12, COMPILED_S)
        broken = played(serving.url, BOT_SESSIONS, 11)
        assert serving.stop() == 0, serving.log
    given = rows(tmp_path, "SELECT id, session_id, pack, rule, verdict FROM verdict")
    assert {row[1:4] for row in given if row[4] in ("violated", "unmet")} == broken | first
    assert len(broken) > 10
    assert audited(tmp_path / "archive", packs, tmp_path / "bundle").keys() == {row[0] for row in given}
    audit_as_judged(tmp_path / "archive", tmp_path / "as-judged", AuditOptions())
    bundles = [tmp_path / name / "verdicts.jsonl" for name in ("bundle", "as-judged")]
    assert bundles[0].read_bytes() == bundles[1].read_bytes()
    begun = {session_id for session_id, _, _ in first}
    waited = sorted(seconds for session_id, seconds in rows(tmp_path, WAITED) if session_id not in begun)
    assert len(waited) == sum(row[1] not in begun for row in given)
    with capsys.disabled():
        print(f"\n{len(waited)} verdicts, the slowest {waited[-1]:.2f} s after its turn ended")
    assert waited[-1] < BOUND_S


def played(url: str, sessions: int, seed: int, wait_s: float = WAIT_S) -> Broken:
    """Have the bot play sessions, wait until the feed shows what they break, and return that."""
    broken = run_bot(url, sessions, seed)
    waiting = {session_id for session_id, _, _ in broken}
    for line in news(url, wait_s):
        waiting -= {session_id for session_id in waiting if session_id in line}
        if not waiting:
            break
    assert not waiting
    return broken


WAITED = """
SELECT verdict.session_id, (verdict.given - max(other.time)) / 1e9
FROM verdict
JOIN event USING (session_id, occurrence, seq)
JOIN event AS other ON other.row ->> 'trace_id' = event.row ->> 'trace_id'
GROUP BY verdict.id
"""
"""The delay of each verdict after the last event of its trace, which is before its root came."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, pack: Path) -> Iterator[tuple[Serving, Path]]:
    """A process that serves, and the folder of its state."""
    folder = tmp_path_factory.mktemp("served")
    with running(folder, pack, sessions={"tick_s": 3_600}) as serving:
        yield serving, folder


@pytest.mark.slow
def test_a_port_that_is_taken_is_an_error(served: tuple[Serving, Path], pack: Path, tmp_path: Path) -> None:
    """The error has the address and a hint; the exit code is 2."""
    done = run_to_end(tmp_path, pack, served[0].port, "--grpc-port", "0")
    assert done.returncode == 2
    assert "TRL713" in done.stderr
    assert f"127.0.0.1:{served[0].port}" in done.stderr
    done = run_to_end(tmp_path, pack, free_port(), "--grpc-port", str(served[0].port))
    assert (done.returncode, "TRL713" in done.stderr) == (2, True), done.stderr


@pytest.mark.slow
def test_a_store_that_another_process_has_open_is_an_error(served: tuple[Serving, Path], pack: Path) -> None:
    """Two processes on one state would each judge half of it."""
    done = run_to_end(served[1], pack, free_port(), "--grpc-port", "0")
    assert done.returncode == 2
    assert "TRL703" in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.slow
def test_an_address_that_others_reach_needs_a_token(pack: Path, tmp_path: Path) -> None:
    """Without one the process does not start."""
    done = run_to_end(tmp_path, pack, free_port(), "--host", "0.0.0.0", "--grpc-port", "0")
    assert (done.returncode, "TRL711" in done.stderr) == (2, True), done.stderr


@pytest.mark.slow
def test_spans_that_are_not_read_are_reported(tmp_path: Path, pack: Path) -> None:
    """The log has it once, the page and a metric show it; the page also after a restart."""
    spans = [
        Span(f"{n:032x}", f"{n:016x}", None, "x", START_NS, START_NS, scope="sdk-x") for n in range(1, 39)
    ]
    with running(tmp_path, pack, sessions=QUICK) as serving:
        assert serving.send(wire(spans[:30], Encoding.PROTOBUF)).status_code == 200
        until_in("30 spans, none contains a conversation; scopes: sdk-x 30", lambda: serving.log)
        assert serving.send(wire(spans[30:], Encoding.PROTOBUF)).status_code == 200
        counted = 'tracline_spans_unread_total{scope="sdk-x"} 38.0'
        until_in(counted, lambda: httpx.get(f"{serving.url}/metrics", verify=PLAIN).text)
        assert serving.stop() == 0
        assert serving.log.count("none contains") == 1
    with running(tmp_path, pack, sessions=QUICK) as serving:
        line = "38 spans, none contains a conversation; scopes: sdk-x 38"
        assert line in httpx.get(serving.url, verify=PLAIN).text


@pytest.mark.slow
def test_an_unjudged_session_shows_what_to_set(tmp_path: Path, pack: Path) -> None:
    """Its page and its record name the instrumentation and its switch; an audit gives the same record."""
    scope = "opentelemetry.instrumentation.openai_v2"
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "silent"}
    span = Span("1" * 32, "1" * 16, None, "chat", START_NS, START_NS + 1, attributes, scope=scope)
    query = "SELECT record FROM verdict WHERE verdict = 'unjudged'"
    with running(tmp_path, pack, sessions=QUICK) as serving:
        assert serving.send(wire([span], Encoding.PROTOBUF)).status_code == 200
        until_in("silent", lambda: str(rows(tmp_path, query)))
        page = httpx.get(f"{serving.url}/sessions/silent", verify=PLAIN).text
        assert serving.stop() == 0
    assert (
        f"messages not captured ({scope}: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true" in page
    )
    given = {
        verdict["id"]: verdict for verdict in (json.loads(record) for (record,) in rows(tmp_path, query))
    }
    assert {verdict["missing"]["scope"] for verdict in given.values()} == {scope}
    assert audit_of(tmp_path, pack, tmp_path / "bundle") == given


def until_in(text: str, log: Callable[[], str]) -> None:
    """Wait until the log has it."""
    until = time.monotonic() + WAIT_S
    while text not in log():
        assert time.monotonic() < until, log()
        threading.Event().wait(0.05)


HOSTILE = {
    "no protobuf": (b"\xff" * 100, PROTOBUF),
    "cut off": (b"\x0a\xff\x7f\x0a", PROTOBUF),
    "no JSON": (b'{"resourceSpans": [', JSON),
    "deep JSON": (b"[" * 100_000, JSON),
    "a bomb": (gzip.compress(bytes(200 << 20)), {**PROTOBUF, "content-encoding": "gzip"}),
    "no gzip": (b"not gzip", {**PROTOBUF, "content-encoding": "gzip"}),
    "another type": (b"hello", {"content-type": "text/plain"}),
}
"""Requests that cannot be taken."""


def span(trace_id: str = "5e" * 16) -> Span:
    """A span without content."""
    return Span(trace_id, "5e" * 8, None, "nothing", START_NS, START_NS + 1)


@pytest.mark.slow
def test_hostile_requests_are_refused_and_the_process_lives(served: tuple[Serving, Path]) -> None:
    """Each gets an error of the sender's; the store has dead letters of those that could be stored."""
    serving, folder = served
    answers = {name: serving.send(body, headers).status_code for name, (body, headers) in HOSTILE.items()}
    assert set(answers.values()) <= {400, 413, 415}, answers
    no_ids = wire([span(trace_id="00" * 16), span()], Encoding.PROTOBUF)
    assert serving.send(no_ids).status_code == 200
    assert httpx.get(f"{serving.url}/healthz").status_code == 200
    letters = rows(folder, "SELECT code, sha256 FROM dead_letter")
    assert len(letters) >= 4
    assert all(code.startswith(("otlp-", "json")) and len(digest) == 64 for code, digest in letters)
