"""Detection of a risen rate: a Shiryaev-Roberts mixture e-detector over ticks of event time.

Each tick has `violating` of `applicable` sessions. While every session violates with a probability of at most
the tolerated rate, whatever came before it, `exp(log_e(...))` has an expectation of at most 1 in every tick
and for every ratio r. Then

    M_r(t) = e_r(t) * (M_r(t-1) + 1),  M_r(0) = 0
    E(t)   = the mean of M_r(t) over the ratios

is an e-detector: E(t) - t is a supermartingale, so the first t with E(t) >= A is A or more in the mean
(Shin, Ramdas and Rinaldo: E-detectors, The New England Journal of Statistics in Data Science, 2023; the
mixture of Shiryaev-Roberts detectors with equal weights). The state holds logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, log1p

import msgspec

RATIOS = (2.0, 3.0, 5.0, 10.0)
"""The alternatives, as multiples of the tolerated rate."""

NO_EVIDENCE = -math.inf
"""The logarithm of no evidence."""


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """The settings of a detector, in ticks with sessions; the least ratio is first.

    `arl_ticks` is A, the least mean time between false alarms of one detector. While the rate stays at the
    least ratio times the tolerated rate or above, an alarm lasts `resolve_ticks` or more in the mean; after
    that many ticks without a violation it is resolved. An alarm without any session for `stale_ticks` ticks
    is resolved. Fewer violating sessions than `violating_min` never raise an alarm.
    """

    ratios: tuple[float, ...] = RATIOS
    arl_ticks: int = 8640
    resolve_ticks: int = 12
    stale_ticks: int = 288
    violating_min: int = 3

    def __post_init__(self) -> None:
        assert 1 < self.ratios[0] <= min(self.ratios), (
            "alternatives are above the tolerated rate, the least first"
        )
        assert min(self.arl_ticks, self.resolve_ticks, self.stale_ticks) > 0


@dataclass(frozen=True, slots=True)
class Tolerated:
    """The tolerated rate, and its dispersion from tick to tick.

    `dispersion` is the squared coefficient of variation of the rate of a tick, 0 where the sessions of a tick
    are independent.
    """

    rate: float
    dispersion: float = 0.0

    def __post_init__(self) -> None:
        assert 0 < self.rate < 1
        assert 0 <= self.dispersion < math.inf


class DetectorState(msgspec.Struct, frozen=True, gc=False):
    """The state of one detector, as plain data.

    `evidence` is log M of each ratio, empty before the first tick. `drift` is the cumulative sum of log e of
    the least ratio, bounded below by 0; the counts are those since it last was 0, the likeliest time of a
    change (Page, 1954), and continue during an alarm. `recovery` is the logarithm of the evidence that the
    alarm is over, `silent` the number of ticks without sessions during an alarm.
    """

    evidence: tuple[float, ...] = ()
    drift: float = 0.0
    ticks: int = 0
    violating: int = 0
    applicable: int = 0
    firing: bool = False
    recovery: float = NO_EVIDENCE
    silent: int = 0


class AlarmState(StrEnum):
    """The state of an alarm."""

    FIRED = "fired"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm that fires or is resolved: the counts since the likely change, and the tolerated rate."""

    state: AlarmState
    ticks: int
    violating: int
    applicable: int
    tolerated: float

    @property
    def observed(self) -> float:
        """Return the rate since the likely change."""
        return self.violating / self.applicable


class DetectorTick(msgspec.Struct, frozen=True, gc=False):
    """The counts of a tick, the mean tolerated rate of its trials, and the log e-value of each ratio.

    The trials may have tolerated rates of their own: e-values of trials after one another multiply, so their
    logarithms add up. The rates must not depend on the outcomes of the tick.
    """

    violating: int
    applicable: int
    tolerated: float
    logs: tuple[float, ...]


def step(
    state: DetectorState, violating: int, applicable: int, tolerated: Tolerated, settings: DetectorSettings
) -> tuple[DetectorState, Alarm | None]:
    """Return the state after a tick of `violating` in `applicable` sessions, and an alarm that changes in it.

    `tolerated` may differ from tick to tick, but must not depend on the tick's own counts. A tick without
    sessions changes nothing except that it may end a stale alarm.
    """
    logs = tuple(log_e(violating, applicable, tolerated, ratio) for ratio in settings.ratios)
    return step_tick(state, DetectorTick(violating, applicable, tolerated.rate, logs), settings)


