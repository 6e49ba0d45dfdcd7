"""Sums of bets by rule, agent and tick of event time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ...rules.engine.kernel_loop import numbered
from ...rules.model.arrays import I32, I64
from ...schemas.time import NS
from .bet_loop import sum_bets, sum_sliced_bets
from .event_bets import SEQUENCES, TRIALS, BetTables, EventBets, bet_logs

TICK_NS = 300 * NS
"""The ticks of event time whose bets are one e-value."""


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


class BetGroups(NamedTuple):
    """The groups in which bets add up: the message and the tick (numbered since the epoch) of each event.

    `agents` are those named before the events, empty without one.
    """

    messages: Sequence[int]
    ticks: Sequence[int]
    agents: Sequence[str]


class BatchBets(NamedTuple):
    """The bets of rules on the events of a batch and then on its ends, whose rows are `rows`."""

    rows: I64
    tables: BetTables
    bets: EventBets

    def summed(self, groups: I32, count: int) -> tuple[I64, I64]:
        """Return the log e-values and the counts by rule and group; `groups` has that of each event."""
        bets, tables = self.bets, self.tables
        shape = len(bets.places), count
        sums: I64 = np.zeros((*shape, bets.gains.shape[2]), dtype=np.int64)
        counts: I64 = np.zeros((*shape, bets.counts.shape[2]), dtype=np.int64)
        sum_bets(groups, bets, tables.logs, sums, counts)
        # Most events are no bets of most rules, and a logarithm takes longer than all else.
        found = np.nonzero(bets.counts[:, :, TRIALS])
        logs = bet_logs(bets.gains[found], bets.counts[found][:, SEQUENCES, None])
        sum_sliced_bets(groups, tables.sliced, found, logs, bets, sums, counts)
        return sums, counts


def bet_sums(
    chain: str, rules: Sequence[tuple[str, str]], bets: BatchBets, groups: BetGroups
) -> dict[int, list[BetSum]]:
    """Return the sums by message; `rules` are packs and ids, and `groups` has a group for each row."""
    numbers: dict[str, int] = {}
    agents = [numbers.setdefault(agent, len(numbers)) for agent in groups.agents]
    codes = np.array([groups.messages, groups.ticks, agents], dtype=np.int64).T.copy()
    of_events, firsts = numbered(codes.view(np.uint64))
    places: list[int] = firsts.tolist()
    named = [(groups.messages[at], groups.ticks[at], groups.agents[at]) for at in places]
    sums, counts = bets.summed(of_events, len(named))
    found: dict[int, list[BetSum]] = {}
    of_groups = zip(named, sums.transpose(1, 0, 2).tolist(), counts.transpose(1, 0, 2).tolist(), strict=True)
    for (message, tick, agent), logs, its_counts in of_groups:
        for (pack, rule), its_logs, (_, trials, violated) in zip(rules, logs, its_counts, strict=True):
            if trials:
                each = BetSum(chain, pack, rule, agent, tick, trials, violated, tuple(its_logs))
                found.setdefault(message, []).append(each)
    return found
