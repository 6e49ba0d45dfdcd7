"""Laws of the alerts' detector: its e-values, how rarely it is wrong, how soon it is right, and its state.

The oracle is the definition, in plain numbers and for many runs at once: likelihood ratios, products, sums.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tracline.predict.detector import (
    RATIOS,
    DetectorSettings,
    DetectorState,
    Tolerated,
    log_e,
    step,
)
from tracline.stream.alerts.session_counts import RateKey
from tracline.stream.alerts.watch_state import RateState, encode, rate_name, read_watch

Numbers = NDArray[Any]

A = 200
"""Ticks between false alarms that the simulations ask for."""
RUNS = 2_000
LONG = 1_500
"""Ticks after which a run is stopped, as if it had alarmed: that makes the mean smaller, never larger."""
DAY = np.array([1, 1, 1, 1, 2, 4, 8, 14, 20, 24, 24, 22, 20, 22, 24, 24, 22, 20, 18, 14, 9, 6, 3, 2])
"""Sessions a tick at each hour of the day."""


def choose(n: int, k: int, rate: float) -> float:
    """The probability of k of n Bernoulli trials."""
    return math.comb(n, k) * rate**k * (1 - rate) ** (n - k)


def plain_e(k: Numbers, n: Numbers, rate: float, dispersion: float, ratio: float) -> Numbers:
    """The e-value by its definition: how much likelier the counts are under the alternative."""
    higher = min(ratio * rate, (1 + rate) / 2)
    if not dispersion:
        return (higher / rate) ** k * ((1 - higher) / (1 - rate)) ** (n - k)
    a = 1 / dispersion
    null, alternative = n * rate / (a + n * rate), n * higher / (a + n * higher)
    return (alternative / null) ** k * ((1 - alternative) / (1 - null)) ** a


def runs(k: Numbers, n: Numbers, tolerated: Tolerated) -> Numbers:
    """For each row of counts the first tick (from 1) with E >= A, the number of ticks where there is none."""
    first = np.full(len(k), k.shape[1])
    sums = np.zeros((len(RATIOS), len(k)))
    alive = np.ones(len(k), dtype=bool)
    for tick in range(k.shape[1]):
        sessions = np.maximum(n[:, tick], 1)
        for place, ratio in enumerate(RATIOS):
            e = plain_e(k[:, tick], sessions, tolerated.rate, tolerated.dispersion, ratio)
            sums[place] = np.where(n[:, tick] > 0, e * (sums[place] + 1), sums[place])
        now = alive & (sums.mean(axis=0) >= A)
        first[now] = tick + 1
        alive &= ~now
        sums[:, ~alive] = 0.0
    return first


def first_alarm(k: Numbers, n: Numbers, tolerated: Tolerated, settings: DetectorSettings) -> int:
    """The tick (from 1) at which the product's detector fires, the number of ticks where it does not."""
    state = DetectorState()
    for tick, (violating, applicable) in enumerate(zip(k.tolist(), n.tolist(), strict=True), 1):
        state, alarm = step(state, violating, applicable, tolerated, settings)
        if alarm is not None:
            return tick
    return len(k)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("tolerated", [0.001, 0.02, 0.11, 0.4, 0.9])
def test_an_e_value_expects_at_most_one_whatever_the_rate_below(tolerated: float, ratio: float) -> None:
    """Over all outcomes of up to 12 sessions, each with its own rate up to the tolerated one: at most 1."""
    for n in range(1, 13):
        for share in (0.0, 0.3, 0.9, 1.0):
            rate = tolerated * share
            expected = math.fsum(
                choose(n, k, rate) * math.exp(log_e(k, n, Tolerated(tolerated), ratio)) for k in range(n + 1)
            )
            assert expected <= 1 + 1e-12
            assert share < 1 or expected == pytest.approx(1, abs=1e-12)


