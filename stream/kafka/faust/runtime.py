"""The runtime of the monitor over Kafka: its time, reports, metrics and chains."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from ....predict.following.loaded_chains import LoadedChains
from ...messages.topics import Topic
from ...process.monitor_metrics import MonitorMetrics

SENDS = (Topic.JUDGED, Topic.VERDICTS, Topic.DEAD_LETTER)


@dataclass(frozen=True, slots=True)
class MonitorRuntime:
    """The runtime of the process: its time (ns since the epoch), reports and metrics.

    After `timeout_s` without a heartbeat the group assigns its partitions to others. `fail` reports an error
    and ends the process at once. The process stops when `stopping` is set. Activations name one of the
    `chains`, and `chain` is the digest of that of the rules of the start.
    """

    timeout_s: float
    metrics: MonitorMetrics
    report: Callable[[str], None]
    fail: Callable[[BaseException], NoReturn]
    stopping: threading.Event
    now: Callable[[], int] = time.time_ns
    chains: LoadedChains = field(default_factory=LoadedChains)
    chain: str | None = None

    @property
    def sends(self) -> tuple[Topic, ...]:
        """Return the topics that the process writes."""
        return topics_sent(self.chains)


def topics_sent(chains: LoadedChains) -> tuple[Topic, ...]:
    """Return the topics that a monitor with these chains writes."""
    return (*SENDS, Topic.RISK) if chains.digests else SENDS
