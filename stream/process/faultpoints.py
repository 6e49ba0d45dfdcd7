"""Fault points: where a test may kill the process, to check that it loses nothing acknowledged.

With `TRACLINE_FAULT` set to `name:n` the process kills itself at the n-th pass of that fault point; with
`name:n:asleep` it stops there until it gets SIGCONT.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from enum import StrEnum

VARIABLE = "TRACLINE_FAULT"


class ServeFault(StrEnum):
    """The fault points of `tracline serve`, between steps whose order matters."""

    RECEIVED = "received"
    """Requests have arrived and are not on disk."""
    ACCEPTED = "accepted"
    """Requests are on disk and not acknowledged."""
    ACKNOWLEDGED = "acknowledged"
    """Requests are acknowledged and not judged."""
    JUDGED = "judged"
    """A batch is judged and not committed."""
    COMMITTED = "committed"
    """A batch is committed."""
    ARCHIVING = "archiving"
    """The range to archive is noted, and no file is written."""
    WRITTEN = "written"
    """An archive file is written and in the manifest, which is not noted."""
    ARCHIVED = "archived"
    """The events are noted as archived."""
    MARKING = "marking"
    """All events up to the watermark are archived, and the manifest does not have the watermark."""


class RekeyFault(StrEnum):
    """The fault points in one transaction of the rekeyer."""

    RECEIVED = "rekey-received"
    """Records are read and not processed."""
    TAKEN = "rekey-taken"
    """Records are processed, and nothing is sent."""
    PRODUCED = "rekey-produced"
    """All outputs are in a transaction without offsets."""
    OFFSETS = "rekey-offsets"
    """Outputs and offsets are in a transaction that is not committed."""
    COMMITTED = "rekey-committed"
    """The transaction is committed, and the process has done nothing since."""


class ArchiveFault(StrEnum):
    """The fault points while the archiver archives one partition."""

    RECEIVED = "archive-received"
    """Messages are read and not buffered."""
    WRITING = "archive-writing"
    """The range to archive is in the manifest, and no file is written."""
    WRITTEN = "archive-written"
    """The files are written and not in the manifest."""
    ENTERED = "archive-entered"
    """The files are in the manifest, and the range is not marked as done."""
    COMMITTED = "archive-committed"
    """The range is marked as done and its offsets are committed."""


class AlertFault(StrEnum):
    """The fault points between reading verdicts and delivering alerts."""

    RECEIVED = "alerts-received"
    """Messages are read and not processed."""
    STEPPED = "alerts-stepped"
    """Messages are processed, and nothing is sent."""
    PRODUCED = "alerts-produced"
    """Alerts and state are in a transaction that is not committed."""
    COMMITTED = "alerts-committed"
    """The transaction is committed, and its alerts are not delivered."""
    DELIVERED = "alerts-delivered"
    """Receivers have an alert, and the delivery is not noted."""


class TrialFault(StrEnum):
    """The fault point of a trial of rules."""

    RULE = "trial-rule"
    """A rule is about to be tried; rules count from the first of the set."""


class MonitorFault(StrEnum):
    """The fault points while the monitor processes the messages that have come."""

    RECEIVED = "monitor-received"
    """Messages are read, and nothing is judged."""
    STEPPED = "monitor-stepped"
    """The messages are judged, and nothing is sent."""
    PRODUCED = "monitor-produced"
    """Kafka has the outputs, and nothing of the state."""
    WRITTEN = "monitor-written"
    """The state is sent and not acknowledged."""
    ACKNOWLEDGED = "monitor-acknowledged"
    """Kafka has the state, and the local table does not."""
    COMMITTED = "monitor-committed"
    """The group's offset is committed."""


_passes: Counter[StrEnum] = Counter()


def fault_point(fault: StrEnum) -> None:
    """Pass a fault point: the process ends or stops here where a test asks for it."""
    wanted = os.environ.get(VARIABLE)
    if wanted is not None:
        _passes[fault] += 1
        if wanted == f"{fault}:{_passes[fault]}":
            os.kill(os.getpid(), signal.SIGKILL)
        elif wanted == f"{fault}:{_passes[fault]}:asleep":
            os.kill(os.getpid(), signal.SIGSTOP)
