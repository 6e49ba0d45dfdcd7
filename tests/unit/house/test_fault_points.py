"""Every fault point has a test that kills a real process there."""

from __future__ import annotations

from enum import StrEnum

from tracline.stream.process import faultpoints

from ...kafka import test_alerts, test_proof
from ...serve import test_kill
from ..stream import test_trial

KILLED_AT = (*test_alerts.KILLED_AT, *test_proof.KILLED_AT, *test_kill.KILLED_AT, *test_trial.KILLED_AT)
"""The fault points at which these modules kill a process with SIGKILL; their tests see it die there."""


def test_a_process_is_killed_at_every_fault_point() -> None:
    """No fault point is without such a test, and no test names one that is gone."""
    kinds = [
        kind for kind in vars(faultpoints).values() if isinstance(kind, type) and issubclass(kind, StrEnum)
    ]
    fault_points = [fault for kind in kinds for fault in kind]
    assert len(fault_points) > 20
    assert sorted(fault_points) == sorted(KILLED_AT)
