"""Places where a test may kill the process, to see that nothing acknowledged is lost there.

Set `TRACLINE_FAULT` to `name:n` and the process kills itself the n-th time it comes to that place; with
`name:n:asleep` it falls asleep there, until it is sent SIGCONT.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from enum import StrEnum

VARIABLE = "TRACLINE_FAULT"


class ServeFault(StrEnum):
    """The gaps between what must happen in order."""

    RECEIVED = "received"
    """Requests came and are not on disk."""
    ACCEPTED = "accepted"
    """Requests are on disk and not acknowledged."""
    ACKNOWLEDGED = "acknowledged"
    """Requests are acknowledged and not judged."""
    JUDGED = "judged"
    """What a batch changed is not written."""
    COMMITTED = "committed"
    """What a batch changed is written."""
    ARCHIVING = "archiving"
    """It is noted which events are archived next, and nothing is written."""
    WRITTEN = "written"
    """An archive file is written and entered, which is not noted."""
    ARCHIVED = "archived"
    """It is noted that the events are archived."""
    MARKING = "marking"
    """All events up to the watermark are archived, and the archive does not say so."""


class RekeyFault(StrEnum):
    """The gaps in one transaction of the rekeyer."""

    RECEIVED = "rekey-received"
    """Records are read and not taken in."""
    TAKEN = "rekey-taken"
    """Records are taken in, and nothing is sent."""
    PRODUCED = "rekey-produced"
    """All outputs are written in a transaction that says no offsets."""
    OFFSETS = "rekey-offsets"
    """Outputs and offsets are in a transaction that is not committed."""
    COMMITTED = "rekey-committed"
    """The transaction is committed, and the process knows no more of it."""


class ArchiveFault(StrEnum):
    """The gaps while judged events of one partition are archived."""

    RECEIVED = "archive-received"
    """Messages are read and not gathered."""
    WRITING = "archive-writing"
    """It is entered which range is archived next, and nothing is written."""
    WRITTEN = "archive-written"
    """The files are written and not entered."""
    ENTERED = "archive-entered"
    """The files are entered, and the manifest does not say that the range is done."""
    COMMITTED = "archive-committed"
    """The range is done and its offsets are committed."""


class AlertFault(StrEnum):
    """The gaps between verdicts that are read and alerts that are delivered."""

    RECEIVED = "alerts-received"
    """Messages are read and not taken in."""
    STEPPED = "alerts-stepped"
    """Messages are taken in, and nothing is sent."""
    PRODUCED = "alerts-produced"
    """Alerts and state are in a transaction that is not committed."""
    COMMITTED = "alerts-committed"
    """The transaction is committed, and nobody was told of its alerts."""
    DELIVERED = "alerts-delivered"
    """Receivers have an alert, and it is not noted that they do."""


class TrialFault(StrEnum):
    """The place where a trial of rules may die."""

    RULE = "trial-rule"
    """A rule is about to be tried; it is counted from the first of the set."""


class MonitorFault(StrEnum):
    """The gaps while the monitor works a message off."""

    RECEIVED = "monitor-received"
    """A message is read, and nothing is judged."""
    STEPPED = "monitor-stepped"
    """It is judged, and nothing is sent."""
    PRODUCED = "monitor-produced"
    """Kafka has its outputs, and nothing of the state."""
    WRITTEN = "monitor-written"
    """The state is sent, and it is not known what of it Kafka has."""
    ACKNOWLEDGED = "monitor-acknowledged"
    """Kafka has the state, and the process's own table does not."""
    COMMITTED = "monitor-committed"
    """The group's offset is behind the message."""


_met: Counter[StrEnum] = Counter()


def fault_point(fault: StrEnum) -> None:
    """Come to that place; the process ends here where a test wants it to."""
    wanted = os.environ.get(VARIABLE)
    if wanted is not None:
        _met[fault] += 1
        if wanted == f"{fault}:{_met[fault]}":
            os.kill(os.getpid(), signal.SIGKILL)
        elif wanted == f"{fault}:{_met[fault]}:asleep":
            os.kill(os.getpid(), signal.SIGSTOP)
