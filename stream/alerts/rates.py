"""Tolerated rates per rule and agent, estimated from history.

The model: the rate of a tick is a gamma variable, and the number of violating sessions is Poisson around it.
The tolerated rate is a quantile of the predicted rate of a further tick: a gamma distribution whose variance
is that of rates from tick to tick plus the uncertainty of their mean. The rates of a rule over all agents are
the prior for each agent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from ...predict.detector import Tolerated
from ...predict.gamma import quantile
from ..error import StreamError
from .session_counts import RateKey, TickCounts

VERSION = 1
"""Version of the file of rates."""

QUANTILE = 0.95
"""The share of ticks whose rate is tolerated, if the future is like the history."""

RATE_MIN = 0.002
"""The least tolerated rate: one session in 500."""
RATE_MAX = 1 - 1e-6
"""The greatest tolerated rate, below 1. A rule that all sessions violate raises no alarm."""

MEAN_PRIOR = 0.01
"""The prior mean rate of a rule; its standard deviation is as large."""

DISPERSION_PRIOR = 0.25
"""The prior dispersion of a rule, a standard deviation of half the mean; its own deviation is as large."""
DISPERSION_MAX = 4.0

BREACHES_MIN = 3
"""The least number of violations from which their delay is estimated."""

_HINT = "write a new one with `tracline alerts rates`"

Probability = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Amount = Annotated[int, msgspec.Meta(ge=0)]


class Rate(msgspec.Struct, frozen=True):
    """A tolerated rate, with the history that it comes from: sessions, and ticks with sessions."""

    tolerated: Probability
    dispersion: Annotated[float, msgspec.Meta(ge=0, le=1e6)]
    mean: Probability
    violating: Amount = 0
    applicable: Amount = 0
    ticks: Amount = 0


class RuleRates(msgspec.Struct, frozen=True, rename={"rest": "other"}):
    """The rates of a rule: ticks to wait for violations, its agents' rates, and that of any other agent."""

    pack: str
    rule: str
    settle_ticks: Amount
    rest: Rate
    agents: dict[str, Rate]


