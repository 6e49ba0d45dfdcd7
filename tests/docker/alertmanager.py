"""A real Alertmanager, Debian's; where there is none the tests skip, or fail where they are asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from tracline.examples.local_kafka import free_port

ROOT = Path(__file__).parents[2]
REQUIRED = os.environ.get("TRACLINE_REQUIRE_KAFKA") == "1"
WAIT_S = 40.0
POLL_S = 0.1
QUICK = False
"""Without TLS no authority need be known: to read all that the system knows takes longer than to ask."""


def need(command: str, package: str) -> str:
    """The path of a command; skips, or fails where the pipeline's tests are asked for, without it."""
    path = shutil.which(command)
    if path is None and REQUIRED:
        pytest.fail(f"there is no {command} here, and TRACLINE_REQUIRE_KAFKA asks for it: {package}")
    if path is None:
        pytest.skip(f"there is no {command} here: apt-get install {package}")
    return path


def until(what: str, is_so: Callable[[], Any], *, within_s: float = WAIT_S) -> Any:
    """Wait until it is so, and give what it then is."""
    deadline = time.monotonic() + within_s
    while not (result := is_so()):
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        threading.Event().wait(POLL_S)
    return result


@dataclass
class RunningAlertmanager:
    """An Alertmanager whose data are in `folder`; it can be stopped, and comes back on the same port."""

    path: str
    config: Path
    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [
            self.path,
            f"--config.file={self.config}",
            f"--storage.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
        ]
        self.folder.mkdir(exist_ok=True, parents=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        until("Alertmanager answers", self._answers)

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(WAIT_S)
            self.process = None

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that fire, as its API has them."""
        return httpx.get(f"{self.url}/api/v2/alerts", verify=QUICK).raise_for_status().json()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready", verify=QUICK).is_success
        except httpx.TransportError:
            return False


@contextmanager
def alertmanager(folder: Path, config: Path | None = None) -> Iterator[RunningAlertmanager]:
    """One that runs with the configuration that ships, or another one."""
    path = need("prometheus-alertmanager", "prometheus-alertmanager")
    running = RunningAlertmanager(path, config or ROOT / "docker/alertmanager/alertmanager.yml", folder)
    running.start()
    try:
        yield running
    finally:
        running.stop()
