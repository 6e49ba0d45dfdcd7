"""When a rate has risen: a Shiryaev-Roberts mixture e-detector over ticks of event time.

Each tick brings `violating` of `applicable` sessions. As long as every session violates with a probability
of at most the tolerated rate, whatever came before it, `exp(log_e(...))` has an expectation of at most 1 in
every tick and for every ratio r. Then

    M_r(t) = e_r(t) * (M_r(t-1) + 1),  M_r(0) = 0
    E(t)   = the mean of M_r(t) over the ratios

is an e-detector: E(t) - t is a supermartingale, so the first t with E(t) >= A is A or more in the mean
(Shin, Ramdas and Rinaldo: E-detectors, The New England Journal of Statistics in Data Science, 2023; the
mixture of Shiryaev-Roberts detectors with equal weights). Numbers are kept as logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

RATIOS = (2.0, 3.0, 5.0, 10.0)
"""How many times the tolerated rate the alternatives are."""

NO_EVIDENCE = -math.inf
"""The logarithm of no evidence."""


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """How alarms are raised and resolved, in ticks in which some session counted; the least ratio is first.

    `arl_ticks` is A, the least mean time between false alarms of one detector. While the rate stays at the
    least ratio times the tolerated one or above, an alarm lasts `resolve_ticks` or more in the mean; after
    so many ticks without a violation it is resolved. An alarm of which no session tells any more is resolved
    after `stale_ticks` ticks without any. Fewer violating sessions than `violating_min` never raise one.
    """

    ratios: tuple[float, ...] = RATIOS
    arl_ticks: int = 8640
    resolve_ticks: int = 12
    stale_ticks: int = 288
    violating_min: int = 3

    def __post_init__(self) -> None:
        assert 1 < self.ratios[0] <= min(self.ratios), (
            "alternatives are above what is tolerated, the least first"
        )
        assert min(self.arl_ticks, self.resolve_ticks, self.stale_ticks) > 0


@dataclass(frozen=True, slots=True)
class Tolerated:
    """The rate up to which nothing is wrong, and how much rates scatter from tick to tick.

    `dispersion` is the squared coefficient of variation of the rate of a tick, 0 where sessions of one tick
    have nothing in common.
    """

    rate: float
    dispersion: float = 0.0

    def __post_init__(self) -> None:
        assert 0 < self.rate < 1
        assert 0 <= self.dispersion < math.inf


@dataclass(frozen=True, slots=True)
class DetectorState:
    """Where one detector stands: plain data, which `memory.py` writes down.

    `evidence` is log M of each ratio, empty before the first tick. `drift` is the cumulative sum of log e of
    the least ratio, held at 0 from below; the counts are those since it last was 0, the likeliest time of a
    change (Page, 1954), and go on while an alarm lasts. `recovery` is the logarithm of the evidence that
    the alarm is over, `silent` counts ticks of an alarm since any session counted.
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
    """What has become of an alarm."""

    FIRED = "fired"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm that fires or is resolved: counts since the likely change, and what is tolerated.

    `log_evidence` is the natural logarithm of E when it fired, of the evidence that it is over when it is
    resolved, and negative infinity when it is resolved because nothing more was heard.
    """

    state: AlarmState
    ticks: int
    violating: int
    applicable: int
    tolerated: float
    log_evidence: float

    @property
    def observed(self) -> float:
        """The rate since the likely change."""
        return self.violating / self.applicable


def step(
    state: DetectorState, violating: int, applicable: int, tolerated: Tolerated, settings: DetectorSettings
) -> tuple[DetectorState, Alarm | None]:
    """Take in one tick: of `applicable` sessions, `violating` violate. Says when an alarm fires or resolves.

    `tolerated` may differ from tick to tick, as long as it does not depend on the tick's own counts. A tick
    without sessions changes nothing, but that an alarm that nobody speaks of any more comes to an end.
    """
    assert 0 <= violating <= applicable
    if not applicable:
        return _silence(state, tolerated, settings)
    logs = [log_e(violating, applicable, tolerated, ratio) for ratio in settings.ratios]
    state = _count(state, violating, applicable, logs[0])
    if state.firing:
        return _recover(state, logs[0], tolerated, settings)
    return _watch(state, logs, tolerated, settings)


def log_e(violating: int, applicable: int, tolerated: Tolerated, ratio: float) -> float:
    """The logarithm of the e-value of one tick for the alternative of `ratio` times the tolerated rate.

    Without dispersion the likelihood ratio of Bernoulli trials; its expectation is at most 1 whenever each
    session violates with a probability of at most the tolerated rate, given those before it. With dispersion
    that of gamma-Poisson counts of that dispersion; it grows with the count and is convex in it, so its
    expectation is at most 1 for every smaller rate and every lesser scatter, too, those of the Bernoulli
    trials among them. The alternative never goes beyond the middle between the tolerated rate and 1.
    """
    rate = tolerated.rate
    higher = min(ratio * rate, (1 + rate) / 2)
    gain = violating * math.log(higher / rate)
    if not tolerated.dispersion:
        return gain + (applicable - violating) * math.log1p((rate - higher) / (1 - rate))
    shape = 1 / tolerated.dispersion
    return gain - (violating + shape) * math.log1p(applicable * (higher - rate) / (shape + applicable * rate))


def mixture(evidence: Sequence[float]) -> float:
    """log E: the logarithm of the mean of what the logarithms stand for; `NO_EVIDENCE` if empty."""
    top = max(evidence, default=NO_EVIDENCE)
    if top == NO_EVIDENCE:
        return NO_EVIDENCE
    return top + math.log(sum(math.exp(one - top) for one in evidence) / len(evidence))


def _count(state: DetectorState, violating: int, applicable: int, least: float) -> DetectorState:
    """Enter the tick's counts; those from before a change are forgotten, unless an alarm lasts."""
    drift = state.drift + least
    if drift <= 0 and not state.firing:
        return DetectorState(state.evidence)
    return replace(
        state,
        drift=max(drift, 0.0),
        ticks=state.ticks + 1,
        violating=state.violating + violating,
        applicable=state.applicable + applicable,
    )


