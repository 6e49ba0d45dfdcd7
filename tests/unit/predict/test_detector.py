"""Single runs of the detector: numbers stay finite, and an alarm resolves."""

from __future__ import annotations

import math

import pytest
from tracline.predict.detector import AlarmState, DetectorSettings, DetectorState, Tolerated, step


@pytest.mark.slow
def test_nothing_overflows_over_many_ticks() -> None:
    """A hundred thousand ticks leave finite numbers: quiet ones, breaches without end, and both in turn."""
    tolerated = Tolerated(1e-9), Tolerated(0.999999)
    settings = DetectorSettings(ratios=(10.0,), arl_ticks=10**300, violating_min=10**15)
    state = DetectorState()
    for tick in range(100_000):
        k = (0, 1_000_000, tick % 2 * 1_000_000)[tick // 33_334]
        state, _ = step(state, k, 1_000_000, tolerated[tick // 100 % 2], settings)
        if tick % 1_000 < 2:
            assert all(map(math.isfinite, (*state.evidence, state.drift)))
    assert state.evidence


def test_an_alarm_is_resolved_by_quiet_ticks() -> None:
    """After a spike, ticks without a violation resolve the alarm within the number of ticks that is set."""
    settings, tolerated = DetectorSettings(arl_ticks=100, resolve_ticks=5), Tolerated(0.05)
    state, alarm = DetectorState(), None
    while alarm is None:
        state, alarm = step(state, 5, 10, tolerated, settings)
    assert alarm.state is AlarmState.FIRED
    alarms = []
    for _ in range(5):
        state, alarm = step(state, 0, 10, tolerated, settings)
        alarms.append(alarm)
    turns = [alarm.state for alarm in alarms if alarm is not None]
    assert turns == [AlarmState.RESOLVED]
