"""Processes of `tracline` that are forked from a server which has imported the product.

A short process spends most of its processor time on imports. The server does them once. A forked process has
its own id, arguments, environment, folder and output, and SIGKILL ends it like any other process.
The trial of rules at its start is forked, too. `test_forking.py` compares it with the command.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NoReturn

ROOT = Path(__file__).parents[3]
IMPORTED = (
    "tracline.cli",
    "tracline.cli.commands.stream.group",
    "tracline.cli.commands.audit.audit",
    "tracline.cli.commands.live.serve",
    "tracline.batch.audit.audit",
    "tracline.stream.serve.pipeline",
    "tracline.rules.engine.trial",
    "tracline.stream.process.trial",
    "tracline.stream.kafka.health",
    "tracline.stream.serve.service",
    *(f"tracline.cli.commands.stream.{name}" for name in ("rekey", "monitor", "archive", "alerts")),
    *(
        f"tracline.stream.kafka.{name}"
        for name in ("rekey_process", "archive_process", "alerts_process", "faust.monitor_process")
    ),
    *(f"faust.{name}" for name in ("app.router", "assignor.partition_assignor", "topics", "worker")),
    *("uvicorn", "uvicorn.lifespan.on", "uvicorn.protocols.http.h11_impl", "starlette.applications"),
    *("anyio._backends._asyncio", "encodings.idna", "pyarrow.compute", "pydantic.main"),
    *("pydantic.dataclasses", "pydantic.type_adapter"),
)
"""The modules that the server imports before its first fork; a process imports any others itself."""
REQUEST_BYTES_MAX = 150_000
FILES_MAX = 4_096
"""Files of a process are below this number when it begins a trial."""


@dataclass
class ForkedProcess:
    """A forked process; its methods are those of `subprocess.Popen`."""

    pid: int
    _statuses: IO[bytes]
    returncode: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def poll(self) -> int | None:
        """Return the exit code, minus the signal that ended the process; None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process, and return its exit code."""
        with self._lock:
            if self.returncode is None:
                ended, _, _ = select.select([self._statuses], [], [], timeout)
                if not ended:
                    raise subprocess.TimeoutExpired("tracline", timeout or 0)
                with self._statuses:
                    self.returncode = int(self._statuses.readline())
            return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it has not ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)


class ForkServer:
    """The client of a server process, which ends when this process does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            command = [sys.executable, "-m", __name__, str(there.fileno())]
            self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[there.fileno()])
        atexit.register(self.close)

    def close(self) -> None:
        """End the server; processes that it has forked go on."""
        self._requests.close()
        self._process.wait()

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        output: IO[Any],
        errors: IO[Any],
        folder: Path | None = None,
        files: int | None = None,
    ) -> ForkedProcess:
        """Start `tracline` with these arguments; `files` is how many files it may have open."""
        request = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "folder": str(folder or Path.cwd()),
            "files": files,
        }
        reader, writer = os.pipe()
        statuses = os.fdopen(reader, "rb", buffering=0)
        try:
            with self._lock:
                files = [output.fileno(), errors.fileno(), writer]
                socket.send_fds(self._requests, [json.dumps(request).encode()], files)
        finally:
            os.close(writer)
        return ForkedProcess(int(statuses.readline()), statuses)


@cache
def fork_server() -> ForkServer:
    """Return the server of this process."""
    return ForkServer()


def start(
    arguments: Sequence[str | Path], environment: Mapping[str, str], log: Path, folder: Path | None = None
) -> ForkedProcess:
    """Start `tracline` with these arguments; its output is appended to the log."""
    with log.open("ab") as output:
        return fork_server().start([*map(str, arguments)], environment, output, output, folder)


def run(
    arguments: Sequence[str | Path],
    environment: Mapping[str, str],
    timeout_s: float,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `tracline` with these arguments to its end."""
    words = [*map(str, arguments)]
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        process = fork_server().start(words, environment, output, errors, folder)
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(["tracline", *words], code, output.read(), errors.read())


def _serve(requests: socket.socket) -> None:
    """Fork a process for every request, until the client has ended; return in each of these processes."""
    from numba.core.registry import cpu_target

    for module in IMPORTED:
        import_module(module)
    # Numba imports most of its modules when it loads the first compiled function.
    cpu_target.target_context.refresh()
    gc.freeze()
    while True:
        message, files, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 3)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            break
        for file in files:
            os.close(file)
        # Those that watch over a process have ended before.
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    requests.close()
    *outputs, statuses = files
    _watch(statuses)
    os.close(statuses)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    for number, file in enumerate(outputs, start=1):
        os.dup2(file, number)
        os.close(file)
    request = json.loads(message)
    if request["files"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (request["files"], request["files"]))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["tracline", *request["arguments"]]


def _fork_trials() -> None:
    """Fork each trial of rules that begins while the process has no other thread; others are commands."""
    from tracline.stream.process import trial

    start = trial._start

    def start_forked(*words: str) -> subprocess.Popen[bytes]:
        if threading.active_count() > 1:
            return start(*words)

        def run() -> None:
            # It ends before it would execute anything, and closes the pipe that reports that.
            os.closerange(3, FILES_MAX)
            sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
            sys.argv[1:] = words
            code = trial._main()
            sys.stdout.flush()
            os._exit(code)

        pipe = subprocess.PIPE
        return subprocess.Popen("", stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, preexec_fn=run)

    trial._start = start_forked


def _watch(statuses: int) -> None:
    """Return in a new process; this one reports its id and then its exit code."""
    process = os.fork()
    if process == 0:
        return
    os.write(statuses, b"%d\n" % process)
    _, status = os.waitpid(process, 0)
    os.write(statuses, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _end(code: int) -> NoReturn:
    """End as Python does, but destroy no objects.

    Most are the server's, and each that is destroyed is copied first: that took 0.15 s of processor time.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
    _fork_trials()
    from tracline.cli import main

    try:
        main()
    except SystemExit as end:
        if isinstance(end.code, int):
            _end(end.code)
        raise
