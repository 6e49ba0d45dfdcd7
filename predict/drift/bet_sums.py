"""Sums of bets by rule, agent and tick of event time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ...rules.model.arrays import I64
from ...schemas.time import NS

TICK_NS = 300 * NS
"""The ticks of event time whose bets are one e-value."""


class RuleBets(NamedTuple):
    """The bets of one rule on rows of a batch: log e-values by ratio, bets, and those found against."""

    pack: str
    rule: str
    rows: I64
    logs: I64
    trials: I64
    violated: I64


class BetGroup(NamedTuple):
    """The bets that add up: those of a message, a tick (numbered since the epoch), and an agent."""

    message: int
    tick: int
    agent: str


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
    chain: str, bets: Iterable[RuleBets], group_of: Sequence[BetGroup | None]
) -> dict[int, list[BetSum]]:
    """Return the sums by message; `group_of` has the group of each row with a bet."""
    numbers: dict[BetGroup, int] = {}
    codes = np.array(
        [-1 if group is None else numbers.setdefault(group, len(numbers)) for group in group_of],
        dtype=np.int64,
    )
    groups = list(numbers)
    found: dict[int, list[BetSum]] = {}
    for each in bets:
        of_row = codes[each.rows]
        logs = np.zeros((len(groups), each.logs.shape[1]), dtype=np.int64)
        np.add.at(logs, of_row, each.logs)
        trials = np.bincount(of_row, each.trials, len(groups)).astype(np.int64)
        violated = np.bincount(of_row, each.violated, len(groups)).astype(np.int64)
        for number in np.flatnonzero(trials).tolist():
            group = groups[number]
            counts = int(trials[number]), int(violated[number])
            at = chain, each.pack, each.rule, group.agent, group.tick
            found.setdefault(group.message, []).append(BetSum(*at, *counts, tuple(logs[number].tolist())))
    return found
