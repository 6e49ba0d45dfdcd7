"""A process of the pipeline as a supervisor starts, asks, stops and kills it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.process.faultpoints import VARIABLE

from . import forking

WAIT_S = 60.0
"""The time that a test waits for anything."""
TIMEOUT_S = "6" if "KAFKA_BOOTSTRAP_SERVERS" in os.environ else "2"
"""The time that a process may be silent; brokers allow six seconds at least unless configured otherwise."""
DYING_S = "6" if "KAFKA_BOOTSTRAP_SERVERS" in os.environ else "1"
"""The seconds for which a process that is to be killed may be silent; its successor waits as long."""
POLL_S = 0.1


@dataclass(frozen=True)
class Stage:
    """A process of `tracline stream`; its output goes to `log`."""

    process: forking.ForkedProcess
    log: Path

    def metric(self, name: str) -> list[float]:
        """The values of a metric, one for each of its labels; none while the process does not answer."""
        ports = re.findall(r"health on http://127\.0\.0\.1:(\d+)", self.log.read_text())
        if not ports:
            return []
        try:
            with urlopen(f"http://127.0.0.1:{ports[-1]}/metrics", timeout=WAIT_S) as answer:
                text: str = answer.read().decode()
        except (OSError, HTTPException):
            return []
        return [float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE)]

    def until(self, name: str, holds: Callable[[list[float]], bool], within_s: float = WAIT_S) -> None:
        """Wait until that holds of a metric's values; an AssertionError where the process ends before."""
        limit = time.monotonic() + within_s
        while not holds(values := self.metric(name)):
            assert time.monotonic() < limit, f"{name}: {values}\n{self.log.read_text()}"
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(POLL_S)
                raise AssertionError(f"it has ended:\n{self.log.read_text()}")

    @property
    def lines(self) -> list[str]:
        """Return the lines of the log."""
        return self.log.read_text().splitlines()

    @property
    def is_asleep(self) -> bool:
        """Return whether SIGSTOP has stopped the process: its state, behind its name in brackets, is T."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def stop(self) -> int:
        """Ask the process to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        """Wait for the end of the process; its exit code, minus the signal where one killed it."""
        return self.process.wait(WAIT_S)


def environment(kafka: KafkaSettings) -> dict[str, str]:
    """Return the settings for the broker and the names that a process gets."""
    return os.environ | {
        "TRACLINE_KAFKA_BOOTSTRAP_SERVERS": ",".join(kafka.bootstrap_servers),
        "TRACLINE_KAFKA_PREFIX": kafka.prefix,
        "TRACLINE_KAFKA_SPANS_TOPIC": kafka.spans_topic,
        "TRACLINE_KAFKA_LOGS_TOPIC": kafka.logs_topic,
    }


def ran(
    kafka: KafkaSettings, *arguments: str | Path, fault: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Return the output of `tracline stream` with these arguments, once it has ended."""
    settings = environment(kafka) | ({} if fault is None else {VARIABLE: fault})
    return forking.run(["stream", *arguments], settings, WAIT_S)


@contextmanager
def running(
    kafka: KafkaSettings, log: Path, *arguments: str, fault: str | None = None, **variables: str
) -> Iterator[Stage]:
    """Run `tracline stream` with these arguments; the process does not outlive the block."""
    log.parent.mkdir(parents=True, exist_ok=True)
    settings = environment(kafka) | variables | ({} if fault is None else {VARIABLE: fault})
    process = forking.start(["stream", *arguments], settings, log)
    try:
        yield Stage(process, log)
    finally:
        process.kill()
        process.wait(WAIT_S)
