"""Intervals of contexts by first visits, and the fit of a chain, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from tracline.predict.binomial import at_least, lower_limit
from tracline.predict.chain.walks import CLOSED, CLOSED_UNMET, CUT
from tracline.predict.validation.context_intervals import (
    ContextIntervals,
    binomial_interval,
    context_intervals,
)
from tracline.predict.validation.fit import chain_fit
from tracline.predict.validation.outcomes import outcomes

from ...support.chains.walks import Walk, random_sequences, visits_of, walks_of

HORIZONS = (1, 3, None)


@pytest.mark.parametrize("seed", range(8))
def test_counts_are_those_of_first_visits(seed: int) -> None:
    """Each session is one trial of a context, at the first visit of its first slice that comes there."""
    sequences = random_sequences(np.random.default_rng(seed), 30, 6)
    learned = np.array([True, True, False, True, True, True])
    has_risk = np.array([True, True, True, False, True, True])
    walks = walks_of(sequences)
    found = context_intervals(walks, outcomes(walks), HORIZONS, learned, has_risk, 0.9)
    for column, within in enumerate(HORIZONS):
        for context in range(6):
            visits = [each for each in visits_of(sequences) if each.context == context]
            first = {each.session: each for each in reversed(visits)}
            seen = [each.outcome(within) for each in first.values()]
            sessions = sum(outcome is not None for outcome in seen)
            violating = sum(outcome is True for outcome in seen)
            assert found.sessions[context, column] == sessions
            assert found.violating[context, column] == violating
            assert found.visits[context, column] == sum(each.outcome(within) is not None for each in visits)
            ends = found.low[context, column], found.high[context, column]
            if context == 3:
                assert np.isnan(ends).all()
            elif context == 2:
                assert ends == (0, 1)
            else:
                tail = 1 - 0.1 / 4 / 2
                assert ends[0] == pytest.approx(lower_limit(violating, sessions, tail))
                assert 1 - ends[1] == pytest.approx(lower_limit(sessions - violating, sessions, tail))


def test_a_context_without_a_visit_has_0_to_1() -> None:
    """No held-out session came to context 1, and only a cut one to context 2."""
    walks = walks_of(
        [Walk(0, [0, 0], [False, True], CLOSED), Walk(1, [0, 2], [False, False], CUT)],
    )
    learned = np.ones(3, dtype=np.bool_)
    found = context_intervals(walks, outcomes(walks), (2,), learned, learned, 0.95)
    assert found.sessions[:, 0].tolist() == [1, 0, 0]
    assert (found.low[1:, 0].tolist(), found.high[1:, 0].tolist()) == ([0, 0], [1, 1])


def test_a_cut_session_counts_only_where_the_horizon_was_seen() -> None:
    """A verdict before the cut does not count where the horizon reaches beyond it; the close is an event."""
    cut = Walk(0, [0, 1, 2, 2], [False, True, False, False], CUT)
    closed = Walk(1, [0, 1], [False, False], CLOSED_UNMET)
    learned = np.ones(3, dtype=np.bool_)
    walks = walks_of([cut, closed])
    found = context_intervals(walks, outcomes(walks), (2, 4, None), learned, learned, 0.95)
    assert found.sessions[0].tolist() == [2, 1, 1]
    assert found.violating[0].tolist() == [2, 1, 1]
    assert found.violating[1].tolist() == [1, 1, 1]


def test_intervals_hold_for_every_rate() -> None:
    """The exact probability of an interval without the rate is at most the error, for each rate of a grid."""
    trials = 20
    counts = np.arange(trials + 1)
    low, high = binomial_interval(counts, np.full(trials + 1, trials), 0.1)
    for percent in range(1, 100):
        rate = percent / 100
        probability = [at_least(k, trials, rate) - at_least(k + 1, trials, rate) for k in counts.tolist()]
        outside = (rate < low) | (rate > high)
        assert sum(share for share, is_out in zip(probability, outside, strict=True) if is_out) <= 0.1


def test_fit_names_the_contexts_outside_by_visits() -> None:
    """Contexts without a session, a risk or an interval are not compared; ends of intervals are inside."""
    column = np.array([[0.1], [0.1], [0.0], [0.1], [0.1], [0.0]])
    intervals = ContextIntervals(
        low=column,
        high=np.array([[0.2], [0.2], [1.0], [0.2], [0.2], [1.0]]),
        sessions=np.array([[5], [5], [0], [5], [5], [5]]),
        violating=np.zeros((6, 1), dtype=np.int64),
        visits=np.array([[7], [9], [0], [20], [8], [50]]),
    )
    fit = chain_fit(np.array([0.05, 0.3, 0.5, np.nan, 0.2, 0.4]), intervals, 0)
    assert (fit.contexts, fit.visits, fit.outside.tolist(), fit.outside_visits) == (3, 24, [1, 0], 16)
    assert fit.share == pytest.approx(1 / 3)
    assert not fit.fits
