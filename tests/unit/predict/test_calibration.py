"""Scores of risks against plain loops over all visits, and their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tracline.predict.validation.calibration import Calibration, ScoreInterval, calibration
from tracline.predict.validation.outcomes import outcomes

from ...support.chains.walks import Walk, random_sequences, visits_of, walks_of

RISKS = np.array([0.1, 0.3, 0.3, 0.9, np.nan, 0.45])


def scored(
    sequences: list[Walk], within: int | None, risks: np.ndarray = RISKS, seed: int = 0
) -> Calibration:
    """Return the calibration of the sequences."""
    walks = walks_of(sequences)
    return calibration(walks, outcomes(walks), risks, within, np.random.default_rng(seed))


def pairs_of(sequences: list[Walk], within: int | None) -> list[tuple[float, bool]]:
    """Return risk and outcome of each visit that counts."""
    return [
        (float(RISKS[each.context]), outcome)
        for each in visits_of(sequences)
        if (outcome := each.outcome(within)) is not None and not math.isnan(RISKS[each.context])
    ]


@pytest.mark.parametrize("within", [1, 3, None])
def test_scores_are_those_of_all_visits(within: int | None) -> None:
    """Brier score, skill, log score and AUC by their definitions, visit by visit."""
    sequences = random_sequences(np.random.default_rng(3), 40, 6)
    found, pairs = scored(sequences, within), pairs_of(sequences, within)
    rate = sum(came for _, came in pairs) / len(pairs)
    brier = sum((risk - came) ** 2 for risk, came in pairs) / len(pairs)
    assert (found.visits, found.violating) == (len(pairs), sum(came for _, came in pairs))
    assert found.base_rate == pytest.approx(rate)
    assert found.brier.value == pytest.approx(brier)
    assert found.skill.value == pytest.approx(1 - brier / (rate * (1 - rate)))
    costs = [-math.log(risk if came else 1 - risk) for risk, came in pairs]
    assert found.log_score.value == pytest.approx(sum(costs) / len(costs))
    came = [risk for risk, outcome in pairs if outcome]
    others = [risk for risk, outcome in pairs if not outcome]
    wins = sum((a > b) + (a == b) / 2 for a in came for b in others)
    assert found.auc.value == pytest.approx(wins / len(came) / len(others))


def test_bins_share_the_visits_and_make_the_ece() -> None:
    """Each distinct risk is in one bin, bins ascend, and they add up to all visits."""
    rng = np.random.default_rng(5)
    risks = np.sort(rng.random(60))
    found = scored(random_sequences(rng, 300, 60), 2, risks)
    assert len(found.bins) == 10
    assert sum(each.visits for each in found.bins) == found.visits
    assert all(abs(each.visits / found.visits - 0.1) < 0.02 for each in found.bins)
    assert [each.risk for each in found.bins] == sorted(each.risk for each in found.bins)
    ece = sum(each.visits * abs(each.risk - each.violated) for each in found.bins) / found.visits
    assert found.ece.value == pytest.approx(ece)


def test_intervals_hold_their_scores_and_depend_on_the_seed_alone() -> None:
    """The order of the sessions changes nothing; a different seed draws different samples."""
    sequences = random_sequences(np.random.default_rng(11), 50, 6)
    turned = [each for session in range(49, -1, -1) for each in sequences if each.session == session]
    found = scored(sequences, 3)
    assert scored([each._replace(session=99 - each.session) for each in turned], 3) == found
    assert scored(sequences, 3, seed=1) != found
    for score in (found.brier, found.skill, found.log_score, found.auc):
        assert score.low < score.value < score.high


def test_sessions_are_resampled_not_events() -> None:
    """Ten sessions of a hundred equal events each are ten trials: their interval is that wide."""
    long = [Walk(number, [0] * 101, [False, *[number < 3] * 100], 1) for number in range(10)]
    single = [Walk(number, [0, 0], [False, number < 300], 1) for number in range(1000)]
    # The last place has no verdict after it; it weighs 1 in 101 and 1 in 2.
    wide, narrow = scored(long, 1, np.array([0.5])), scored(single, 1, np.array([0.5]))
    assert width(wide.log_score) < 1e-9
    rates = [scored(each, 1, np.array([0.1])).brier for each in (long, single)]
    assert width(rates[0]) > 5 * width(rates[1])
    assert narrow.visits > wide.visits


def width(score: ScoreInterval) -> float:
    """Return the width of an interval."""
    return score.high - score.low


def test_undefined_and_infinite_scores() -> None:
    """Nothing violated: no skill and no AUC. A risk of 0 that came true: an infinite log score."""
    quiet = scored([Walk(0, [0, 1], [False, False], 1)], 1)
    assert math.isnan(quiet.skill.value)
    assert math.isnan(quiet.auc.value)
    assert quiet.brier.value == pytest.approx((0.01 + 0.09) / 2)
    wrong = scored([Walk(0, [0, 0], [False, True], 1)], 1, np.array([0.0]))
    assert wrong.log_score.value == math.inf
    certain = scored([Walk(0, [0, 0], [False, False], 1)], 1, np.array([0.0]))
    assert certain.log_score.value == 0


def test_no_visit_at_all() -> None:
    """Only an open session without an event: no score is defined."""
    found = scored([Walk(0, [0], [False], 0)], 1)
    assert (found.sessions, found.visits, found.violating, found.bins) == (0, 0, 0, ())
    assert all(
        math.isnan(score.value) for score in (found.brier, found.skill, found.log_score, found.ece, found.auc)
    )
