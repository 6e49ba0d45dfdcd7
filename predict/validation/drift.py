"""Drift of a chain: each event as a bet against it, and the log score of a later archive.

An event is a bet against "it violates with at most the probability `high` of its context". While that is
true, whatever came before, the bet's e-value has an expectation of at most 1; so the detector of risen rates
takes the events of a session as one tick, whose e-value is their product.

The slices of a session have events in common, so their e-values must not be multiplied. The stake is divided
instead: 1 / (r (r + 1)) of it is bet on the r-th slice, from that slice's first own event on; the first slice
has the events before too. What no slice bets is left as it is, so the e-value of a session is their sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import F64, I32, I64, Mask
from ..chain.walks import Walks
from ..detector import (
    NO_EVIDENCE,
    AlarmState,
    DetectorSettings,
    DetectorState,
    DetectorTick,
    Tolerated,
    log_e,
    mixture,
    step_tick,
)
from .outcomes import Outcomes

DRIFT_SETTINGS = DetectorSettings(arl_ticks=10_000)
"""False alarms come at most once in so many sessions in the mean, and so in at least as many events."""


@dataclass(frozen=True, slots=True)
class DriftEvidence:
    """The evidence that a rule's verdicts come more often than the intervals of its contexts allow.

    `events` were bets, `violated` of them violated, and at most `expected` were to in the mean. `evidence` is
    the greatest logarithm of the detector's mixture, and `alarms` the number that fired.
    """

    sessions: int
    events: int
    violated: int
    expected: float
    evidence: float
    alarms: int

    @property
    def has_drifted(self) -> bool:
        """Return whether an alarm fired."""
        return self.alarms > 0


def drift_evidence(
    walks: Walks,
    found: Outcomes,
    highs: F64,
    taken: Mask,
    is_own: Mask,
    settings: DetectorSettings = DRIFT_SETTINGS,
) -> DriftEvidence:
    """Return the evidence of the sessions in their order, over the places `taken`.

    `highs` are the contexts' greatest probabilities of a verdict at the next event. Places whose context has
    none (NaN), or one of 0 or 1, are no bets. `is_own` is true of the contexts after an event of the slice's
    own, which only a rule with slices has.
    """
    limits, ranks = highs[walks.contexts], ranks_of(walks.sessions)
    is_bet = taken & found.is_known(1) & (limits > 0) & (limits < 1)
    if is_own.any():
        is_bet &= (np.repeat(ranks, np.diff(walks.bounds)) == 1) | _has_begun(walks, is_own)
    bets = np.flatnonzero(is_bet)
    violated = found.violated(1)[bets].astype(np.int64)
    numbers = np.searchsorted(walks.bounds, bets, side="right") - 1
    sequences, of_sequence = np.unique(numbers, return_inverse=True)
    sessions, of_session = np.unique(walks.sessions[sequences], return_inverse=True)
    logs = np.zeros((len(sequences), len(settings.ratios)))
    np.add.at(logs, of_sequence, log_bets(highs, settings)[walks.contexts[bets], violated])
    logs = of_sessions(logs, of_session, ranks[sequences] if is_own.any() else None)
    ticks = _ticks(of_session[of_sequence], violated, limits[bets], logs)
    evidence, alarms = _detected(ticks, settings)
    return DriftEvidence(
        len(sessions), len(bets), int(violated.sum()), float(limits[bets].sum()), evidence, alarms
    )


def ranks_of(sessions: I32) -> I64:
    """Return the place of each sequence among those of its session, from 1."""
    numbers = np.arange(len(sessions))
    is_first = np.append(True, sessions[1:] != sessions[:-1])[: len(numbers)]
    return numbers - np.maximum.accumulate(np.where(is_first, numbers, 0)) + 1


def _has_begun(walks: Walks, is_own: Mask) -> Mask:
    """Return the places from the first event of the slice's own on."""
    seen = np.append(0, np.cumsum(is_own[walks.contexts]))
    return seen[1:] > np.repeat(seen[walks.bounds[:-1]], np.diff(walks.bounds))


