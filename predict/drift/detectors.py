"""The detectors of a chain's drift, one for each followed rule and agent, over ticks of event time.

The bets of a tick add up to one e-value, whatever messages they came in; the tick is settled with the first
bet of a later one. A bet of an earlier tick counts in the open one. So the detectors after some events depend
on nothing but these events, except for the few that come after later ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ...schemas.records.risk_crossing import RiskCrossing
from ...schemas.time import parse_time
from ..detector import DetectorState, DetectorTick, mixture, step_tick
from .bet_sums import TICK_NS, BetSum
from .event_bets import LOG_ONE, SETTINGS

AGENTS_MAX = 20
"""Agents of a rule with a detector of their own; the bets of all others count for `OTHER_AGENTS`."""
OTHER_AGENTS = "(other agents)"
AGENT_CHARS_MAX = 120


class DriftKey(NamedTuple):
    """The rule and the agent of a detector, and the chain."""

    chain: str
    pack: str
    rule: str
    agent: str


class DriftDetector(msgspec.Struct, frozen=True, array_like=True):
    """A detector after the ticks that are settled, and the bets of the open `tick`."""

    tick: int
    trials: int
    violated: int
    logs: tuple[int, ...]
    state: DetectorState = DetectorState()

    def settled(self, tick: int) -> DetectorState:
        """Return the state before a tick: that after the open one where it is an earlier one."""
        if tick <= self.tick:
            return self.state
        logs = tuple([log / LOG_ONE for log in self.logs])
        state, _ = step_tick(self.state, DetectorTick(self.violated, self.trials, 0.0, logs), SETTINGS)
        return state

    def added(self, bets: BetSum) -> DriftDetector:
        """Return the detector after these bets."""
        if bets.tick > self.tick:
            return DriftDetector(bets.tick, bets.trials, bets.violated, bets.logs, self.settled(bets.tick))
        logs = tuple([before + log for before, log in zip(self.logs, bets.logs, strict=True)])
        counts = self.trials + bets.trials, self.violated + bets.violated
        return DriftDetector(self.tick, *counts, logs, self.state)

    @property
    def evidence(self) -> float:
        """Return the logarithm of the evidence of the settled ticks, at least 0; in an alarm the limit."""
        if self.state.firing:
            return math.log(SETTINGS.arl_ticks)
        return max(mixture(self.state.evidence), 0.0)


Detectors = Mapping[DriftKey, DriftDetector]
"""Detectors by rule and agent."""


def with_bets(detectors: Detectors, bets: Iterable[BetSum]) -> Detectors:
    """Return the detectors after the bets of some events.

    One without a bet for as many ticks as end a stale alarm is dropped, before the next tick's bets count.
    """
    found = dict(detectors)
    for tick, of_tick in groupby(sorted(bets, key=_tick_of), key=_tick_of):
        found, agents = _fresh(found, tick), None
        for each in of_tick:
            key = DriftKey(each.chain, each.pack, each.rule, each.agent[:AGENT_CHARS_MAX])
            before = found.get(key)
            if before is None:
                agents = Counter(name[:3] for name in found) if agents is None else agents
                if agents[key[:3]] >= AGENTS_MAX:
                    key = key._replace(agent=OTHER_AGENTS)
                    before = found.get(key)
                agents[key[:3]] += before is None
            if before is None:
                found[key] = DriftDetector(tick, each.trials, each.violated, each.logs)
            else:
                found[key] = before.added(each)
    return _fresh(found, max((each.tick for each in found.values()), default=0))


def _fresh(detectors: dict[DriftKey, DriftDetector], tick: int) -> dict[DriftKey, DriftDetector]:
    """Return the detectors that are not stale at a tick."""
    since = tick - SETTINGS.stale_ticks
    if all(each.tick > since for each in detectors.values()):
        return detectors
    return {key: each for key, each in detectors.items() if each.tick > since}


_tick_of = attrgetter("tick")


def has_drifted(detectors: Detectors, chain: str, pack: str, rule: str, tick: int) -> bool:
    """Return whether a rule's alarm fires for any agent by the ticks before this one."""
    return any(
        each.settled(tick).firing
        for key, each in detectors.items()
        if key.rule == rule and key.pack == pack and key.chain == chain
    )


def watched(
    detectors: Detectors, crossings: Sequence[RiskCrossing], bets: Sequence[BetSum]
) -> tuple[Detectors, list[RiskCrossing]]:
    """Return the detectors after a message, and its crossings with their `drift`.

    That is by the ticks before the crossing's own, so it does not depend on the message's other events.
    """
    if not crossings:
        return (with_bets(detectors, bets) if bets else detectors), []
    crossed: dict[int, list[int]] = {}
    for place, each in enumerate(crossings):
        crossed.setdefault(_tick(each), []).append(place)
    bet: dict[int, list[BetSum]] = {}
    for each in bets:
        bet.setdefault(each.tick, []).append(each)
    found = list(crossings)
    for tick in sorted({*crossed, *bet}):
        for place in crossed.get(tick, ()):
            each = crossings[place]
            if has_drifted(detectors, each.chain, each.pack, each.rule, tick):
                found[place] = msgspec.structs.replace(each, drift=True)
        if tick in bet:
            detectors = with_bets(detectors, bet[tick])
    return detectors, found


def _tick(crossing: RiskCrossing) -> int:
    time = parse_time(crossing.time)
    assert time is not None, "a record's times are RFC 3339"
    return time // TICK_NS


class RuleDrift(NamedTuple):
    """The greatest evidence of drift of a rule, and whether an alarm fires, over its agents."""

    evidence: float
    is_firing: bool


def by_rule(detectors: Iterable[Detectors], chain: str | None = None) -> dict[tuple[str, str], RuleDrift]:
    """Return the drift of each rule with a detector, by pack and id; of one chain, or of any."""
    found: dict[tuple[str, str], RuleDrift] = {}
    for each in detectors:
        for key, detector in each.items():
            if chain not in (None, key.chain):
                continue
            before = found.get((key.pack, key.rule), RuleDrift(0.0, False))
            firing = before.is_firing or detector.state.firing
            found[key.pack, key.rule] = RuleDrift(max(before.evidence, detector.evidence), firing)
    return found
