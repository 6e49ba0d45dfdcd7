"""Thresholds with a guaranteed miss rate: against plain loops, and their promise over repetitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tracline.predict.binomial import at_least
from tracline.predict.chain.walks import CLOSED, CLOSED_UNMET, CUT
from tracline.predict.validation.outcomes import outcomes
from tracline.predict.validation.thresholds import RiskThreshold, risk_threshold

from ...support.chains.walks import Walk, random_sequences, walks_of

RISKS = np.array([0.05, 0.1, 0.2, 0.3, np.nan, 0.6])


def threshold_of(
    sequences: list[Walk], miss: float, risks: np.ndarray = RISKS, confidence: float = 0.95
) -> RiskThreshold:
    """Return the threshold of the sequences."""
    walks = walks_of(sequences)
    return risk_threshold(walks, outcomes(walks), risks, miss, confidence)


def before_verdict(walk: Walk) -> tuple[list[float], int | None]:
    """Return the risks of the events before the first verdict, and where that is."""
    verdict = next((at for at, came in enumerate(walk.violated) if came), None)
    if verdict is None and walk.ending == CLOSED_UNMET:
        verdict = len(walk.contexts)
    risks = [float(RISKS[context]) for context in walk.contexts[1:verdict]]
    return [-1.0 if math.isnan(risk) else risk for risk in risks], verdict


def slowly(sequences: list[Walk], miss: float) -> tuple[float | None, int, int, list[int]]:
    """Return threshold, missed sessions, warned others and leads, by the definitions."""
    by_session: dict[int, list[Walk]] = {}
    for walk in sequences:
        by_session.setdefault(walk.session, []).append(walk)
    closed = [walks for walks in by_session.values() if all(walk.ending != CUT for walk in walks)]
    best: tuple[float | None, int, int, list[int]] | None = None
    for threshold in sorted({0.0, *RISKS[~np.isnan(RISKS)].tolist()}):
        missed, warned_others, violating = 0, 0, 0
        leads: list[int] = []
        for walks in closed:
            found = [before_verdict(walk) for walk in walks]
            verdicts = [(risks, verdict) for risks, verdict in found if verdict is not None]
            if not verdicts:
                warned_others += any(risk >= threshold for risks, _ in found for risk in risks)
                continue
            violating += 1
            firsts = [
                next((verdict - at for at, risk in enumerate(risks, 1) if risk >= threshold), None)
                for risks, verdict in verdicts
            ]
            if None in firsts:
                missed += 1
            else:
                leads.append(min(lead for lead in firsts if lead is not None))
        tail = 1 - at_least(missed + 1, violating, miss)
        if tail > 0.05:
            break
        best = threshold, missed, warned_others, leads
    return best or (None, 0, 0, [])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("miss", [0.4, 0.8])
def test_thresholds_are_those_of_the_sequence_of_tests(seed: int, miss: float) -> None:
    """Each threshold from 0 upwards is tested, by loops over all sessions."""
    sequences = random_sequences(np.random.default_rng(seed), 60, 6, 0.15)
    found = threshold_of(sequences, miss)
    threshold, missed, warned_others, leads = slowly(sequences, miss)
    assert found.threshold == threshold
    if threshold is not None:
        assert (found.missed, found.warned_others) == (missed, warned_others)
        assert found.lead is not None
        assert found.lead.median == np.median(leads)
        assert found.lead.lower == np.quantile(leads, 0.25)


def test_with_28_violating_sessions_there_is_none_and_with_29_there_is() -> None:
    """29 sessions are needed for at most 10 % missed at 95 %; with 29 none may be missed."""
    warned = [Walk(number, [0, 5, 5, 0], [False, False, False, True], CLOSED) for number in range(29)]
    few = threshold_of(warned[:28], 0.1)
    assert (few.threshold, few.violating, few.violating_min, few.lead) == (None, 28, 29, None)
    found = threshold_of(warned, 0.1)
    assert (found.threshold, found.missed, found.violating) == (0.6, 0, 29)
    assert found.lead is not None
    assert found.lead.median == 2


def test_a_verdict_at_the_first_event_cannot_be_warned_of() -> None:
    """The start is no event; so no threshold helps where such sessions are too many."""
    sudden = [Walk(number, [5, 0], [False, True], CLOSED) for number in range(100)]
    assert threshold_of(sudden, 0.1).threshold is None


def test_open_sessions_are_left_out() -> None:
    """A session with a slice that was cut is neither violating nor another."""
    found = threshold_of(
        [
            Walk(0, [0, 5, 0], [False, False, True], CLOSED),
            Walk(0, [0, 1], [False, False], CUT),
            Walk(1, [0, 5], [False, False], CLOSED),
        ],
        0.9,
    )
    assert (found.violating, found.others, found.left_out) == (0, 1, 1)


def test_no_session_at_all() -> None:
    """An archive without a session of the rule has no threshold."""
    found = threshold_of([], 0.1)
    assert (found.threshold, found.violating, found.others) == (None, 0, 0)


@pytest.mark.parametrize("miss", [1e-20, 5e-324])
def test_a_share_that_rounds_to_none_needs_more_sessions_than_there_are(miss: float) -> None:
    """1 - miss is 1 in floats, and the number of sessions is not infinite."""
    found = threshold_of([Walk(0, [0, 1, 0], [False, False, True], CLOSED)], miss)
    assert found.threshold is None
    assert found.violating_min > 10**18


@pytest.mark.slow
def test_the_promise_holds_over_repetitions() -> None:
    """The true share that a threshold misses is above `miss` in at most 5 % of 600 draws."""
    # A violating session shows risk i / 20 at its one event before the verdict; each i is equally likely.
    risks = np.arange(20) / 20
    rng = np.random.default_rng(7)
    broken = 0
    for _ in range(600):
        sequences = [
            Walk(n, [0, int(c), 0], [False, False, True], CLOSED)
            for n, c in enumerate(rng.integers(0, 20, 60))
        ]
        threshold = threshold_of(sequences, 0.2, risks).threshold
        assert threshold is not None
        broken += float((risks < threshold).mean()) > 0.2
    assert 1 - at_least(broken, 600, 0.05) < 0.999