def test_an_e_value_expects_at_most_one_when_each_session_has_its_own_rate() -> None:
    """Over all outcomes of four sessions and all choices of their rates from three: at most 1."""
    tolerated = 0.2
    for rates in product((0.0, 0.1, tolerated), repeat=4):
        for ratio in RATIOS:
            expected = 0.0
            for outcome in product((False, True), repeat=4):
                chance = math.prod(
                    rate if hit else 1 - rate for rate, hit in zip(rates, outcome, strict=True)
                )
                expected += chance * math.exp(log_e(sum(outcome), 4, Tolerated(tolerated), ratio))
            assert expected <= 1 + 1e-12


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("dispersion", [0.1, 0.5, 2.0])
def test_an_e_value_expects_at_most_one_under_scattered_rates(dispersion: float, ratio: float) -> None:
    """With dispersion: 1 for gamma-Poisson counts of just that mean and scatter, at most 1 for less."""
    tolerated, n = Tolerated(0.05, dispersion), 40
    for share, scatter in product((0.4, 1.0), (0.25, 1.0)):
        a, mean = 1 / (dispersion * scatter), n * tolerated.rate * share
        chance, total = a * math.log(a / (a + mean)), 0.0
        for k in range(3_000):
            total += math.exp(chance + log_e(k, n, tolerated, ratio))
            chance += math.log((a + k) / (k + 1) * mean / (a + mean))
        assert total <= 1 + 1e-9
        assert share * scatter < 1 or total == pytest.approx(1, abs=1e-9)
    for rate in (0.0, 0.02, 0.05):
        trials = (choose(n, k, rate) * math.exp(log_e(k, n, tolerated, ratio)) for k in range(n + 1))
        assert math.fsum(trials) <= 1 + 1e-12


def test_the_detector_alarms_where_its_definition_does() -> None:
    """On 100 random runs, some with ticks without sessions, the first alarm is that of the definition."""
    rng = np.random.default_rng(3)
    settings = DetectorSettings(arl_ticks=A, violating_min=0)
    fired = 0
    for dispersion in (0.0, 0.4):
        tolerated = Tolerated(0.03, dispersion)
        n = rng.integers(0, 30, (50, 120))
        k = rng.binomial(n, rng.choice([0.02, 0.06, 0.15], (50, 1)))
        expected = runs(k, n, tolerated)
        assert [first_alarm(k[i], n[i], tolerated, settings) for i in range(50)] == expected.tolist()
        fired += int((expected < 120).sum())
    assert fired > 30


def nulls(name: str, rng: np.random.Generator) -> tuple[Tolerated, Numbers, Numbers]:
    """Runs in which nothing is wrong: what is tolerated, the counts of violating and of all sessions."""
    hours = np.tile(np.repeat(DAY, 4), LONG // (4 * len(DAY)) + 1)[:LONG]
    match name:
        case "the tolerated rate itself":
            n = np.full((RUNS, LONG), 20)
            return Tolerated(0.05), rng.binomial(n, 0.05), n
        case "few sessions, a rare breach":
            n = np.full((RUNS, LONG), 2)
            return Tolerated(0.02), rng.binomial(n, 0.02), n
        case "exposure by the hour":
            n = rng.poisson(hours, (RUNS, LONG))
            return Tolerated(0.05), rng.binomial(n, 0.05), n
        case "rates that wander below what is tolerated":
            n = rng.poisson(hours, (RUNS, LONG))
            return Tolerated(0.08), rng.binomial(n, np.minimum(rng.gamma(2, 0.03, n.shape), 0.08)), n
        case "scattered counts, many sessions":
            n = np.full((RUNS, LONG), 300)
            rates = np.minimum(rng.gamma(2, 0.05 / 2, n.shape), 1.0)
            return Tolerated(0.05, 0.5), rng.binomial(n, rates), n
        case _:
            raise AssertionError(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "the tolerated rate itself",
        "few sessions, a rare breach",
        "exposure by the hour",
        "rates that wander below what is tolerated",
        "scattered counts, many sessions",
    ],
)
def test_false_alarms_are_at_least_a_ticks_apart(name: str) -> None:
    """If nothing is wrong, 2,000 runs go on for A ticks and more in the mean before they alarm."""
    tolerated, k, n = nulls(name, np.random.default_rng(17))
    # Ticks without sessions do not count towards A.
    first = runs(k, n, tolerated)
    counted = np.cumsum(n > 0, axis=1)[np.arange(RUNS), first - 1]
    mean, error = counted.mean(), counted.std() / math.sqrt(RUNS)
    print(f"{name}: {mean:.0f} ticks of {A} asked for, standard error {error:.0f}")
    assert mean - 3 * error >= A


