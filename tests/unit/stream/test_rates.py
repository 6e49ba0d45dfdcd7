"""Tolerated rates: learning from history, the prior that stands in for it, and the file."""

from __future__ import annotations

import numpy as np
import pytest
from tracline.predict.detector import DetectorSettings, DetectorState, Tolerated, step
from tracline.stream.alerts.rates import (
    RATE_MAX,
    RATE_MIN,
    decode,
    default_rates,
    encode,
    fit,
    rates_of,
    settle,
    tolerance,
)
from tracline.stream.alerts.session_counts import RateKey, TickCounts
from tracline.stream.error import StreamError

KEY = RateKey("desk", "confirm", "bot")


def ticks(violating: list[int], applicable: list[int], key: RateKey = KEY) -> list[TickCounts]:
    """Settled ticks of these counts."""
    return [TickCounts(key, i, k, n) for i, (k, n) in enumerate(zip(violating, applicable, strict=True))]


def test_the_tolerated_rate_is_above_19_of_20_rates() -> None:
    """Of ticks whose rates scatter by half their mean, about one in 20 has a rate above what is tolerated."""
    rng = np.random.default_rng(2)
    rates = rng.gamma(4, 0.03 / 4, 3_000)
    known = fit(ticks(rng.binomial(80, rates).tolist(), [80] * len(rates)), 0.01)
    assert known.mean == pytest.approx(0.03, rel=0.05)
    assert known.dispersion == pytest.approx(0.25, abs=0.06)
    assert 0.03 < (rates > known.tolerated).mean() < 0.07


@pytest.mark.parametrize(("shape", "least", "most"), [(1e9, 0.0, 0.1), (1.0, 0.7, 1.3)])
def test_scatter_is_distinguished_from_chance(shape: float, least: float, most: float) -> None:
    """Counts that differ by chance alone have next to no dispersion; rates that scatter have theirs."""
    rng = np.random.default_rng(4)
    n = rng.integers(20, 200, 2_000)
    k = rng.binomial(n, np.minimum(rng.gamma(shape, 0.03 / shape, len(n)), 1))
    assert least <= fit(ticks(k.tolist(), n.tolist()), 0.01).dispersion <= most


def test_little_history_tolerates_more() -> None:
    """The same share of violating sessions tolerates the more, the fewer sessions it comes from."""
    tolerated = [fit(ticks([1] * size, [20] * size), 0.05).tolerated for size in (1, 5, 50, 2_000)]
    assert tolerated == sorted(tolerated, reverse=True)
    assert 0.05 < tolerated[-1] < tolerated[0]


def test_no_violation_in_many_sessions_tolerates_about_three_in_as_many() -> None:
    """After N quiet sessions about 3 / N is tolerated (the rule of three), but never less than the floor."""
    assert fit(ticks([0] * 100, [10] * 100), 0.01).tolerated == pytest.approx(3 / 1_000, rel=0.2)
    assert fit(ticks([0] * 5_000, [100] * 5_000), 0.01).tolerated == RATE_MIN


def test_a_rule_that_everyone_violates_has_a_rate_below_one() -> None:
    """The tolerated rate stays a probability where every session violates."""
    known = fit(ticks([50] * 200, [50] * 200), 0.01)
    assert known.tolerated == RATE_MAX
    Tolerated(known.tolerated, known.dispersion)


@pytest.mark.parametrize("rate", [0.97, 1.0])
def test_what_nearly_everyone_violates_is_no_alarm(rate: float) -> None:
    """If history tolerates it, a rule that nearly all sessions violate may go on like that."""
    n = [50] * 2_000
    k = np.random.default_rng(6).binomial(n, rate).tolist()
    known = fit(ticks(k, n), 0.01)
    state, alarm = DetectorState(), None
    for violating in k:
        state, alarm = step(
            state,
            violating,
            50,
            Tolerated(known.tolerated, known.dispersion),
            DetectorSettings(arl_ticks=8_640),
        )
        assert alarm is None


def test_an_agent_with_little_history_is_taken_for_one_of_its_kind() -> None:
    """A new agent is tolerated more under a rule that others violate often than under one nobody violates."""
    often = [TickCounts(RateKey("desk", "often", "old"), i, 4, 20) for i in range(300)]
    never = [TickCounts(RateKey("desk", "never", "old"), i, 0, 20) for i in range(300)]
    new = [TickCounts(RateKey("desk", rule, "new"), 0, 0, 2) for rule in ("often", "never")]
    ask = tolerance(rates_of([*often, *never, *new], {}, 300, 3600)).tolerated
    for agent in ("new", "never heard of"):
        assert (
            ask(RateKey("desk", "often", agent)).rate > 0.2 > 0.01 > ask(RateKey("desk", "never", agent)).rate
        )
    assert ask(RateKey("desk", "often", "old")).rate < ask(RateKey("desk", "often", "new")).rate


def test_without_history_a_rule_has_the_prior() -> None:
    """A rule that no history knows is tolerated a few percent, and its ticks wait until sessions close."""
    ask = tolerance(default_rates(300, 3600))
    assert 0.01 < ask.tolerated(KEY).rate < 0.05
    assert ask.settle_ticks("desk", "confirm") == 13


def test_ticks_wait_as_long_as_violations_took() -> None:
    """As long as 95 of 100 violations took, at most until sessions close; that, too, where few are known."""
    assert settle([0] * 96 + [9] * 4, 13) == 0
    assert settle([0] * 90 + [9] * 10, 13) == 9
    assert settle([40, 50, 60], 13) == 13
    assert settle([0, 0], 13) == 13


def test_rates_survive_their_file() -> None:
    """The learned rates are read back as they were."""
    rates = rates_of(ticks([1, 0, 2], [9, 3, 8]), {KEY[:2]: [0, 1, 1]}, 300, 3600)
    assert decode(encode(rates)) == rates


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        encode(default_rates(300, 3600)).replace(b'"version": 1', b'"version": 2'),
        encode(default_rates(300, 3600)).replace(b'"tick_s": 300', b'"tick_s": 0'),
        encode(default_rates(300, 3600)).replace(b'"tolerated": 0.0', b'"tolerated": 1.0'),
    ],
)
def test_a_file_that_holds_no_rates_is_refused(data: bytes) -> None:
    """A file of another version, damaged, or with rates that are none is refused with what to do (TRL762)."""
    with pytest.raises(StreamError) as refused:
        decode(data)
    assert refused.value.code == "TRL762"
    assert "tracline alerts rates" in refused.value.hint
