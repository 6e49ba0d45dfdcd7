"""Tolerated rates from history: per rule and agent, with what little history leaves open added.

The rate of a tick is taken for a gamma variable, and the violating sessions of its `applicable` ones for
Poisson around it. The tolerated rate is a quantile of the rate that another tick may have: the scatter of
rates from tick to tick and the uncertainty of their mean, added up and put into one gamma distribution of
that mean and variance. What is known of a rule as a whole stands in for what is not known of an agent.
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
from .sessions import RateKey, TickCounts

VERSION = 1
"""Version of the file of rates."""

QUANTILE = 0.95
"""The share of ticks whose rate is tolerated, were the future as history."""

RATE_MIN = 0.002
"""No tolerated rate is below this: one session in 500."""
RATE_MAX = 1 - 1e-6
"""Nor above this: it stays a probability. A rule that all sessions have violated raises no alarm."""

MEAN_PRIOR = 0.01
"""The mean rate of a rule without any history, give or take as much again."""

DISPERSION_PRIOR = 0.25
"""The dispersion of a rule without any history, give or take as much: rates scatter by half their mean."""
DISPERSION_MAX = 4.0

BREACHES_MIN = 3
"""Violations that must be known before it is believed how soon they come."""

_HINT = "make it anew with `tracline alerts rates`"

Probability = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Amount = Annotated[int, msgspec.Meta(ge=0)]


class Rate(msgspec.Struct, frozen=True):
    """What is tolerated, and the history that says so: sessions, and the ticks in which there were any."""

    tolerated: Probability
    dispersion: Annotated[float, msgspec.Meta(ge=0, le=1e6)]
    mean: Probability
    violating: Amount = 0
    applicable: Amount = 0
    ticks: Amount = 0


class RuleRates(msgspec.Struct, frozen=True):
    """A rule: how many ticks to wait for violations, its agents' rates, and the rate of any other agent."""

    pack: str
    rule: str
    settle_ticks: Amount
    other: Rate
    agents: dict[str, Rate]


class Rates(msgspec.Struct, frozen=True):
    """The content of a file of rates. `settle_ticks` and `other` are for rules that it does not name.

    Dispersions are those of ticks of `tick_s` seconds; `since` and `until` are the history's bounds.
    """

    version: int
    tick_s: Annotated[int, msgspec.Meta(gt=0)]
    settle_ticks: Amount
    other: Rate
    rules: tuple[RuleRates, ...]
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Rates, ready to be asked."""

    tick_s: int
    settle_ticks: Callable[[str, str], int]
    tolerated: Callable[[RateKey], Tolerated]


def tolerance(rates: Rates) -> Tolerance:
    """Return what the rates say of a rule (how many ticks to wait) and of an agent of it."""
    rules = {(one.pack, one.rule): one for one in rates.rules}

    def settle_ticks(pack: str, rule: str) -> int:
        known = rules.get((pack, rule))
        return rates.settle_ticks if known is None else known.settle_ticks

    def tolerated(key: RateKey) -> Tolerated:
        known = rules.get((key.pack, key.rule))
        rate = rates.other if known is None else known.agents.get(key.agent, known.other)
        return Tolerated(rate.tolerated, rate.dispersion)

    return Tolerance(rates.tick_s, settle_ticks, tolerated)


def default_rates(tick_s: int, idle_s: float) -> Rates:
    """Rates without any history: violations may come until a session is idle for `idle_s`, and closes."""
    return Rates(VERSION, tick_s, math.ceil(idle_s / tick_s) + 1, fit([], MEAN_PRIOR), ())


def rates_of(
    ticks: Iterable[TickCounts], delays: Mapping[tuple[str, str], Sequence[int]], tick_s: int, idle_s: float
) -> Rates:
    """Rates from settled ticks and, by pack and rule, how many ticks after applying each violation came."""
    nothing = default_rates(tick_s, idle_s)
    counts: dict[tuple[str, str], dict[str, list[TickCounts]]] = {rule: {} for rule in delays}
    for tick in ticks:
        counts.setdefault(tick.key[:2], {}).setdefault(tick.key.agent, []).append(tick)
    rules: list[RuleRates] = []
    for rule, agents in sorted(counts.items()):
        pooled = fit([tick for some in agents.values() for tick in some], MEAN_PRIOR)
        wait = settle(delays.get(rule, ()), nothing.settle_ticks)
        known = {name: fit(some, pooled.mean, pooled.dispersion) for name, some in sorted(agents.items())}
        rules.append(RuleRates(*rule, wait, fit([], pooled.mean, pooled.dispersion), known))
    return msgspec.structs.replace(nothing, rules=tuple(rules))


def settle(delays: Sequence[int], otherwise: int) -> int:
    """Return how many ticks to wait for violations: as long as 95 of 100 took, where enough are known."""
    if len(delays) < BREACHES_MIN:
        return otherwise
    return min(sorted(delays)[math.ceil(QUANTILE * len(delays)) - 1], otherwise)


def fit(ticks: Sequence[TickCounts], mean: float, dispersion: float = DISPERSION_PRIOR) -> Rate:
    """The rate tolerated after these ticks; `mean` and `dispersion` are what one would believe without them.

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
    """The rates as a JSON file."""
    return msgspec.json.format(msgspec.json.encode(rates), indent=1) + b"\n"


def decode(data: bytes) -> Rates:
    """The rates in a file. Raises StreamError (TRL762) where it holds none that can be used."""
    try:
        rates = msgspec.json.decode(data, type=Rates)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StreamError("TRL762", f"the tolerated rates cannot be read: {error}", _HINT) from None
    if rates.version != VERSION:
        what = f"the tolerated rates have version {rates.version}, not {VERSION}"
        raise StreamError("TRL762", what, _HINT)
    return rates


def _dispersion(counts: Sequence[tuple[int, int]], mean: float, prior: float) -> float:
    """The squared coefficient of variation of the rates, from counts of violating and applicable sessions.

    Given its rate p, a tick's count has the variance n p (1 - p); over ticks, n(n - 1) Var(p) comes on top.
    """
    excess = sum((k - n * mean) ** 2 - n * mean * (1 - mean) for k, n in counts)
    scale = mean * mean * sum(n * (n - 1) for _, n in counts)
    if not scale:
        return prior
    spread = [n * mean + (n * mean) ** 2 * prior for _, n in counts]
    known = scale * scale / sum(2 * one * one + one for one in spread)
    believed = 1 / (prior * prior) if prior else 0.0
    return min(max((excess / scale * known + prior * believed) / (known + believed), 0.0), DISPERSION_MAX)