@pytest.mark.slow
def test_scatter_that_is_left_out_breaks_the_bound() -> None:
    """The same scattered counts alarm far too often if their dispersion is left out: it is needed."""
    tolerated, k, n = nulls("scattered counts, many sessions", np.random.default_rng(17))
    assert runs(k, n, replace(tolerated, dispersion=0.0)).mean() < A / 4


@pytest.mark.parametrize(
    ("ratio", "dispersion", "most"), [(3, 0.0, 11), (5, 0.0, 5), (3, 0.25, 16), (5, 0.25, 6)]
)
def test_a_spike_is_found_soon(ratio: int, dispersion: float, most: int) -> None:
    """After 50 quiet ticks of 20 sessions, half of all spikes are found within `most` ticks at A = 8640."""
    rng = np.random.default_rng(5)
    tolerated = Tolerated(0.03, dispersion)
    before, after, settings = 50, 200, DetectorSettings()
    n = np.full((200, before + after), 20)
    rates = np.repeat([0.015, 0.03 * ratio], [before, after])
    k = rng.binomial(n, rates)
    first = np.array([first_alarm(k[i], n[i], tolerated, settings) for i in range(len(k))])
    delay = np.median(first[first > before] - before)
    print(f"ratio {ratio}, dispersion {dispersion}: median delay {delay:.0f} ticks")
    assert (first <= before).sum() <= 2
    assert delay <= most


Ticks = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60)


@given(ticks=Ticks, cut=st.integers(0, 60), dispersion=st.sampled_from([0.0, 0.5]))
def test_a_state_cut_anywhere_and_read_back_changes_nothing(
    ticks: list[tuple[int, int]], cut: int, dispersion: float
) -> None:
    """Written after any tick and read again, a detector gives the alarms that it would have given."""
    settings, tolerated = (
        DetectorSettings(arl_ticks=50, resolve_ticks=3, stale_ticks=4),
        Tolerated(0.1, dispersion),
    )
    key = RateKey("pack", "rule", "agent")
    whole, resumed = DetectorState(), DetectorState()
    for place, (violating, applicable) in enumerate(ticks):
        if place == cut:
            record = {rate_name(key): encode(RateState(detector=resumed))}
            resumed = read_watch(record, 60).detectors[key]
            assert resumed is not None
        whole, alarm = step(whole, min(violating, applicable), applicable, tolerated, settings)
        resumed, again = step(resumed, min(violating, applicable), applicable, tolerated, settings)
        assert (resumed, again) == (whole, alarm)


@pytest.mark.slow
def test_an_alarm_lasts_while_the_rate_does() -> None:
    """At the least ratio times the tolerated rate, alarms last `resolve_ticks` ticks or more in the mean."""
    rng = np.random.default_rng(11)
    settings, tolerated = DetectorSettings(resolve_ticks=20), Tolerated(0.05)
    lasted = []
    for _ in range(400):
        state, alarm, ticks = DetectorState(firing=True, applicable=1), None, 0
        while alarm is None:
            ticks += 1
            state, alarm = step(state, int(rng.binomial(20, 0.1)), 20, tolerated, settings)
        lasted.append(ticks)
    assert np.mean(lasted) - 3 * np.std(lasted) / 20 >= 20
