"""`tracline serve` as a user starts, feeds, stops and kills it: a process of its own on free ports."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx
from tracline.stream.process.faultpoints import VARIABLE
from tracline.stream.serve.store import FILE

from ..http.alertmanager import until
from . import forking
from .forking import ForkedProcess, fork_server

TRACLINE = Path(sys.executable).with_name("tracline")
WAIT_S = 60.0
"""The time that a test waits for anything."""
PLAIN = False
"""No certificates are read, which takes longer than a request: none is shown where there is no TLS."""
PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@dataclass
class Serving:
    """A process that serves: its address, and its standard error, which `log` returns."""

    process: ForkedProcess
    stderr: IO[str]
    port: int
    lines: list[str] = field(default_factory=list)
    reader: threading.Thread | None = None
    ready: threading.Event = field(default_factory=threading.Event)

    def listen(self) -> None:
        """Read the log of the process until it has ended."""
        with self.stderr:
            for line in self.stderr:
                self.lines.append(line)
                if "OTLP/HTTP on" in line:
                    self.ready.set()
        self.ready.set()

    @property
    def url(self) -> str:
        """The address of receiver and console."""
        return f"http://127.0.0.1:{self.port}"

    def send(self, body: bytes, headers: Mapping[str, str] = PROTOBUF) -> httpx.Response:
        """Send a request of spans. Raises httpx.TransportError where the process dies before it answers."""
        return httpx.post(
            f"{self.url}/v1/traces", content=body, headers=dict(headers), timeout=WAIT_S, verify=PLAIN
        )

    def stop(self) -> int:
        """Ask the process to end, as a supervisor does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        """Wait for the end of the process; its exit code, minus the signal where one killed it."""
        code = self.process.wait(WAIT_S)
        assert self.reader is not None
        self.reader.join(WAIT_S)
        return code

    @property
    def log(self) -> str:
        """Return the log of the process."""
        return "".join(self.lines)


def command(folder: Path, pack: str | Path, port: int, *more: str) -> list[str]:
    """The arguments of a process whose state and archive are in that folder."""
    paths = ["--state", str(folder / "state"), "--archive", str(folder / "archive")]
    return ["serve", "--rules", str(pack), *paths, "--port", str(port), *more]


def start(
    folder: Path,
    pack: str | Path,
    *more: str,
    sessions: Mapping[str, object],
    fault: str | None = None,
    files: int | None = None,
) -> Serving:
    """Start a process and wait until it listens (or has ended); `sessions` are settings by name.

    `files` is how many files it may have open. Options in `more` come last, so they win.
    """
    port = free_port()
    settings = {f"TRACLINE_SESSIONS_{name.upper()}": str(value) for name, value in sessions.items()}
    settings |= {} if fault is None else {VARIABLE: fault}
    words = command(folder, pack, port, "--grpc-port", "0", *more)
    variables = os.environ | settings
    process, log = _forked(words, variables, folder, files)
    serving = Serving(process, log, port)
    serving.reader = threading.Thread(target=serving.listen)
    serving.reader.start()
    if not serving.ready.wait(WAIT_S):
        process.kill()
        raise AssertionError(f"it does not listen within {WAIT_S} s")
    return serving


def until_judged(serving: Serving, folder: Path) -> None:
    """Wait until all acknowledged requests are judged, or the process has ended.

    Those that come while a process loads its loops are judged together, so it may pass few fault points.
    """
    until(
        "all is judged",
        lambda: serving.process.poll() is not None or rows(folder, "SELECT count(*) FROM inbox") == [(0,)],
    )


def _forked(
    words: list[str], variables: Mapping[str, str], folder: Path, files: int | None
) -> tuple[ForkedProcess, IO[str]]:
    """Return a forked process, and its standard error."""
    reader, writer = os.pipe()
    with open(os.devnull, "wb") as output, os.fdopen(writer, "wb") as errors:
        process = fork_server().start(words, variables, output, errors, folder, files)
    return process, os.fdopen(reader)


@contextmanager
def running(
    folder: Path,
    pack: str | Path,
    *more: str,
    sessions: Mapping[str, object],
    fault: str | None = None,
    files: int | None = None,
) -> Iterator[Serving]:
    """As `start`; whatever happens, the process does not outlive the test."""
    serving = start(folder, pack, *more, sessions=sessions, fault=fault, files=files)
    try:
        yield serving
    finally:
        serving.process.kill()
        serving.ended()


def run_to_end(folder: Path, pack: str | Path, port: int, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a process that must end by itself."""
    return forking.run(command(folder, pack, port, *more), os.environ, WAIT_S, folder)


def rows(folder: Path, query: str) -> list[tuple]:
    """Return the rows of a query of the store in that folder."""
    with closing(sqlite3.connect(folder / "state" / FILE)) as db:
        return db.execute(query).fetchall()


def lines(text: str) -> Iterable[dict]:
    """Standard output of JSON lines."""
    return [json.loads(line) for line in text.splitlines()]


def audit_of(folder: Path, pack: str | Path, out: Path, *more: str) -> dict[str, dict]:
    """The records by id that the command `tracline audit` finds in the archive; `more` are its options."""
    words = ["audit", folder / "archive", "--rules", pack, "--out", out, *more]
    done = forking.run(words, os.environ, WAIT_S, folder)
    assert done.returncode == 0, done.stderr
    records = lines((out / "verdicts.jsonl").read_text())
    return {record["id"]: record for record in records}