class Rates(msgspec.Struct, frozen=True, rename={"rest": "other"}):
    """The content of a file of rates. `settle_ticks` and `rest` (`other` in the file) are for others.

    Ticks have `tick_s` seconds; `since` and `until` are the bounds of the history.
    """

    version: int
    tick_s: Annotated[int, msgspec.Meta(gt=0)]
    settle_ticks: Amount
    rest: Rate
    rules: tuple[RuleRates, ...]
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The functions that look up rates."""

    tick_s: int
    settle_ticks: Callable[[str, str], int]
    tolerated: Callable[[RateKey], Tolerated]


def tolerance(rates: Rates) -> Tolerance:
    """Return the look-up of a rule's ticks to wait, and of an agent's tolerated rate."""
    rules = {(rule.pack, rule.rule): rule for rule in rates.rules}

    def settle_ticks(pack: str, rule: str) -> int:
        known = rules.get((pack, rule))
        return rates.settle_ticks if known is None else known.settle_ticks

    def tolerated(key: RateKey) -> Tolerated:
        known = rules.get((key.pack, key.rule))
        rate = rates.rest if known is None else known.agents.get(key.agent, known.rest)
        return Tolerated(rate.tolerated, rate.dispersion)

    return Tolerance(rates.tick_s, settle_ticks, tolerated)


def default_rate() -> Rate:
    """Return the rate of a rule of which nothing is known."""
    return fit([], MEAN_PRIOR)


def default_rates(tick_s: int, idle_s: float) -> Rates:
    """Return the prior rates: violations may come until a session is idle for `idle_s`, and closes."""
    return Rates(VERSION, tick_s, math.ceil(idle_s / tick_s) + 1, default_rate(), ())


def rates_of(
    ticks: Iterable[TickCounts], delays: Mapping[tuple[str, str], Sequence[int]], tick_s: int, idle_s: float
) -> Rates:
    """Return rates from settled ticks and the delays of violations, in ticks, by pack and rule."""
    nothing = default_rates(tick_s, idle_s)
    counts: dict[tuple[str, str], dict[str, list[TickCounts]]] = {rule: {} for rule in delays}
    for tick in ticks:
        counts.setdefault(tick.key[:2], {}).setdefault(tick.key.agent, []).append(tick)
    rules: list[RuleRates] = []
    for rule, agents in sorted(counts.items()):
        pooled = fit([tick for ticks_of_agent in agents.values() for tick in ticks_of_agent], MEAN_PRIOR)
        wait = settle(delays.get(rule, ()), nothing.settle_ticks)
        known = {name: fit(of, pooled.mean, pooled.dispersion) for name, of in sorted(agents.items())}
        rules.append(RuleRates(*rule, wait, fit([], pooled.mean, pooled.dispersion), known))
    return msgspec.structs.replace(nothing, rules=tuple(rules))


def settle(delays: Sequence[int], otherwise: int) -> int:
    """Return how many ticks to wait for violations: as many as 95% of them took, if enough are known."""
    if len(delays) < BREACHES_MIN:
        return otherwise
    return min(sorted(delays)[math.ceil(QUANTILE * len(delays)) - 1], otherwise)


def fit(ticks: Sequence[TickCounts], mean: float, dispersion: float = DISPERSION_PRIOR) -> Rate:
    """Return the tolerated rate after these ticks, with the prior `mean` and `dispersion`.

    The mean is that of a gamma prior of shape 1 after the counts. The dispersion is estimated by moments and
    weighed against the prior by their precisions, as if both were normal.
    """
    counts = [(tick.violating, tick.applicable) for tick in ticks if tick.applicable]
    violating, applicable = sum(k for k, _ in counts), sum(n for _, n in counts)
    weight = 1 / mean + applicable
    mean = (1 + violating) / weight
    dispersion = _dispersion(counts, mean, dispersion)
    squares = sum(n * n for _, n in counts)
    uncertain = 1 / (mean * weight) + dispersion * squares / (weight * weight)
    tolerated = quantile(QUANTILE, 1 / (dispersion + uncertain), mean)
    return Rate(
        tolerated=min(max(tolerated, RATE_MIN), RATE_MAX),
        dispersion=dispersion,
        mean=min(mean, RATE_MAX),
        violating=violating,
        applicable=applicable,
        ticks=len(counts),
    )


def encode(rates: Rates) -> bytes:
    """Return the rates as a JSON file."""
    return msgspec.json.format(msgspec.json.encode(rates), indent=1) + b"\n"


def decode(data: bytes) -> Rates:
    """Return the rates in a file. Raises StreamError (TRL762) where they are damaged or incompatible."""
    try:
        rates = msgspec.json.decode(data, type=Rates)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StreamError("TRL762", f"cannot read the tolerated rates: {error}", _HINT) from None
    if rates.version != VERSION:
        what = f"the tolerated rates have version {rates.version}, not {VERSION}"
        raise StreamError("TRL762", what, _HINT)
    return rates


def _dispersion(counts: Sequence[tuple[int, int]], mean: float, prior: float) -> float:
    """Return the squared coefficient of variation of the rates, from violating and applicable sessions.

    Given its rate p, a tick's count has the variance n p (1 - p); over ticks, n(n - 1) Var(p) comes on top.
    """
    excess = sum((k - n * mean) ** 2 - n * mean * (1 - mean) for k, n in counts)
    scale = mean * mean * sum(n * (n - 1) for _, n in counts)
    if not scale:
        return prior
    spread = [n * mean + (n * mean) ** 2 * prior for _, n in counts]
    known = scale * scale / sum(2 * variance * variance + variance for variance in spread)
    weight = 1 / (prior * prior) if prior else 0.0
    return min(max((excess / scale * known + prior * weight) / (known + weight), 0.0), DISPERSION_MAX)