def of_sessions(logs: F64, sessions: I64, ranks: I64 | None) -> F64:
    """Return the log e-values of the sessions from those of their sequences; `ranks` are those of slices."""
    count = int(sessions.max(initial=-1)) + 1
    if ranks is None:
        products = np.zeros((count, logs.shape[1]))
        np.add.at(products, sessions, logs)
        return products
    stakes = 1 / (ranks * (ranks + 1.0))
    rest = np.log1p(-np.bincount(sessions, stakes, count))
    sums = np.repeat(rest[:, None], logs.shape[1], axis=1)
    np.logaddexp.at(sums, sessions, logs + np.log(stakes)[:, None])
    return sums


def log_bets(highs: F64, settings: DetectorSettings) -> F64:
    """Return the log e-values of one event, by context, outcome and ratio."""
    table = np.zeros((len(highs), 2, len(settings.ratios)))
    for context in np.flatnonzero((highs > 0) & (highs < 1)).tolist():
        tolerated = Tolerated(float(highs[context]))
        for outcome in (0, 1):
            table[context, outcome] = [log_e(outcome, 1, tolerated, ratio) for ratio in settings.ratios]
    return table


def _ticks(rows: I64, violated: I64, limits: F64, logs: F64) -> list[DetectorTick]:
    """Return a tick for each session."""
    size = len(logs)
    applicable = np.bincount(rows, minlength=size)
    hits, expected = np.bincount(rows, violated, size), np.bincount(rows, limits, size)
    return [
        DetectorTick(int(hit), int(number), float(limit / number), tuple(each))
        for hit, number, limit, each in zip(hits, applicable, expected, logs.tolist(), strict=True)
    ]


def _detected(ticks: list[DetectorTick], settings: DetectorSettings) -> tuple[float, int]:
    """Return the greatest evidence and the number of alarms that fired."""
    state, evidence, alarms = DetectorState(), NO_EVIDENCE, 0
    for tick in ticks:
        state, alarm = step_tick(state, tick, settings)
        evidence = max(evidence, mixture(state.evidence))
        if alarm is not None and alarm.state is AlarmState.FIRED:
            # The detector drops its evidence when it fires; at that time it was at least this.
            evidence, alarms = max(evidence, float(np.log(settings.arl_ticks))), alarms + 1
    return evidence, alarms


@dataclass(frozen=True, slots=True)
class LogScoreDrift:
    """The log score of the next symbols, per event in nats, and that which the chain expects of itself.

    `low` and `high` are the interval of the difference, over resampled sessions: where it lies above 0, the
    archive surprises the chain more than the chain allows for.
    """

    events: int
    score: float
    expected: float
    low: float
    high: float


LOG_SCORE_RESAMPLES = 1_000


def log_score_drift(
    costs: F64, expected: F64, sessions: I64, generator: np.random.Generator, confidence: float = 0.95
) -> LogScoreDrift:
    """Return the drift of the log score of events.

    `costs` are -log of the probability of each event's symbol, `expected` their means in the event's context,
    and `sessions` the sessions of the events, whose events are not independent.
    """
    if not len(costs):
        return LogScoreDrift(0, np.nan, np.nan, np.nan, np.nan)
    _, rows = np.unique(sessions, return_inverse=True)
    if np.isinf(costs).any():
        # The chain excludes a symbol that came.
        return LogScoreDrift(len(costs), np.inf, float(expected.mean()), np.inf, np.inf)
    events = np.bincount(rows).astype(np.float64)
    surplus = np.bincount(rows, costs - expected)
    weights = generator.multinomial(len(events), np.full(len(events), 1 / len(events)), LOG_SCORE_RESAMPLES)
    drawn = (weights @ surplus) / (weights @ events)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()
    return LogScoreDrift(len(costs), float(costs.mean()), float(expected.mean()), low, high)
