"""Drift of a chain: bets with tolerated rates of their own, and the log score of an archive."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tracline.predict.chain.walks import CLOSED, CUT, Walks
from tracline.predict.detector import DetectorSettings, DetectorState, Tolerated, mixture, step
from tracline.predict.validation.drift import DriftEvidence, drift_evidence, log_score_drift
from tracline.predict.validation.outcomes import outcomes

from ...support.chains.walks import Walk, walks_of

HIGHS = np.array([0.05, 0.2, 0.6, np.nan, 1.0])
NO_SLICES = np.zeros(len(HIGHS), dtype=np.bool_)
SETTINGS = DetectorSettings(arl_ticks=1_000)


def evidence_of(walks: Walks, highs: np.ndarray = HIGHS) -> DriftEvidence:
    """Return the evidence of all places."""
    every = np.ones(len(walks.contexts), dtype=np.bool_)
    return drift_evidence(walks, outcomes(walks), highs, every, NO_SLICES, SETTINGS)


def sessions_with(rates: np.ndarray, count: int, seed: int) -> Walks:
    """Return sessions of five events, each violated by its context's rate."""
    rng = np.random.default_rng(seed)
    walks: list[Walk] = []
    for number in range(count):
        contexts = rng.integers(0, 3, 6).tolist()
        violated = [bool(rng.random() < rates[context]) for context in contexts[:-1]]
        walks.append(Walk(number, contexts, [False, *violated], CUT))
    return walks_of(walks)


def test_the_bets_of_a_session_are_fair() -> None:
    """Over all outcomes of three events with the tolerated rates the evidence after one session is 1."""
    contexts = [0, 1, 2, 0]
    total = 0.0
    for outcome in product((False, True), repeat=3):
        walks = walks_of([Walk(0, contexts, [False, *outcome], CUT)])
        rates = HIGHS[contexts[:3]]
        probability = np.prod(np.where(outcome, rates, 1 - rates))
        quiet = DetectorSettings(violating_min=4)
        every = np.ones(4, dtype=np.bool_)
        found = drift_evidence(walks, outcomes(walks), HIGHS, every, NO_SLICES, quiet)
        total += probability * np.exp(found.evidence)
        assert found.events == 3
        assert found.expected == pytest.approx(0.85)
    assert total == pytest.approx(1)


EVENTS_OF_A, EVENTS_OF_B = (0, 1, 2, 4, 5), (0, 2, 3, 5)
"""The events of a session in its slices: 0, 2 and 5 have no value and are in both."""


def slices(outcome: tuple[bool, ...]) -> Walks:
    """Return the slices a and b; the context is 1 after an event of the slice's own, else 0."""
    return walks_of(
        [
            Walk(0, [0, 0, 1, 0, 1, 0], [False, *(outcome[event] for event in EVENTS_OF_A)], CUT),
            Walk(0, [0, 0, 0, 1, 0], [False, *(outcome[event] for event in EVENTS_OF_B)], CUT),
        ]
    )


def test_the_bets_on_slices_with_common_events_are_fair() -> None:
    """Over all outcomes of a session's events the evidence is 1, though some events are in both slices."""
    highs, is_own = np.array([0.2, 0.3]), np.array([False, True])
    rates = np.array([0.2, 0.2, 0.3, 0.2, 0.2, 0.3])
    every, quiet, total = np.ones(11, dtype=np.bool_), DetectorSettings(violating_min=99), 0.0
    for outcome in product((False, True), repeat=6):
        walks = slices(outcome)
        found = drift_evidence(walks, outcomes(walks), highs, every, is_own, quiet)
        total += np.prod(np.where(outcome, rates, 1 - rates)) * np.exp(found.evidence)
        assert found.events == 6
    assert total == pytest.approx(1)


def test_equal_rates_are_a_tick_of_counts() -> None:
    """Sessions in one context have the evidence of the detector of rates over their counts."""
    highs = np.array([0.2])
    walks = [
        Walk(0, [0] * 5, [False, True, True, False, True], CUT),
        Walk(1, [0] * 4, [False, True, True, False], CUT),
    ]
    state, _ = step(DetectorState(), 3, 4, Tolerated(0.2), SETTINGS)
    state, _ = step(state, 2, 3, Tolerated(0.2), SETTINGS)
    found = evidence_of(walks_of(walks), highs)
    assert (found.sessions, found.events, found.violated) == (2, 7, 5)
    assert found.evidence == pytest.approx(mixture(state.evidence))


@pytest.mark.slow
def test_a_chain_without_drift_seldom_alarms_and_one_that_drifted_does() -> None:
    """Of 20 archives of 200 sessions at the tolerated rates at most a few alarm; at double rates all do."""
    rates = HIGHS[:3]
    alarms = [evidence_of(sessions_with(rates, 200, seed)).alarms for seed in range(20)]
    assert sum(map(bool, alarms)) <= 8
    doubled = [evidence_of(sessions_with(np.minimum(2 * rates, 0.9), 200, seed)) for seed in range(5)]
    assert all(each.has_drifted and each.evidence >= np.log(1_000) for each in doubled)
    assert all(each.violated > each.expected for each in doubled)


def test_places_without_a_limit_are_no_bets() -> None:
    """Neither is the last place of an open sequence, whose next event was not seen; a close is a bet."""
    cut = Walk(0, [0, 3, 4, 1], [False, True, True, True], CUT)
    closed = Walk(1, [0, 1], [False, False], CLOSED)
    found = evidence_of(walks_of([cut, closed]))
    assert (found.events, found.violated) == (3, 1)


def test_a_log_score_that_the_chain_expects_is_no_drift() -> None:
    """Symbols drawn from the chain's probabilities cost what it expects, others more."""
    rng = np.random.default_rng(5)
    probabilities = np.array([0.7, 0.2, 0.1])
    sessions = np.repeat(np.arange(300), 10)
    expected = np.full(3000, -(probabilities * np.log(probabilities)).sum())

    def drift(rates: list[float]) -> tuple[float, float]:
        costs = -np.log(probabilities[rng.choice(3, 3000, p=rates)])
        found = log_score_drift(costs, expected, sessions, np.random.default_rng(1))
        return found.low, found.high

    low, high = drift(probabilities.tolist())
    assert low < 0 < high
    assert drift([0.5, 0.3, 0.2])[0] > 0


def test_a_symbol_that_the_chain_excludes_costs_everything() -> None:
    """One such event makes the score and its interval infinite; without events there is no score."""
    costs, sessions = np.array([0.1, np.inf]), np.array([0, 1])
    found = log_score_drift(costs, np.array([0.1, 0.1]), sessions, np.random.default_rng(1))
    assert (found.score, found.low) == (np.inf, np.inf)
    assert np.isnan(log_score_drift(costs[:0], costs[:0], sessions[:0], np.random.default_rng(1)).score)