def step_tick(
    state: DetectorState, tick: DetectorTick, settings: DetectorSettings
) -> tuple[DetectorState, Alarm | None]:
    """Return the state after a tick whose e-values are known, and an alarm that changes in it."""
    assert 0 <= tick.violating <= tick.applicable
    if not tick.applicable:
        return _silence(state, tick.tolerated, settings)
    state = _count(state, tick.violating, tick.applicable, tick.logs[0])
    if state.firing:
        return _recover(state, tick.logs[0], tick.tolerated, settings)
    return _watch(state, tick.logs, tick.tolerated, settings)


def log_e(violating: int, applicable: int, tolerated: Tolerated, ratio: float) -> float:
    """Return the logarithm of a tick's e-value, for the alternative of `ratio` times the tolerated rate.

    Without dispersion it is the likelihood ratio of Bernoulli trials; its expectation is at most 1 whenever
    each session violates with a probability of at most the tolerated rate, given those before it. With
    dispersion it is that of gamma-Poisson counts; it grows with the count and is convex in it, so its
    expectation is at most 1 for every smaller rate and dispersion, too, Bernoulli trials included. The
    alternative is at most the middle between the tolerated rate and 1.
    """
    rate = tolerated.rate
    higher = min(ratio * rate, (1 + rate) / 2)
    gain = violating * math.log(higher / rate)
    if not tolerated.dispersion:
        return gain + (applicable - violating) * math.log1p((rate - higher) / (1 - rate))
    shape = 1 / tolerated.dispersion
    return gain - (violating + shape) * math.log1p(applicable * (higher - rate) / (shape + applicable * rate))


def mixture(evidence: Sequence[float]) -> float:
    """Return log E, the logarithm of the mean of the exponentials; `NO_EVIDENCE` if empty."""
    top = max(evidence, default=NO_EVIDENCE)
    if top == NO_EVIDENCE:
        return NO_EVIDENCE
    return top + math.log(sum(math.exp(log - top) for log in evidence) / len(evidence))


def _count(state: DetectorState, violating: int, applicable: int, least: float) -> DetectorState:
    """Add the tick's counts; drop those from before a change, except during an alarm."""
    drift = state.drift + least
    if drift <= 0 and not state.firing:
        return DetectorState(state.evidence)
    counts = state.ticks + 1, state.violating + violating, state.applicable + applicable
    firing = state.firing, state.recovery, state.silent
    return DetectorState(state.evidence, max(drift, 0.0), *counts, *firing)


def _watch(
    state: DetectorState, logs: Sequence[float], tolerated: float, settings: DetectorSettings
) -> tuple[DetectorState, Alarm | None]:
    """Add evidence for an alarm, while there is none."""
    before = state.evidence if len(state.evidence) == len(logs) else (NO_EVIDENCE,) * len(logs)
    evidence = tuple([log + more for log, more in zip(logs, _plus_one(before), strict=True)])
    limit = math.log(settings.arl_ticks)
    # The mixture is at most the greatest evidence.
    is_calm = state.violating < settings.violating_min or max(evidence) < limit or mixture(evidence) < limit
    if is_calm:
        counts = state.ticks, state.violating, state.applicable
        return DetectorState(evidence, state.drift, *counts, state.firing, state.recovery, state.silent), None
    alarm = _alarm(AlarmState.FIRED, state, tolerated)
    return msgspec.structs.replace(state, evidence=(), firing=True, recovery=NO_EVIDENCE, silent=0), alarm


def _recover(
    state: DetectorState, least: float, tolerated: float, settings: DetectorSettings
) -> tuple[DetectorState, Alarm | None]:
    """Add evidence that the alarm is over; once it suffices, restart from an empty state.

    This is the reverse e-detector: the inverse likelihood ratio has an expectation of at most 1 whenever the
    rate is that of the least ratio or above.
    """
    recovery = _plus_one((state.recovery,))[0] - least
    if recovery < math.log(settings.resolve_ticks):
        return msgspec.structs.replace(state, recovery=recovery, silent=0), None
    return DetectorState(), _alarm(AlarmState.RESOLVED, state, tolerated)


def _silence(
    state: DetectorState, tolerated: float, settings: DetectorSettings
) -> tuple[DetectorState, Alarm | None]:
    """Return the state after a tick without sessions."""
    if not state.firing:
        return state, None
    if state.silent + 1 < settings.stale_ticks:
        return msgspec.structs.replace(state, silent=state.silent + 1), None
    return DetectorState(), _alarm(AlarmState.RESOLVED, state, tolerated)


def _alarm(kind: AlarmState, state: DetectorState, tolerated: float) -> Alarm:
    return Alarm(kind, state.ticks, state.violating, state.applicable, tolerated)


def _plus_one(logs: Sequence[float]) -> list[float]:
    """Return the logarithm of M + 1, from that of each M."""
    return [(log if log > 0.0 else 0.0) + log1p(exp(-abs(log))) for log in logs]
