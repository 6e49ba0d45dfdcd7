"""Sums of bets by rule, agent and tick of event time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from ...schemas.time import NS
from .event_bets import BatchBets

TICK_NS = 300 * NS
"""The ticks of event time whose bets are one e-value."""


BetGroup: TypeAlias = tuple[int, int, str]
"""The bets that add up: those of a message, of a tick (numbered since the epoch), and of an agent."""


class BetSum(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The bets of a rule in one tick: their log e-values by ratio in parts of `LOG_ONE`, and their counts.

    `agent` is the one named before the event, since a bet must not depend on the event; empty without any.
    """

    chain: str
    pack: str
    rule: str
    agent: str
    tick: int
    trials: int
    violated: int
    logs: tuple[int, ...]


def bet_sums(
    chain: str, rules: Sequence[tuple[str, str]], bets: BatchBets, group_of: Sequence[BetGroup]
) -> dict[int, list[BetSum]]:
    """Return the sums by message; `rules` are packs and ids, and `group_of` has the group of each row."""
    places: dict[BetGroup, list[int]] = {}
    for place, group in enumerate(group_of):
        places.setdefault(group, []).append(place)
    logs = bets.logs()
    found: dict[int, list[BetSum]] = {}
    for (message, tick, agent), of_group in places.items():
        summed = logs[:, of_group].sum(axis=1).tolist()
        counts = bets.counts[:, of_group].sum(axis=1, dtype=np.int64).tolist()
        for (pack, rule), its_logs, (_, trials, violated) in zip(rules, summed, counts, strict=True):
            if trials:
                named = chain, pack, rule, agent, tick
                each = BetSum(*named, trials, violated, tuple(its_logs))
                found.setdefault(message, []).append(each)
    return found