def _watch(
    state: DetectorState, logs: Sequence[float], tolerated: Tolerated, settings: DetectorSettings
) -> tuple[DetectorState, Alarm | None]:
    """No alarm lasts: gather evidence for one."""
    before = state.evidence if len(state.evidence) == len(logs) else (NO_EVIDENCE,) * len(logs)
    evidence = tuple(log + _plus_one(old) for log, old in zip(logs, before, strict=True))
    told = mixture(evidence)
    if told < math.log(settings.arl_ticks) or state.violating < settings.violating_min:
        return replace(state, evidence=evidence), None
    alarm = _alarm(AlarmState.FIRED, state, tolerated, told)
    return replace(state, evidence=(), firing=True, recovery=NO_EVIDENCE, silent=0), alarm


def _recover(
    state: DetectorState, least: float, tolerated: Tolerated, settings: DetectorSettings
) -> tuple[DetectorState, Alarm | None]:
    """An alarm lasts: gather evidence that it is over; then everything begins anew.

    That is the e-detector of the reverse: the likelihood ratio turned round has an expectation of at most 1
    whenever the rate is that of the least ratio or above.
    """
    recovery = _plus_one(state.recovery) - least
    if recovery < math.log(settings.resolve_ticks):
        return replace(state, recovery=recovery, silent=0), None
    return DetectorState(), _alarm(AlarmState.RESOLVED, state, tolerated, recovery)


def _silence(
    state: DetectorState, tolerated: Tolerated, settings: DetectorSettings
) -> tuple[DetectorState, Alarm | None]:
    """A tick in which no session counted."""
    if not state.firing:
        return state, None
    if state.silent + 1 < settings.stale_ticks:
        return replace(state, silent=state.silent + 1), None
    return DetectorState(), _alarm(AlarmState.RESOLVED, state, tolerated, NO_EVIDENCE)


def _alarm(turn: AlarmState, state: DetectorState, tolerated: Tolerated, told: float) -> Alarm:
    return Alarm(turn, state.ticks, state.violating, state.applicable, tolerated.rate, told)


def _plus_one(log: float) -> float:
    """log(M + 1), from log M."""
    return max(log, 0.0) + math.log1p(math.exp(-abs(log)))
