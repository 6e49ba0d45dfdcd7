"""The compiled loops that bet on events and on closes, for the loops that step the sequences."""

from __future__ import annotations

from typing import Any

from ...schemas.compiled import compiled
from ..chain.steps import CUT_CLOSING, UNMET_CLOSING
from .event_bets import SEQUENCES, TRIALS, VIOLATED


@compiled
def count_sequences(rule: Any, event: Any, known: Any, bets: Any) -> None:
    """Count the sequences before an event, given the slices that have begun."""
    if bets.ranks[rule] >= 0:
        bets.counts[bets.ranks[rule], event, SEQUENCES] = max(known, 1)


@compiled
def add_bet(rule: Any, event: Any, context: Any, is_violated: Any, weight: Any, bets: Any) -> None:
    """Bet the shares of so many equal sequences on an event, by their context before it."""
    # A verdict against the agent gains wherever there is a bet.
    if not bets.values[context, 1, 0]:
        return
    outcome, rank = 1 if is_violated else 0, bets.ranks[rule]
    if rank < 0:
        bets.places[rule, event] = 2 * context + outcome
        return
    bets.counts[rank, event, TRIALS] += weight
    bets.counts[rank, event, VIOLATED] += outcome * weight
    for ratio in range(bets.gains.shape[2]):
        bets.gains[rank, event, ratio] += weight * bets.values[context, outcome, ratio]


@compiled
def bet_on_ends(slots: Any, first: Any, tables: Any, memory: Any, bets: Any) -> None:
    """Bet on the close of each of these sessions; the first has the bet at `first`, the next one the next."""
    rules, runs = len(tables.keys), len(memory.rows) - len(memory.links)
    for place in range(len(slots)):
        for rule in range(rules):
            session, event = slots[place] * rules + rule, first + place
            count_sequences(rule, event, memory.sizes[session], bets)
            member = memory.heads[session]
            run = session if member < 0 else runs + member
            while run >= 0 and not memory.cut[session]:
                closing = tables.closings[tables.row_bases[rule] + memory.rows[run]]
                context = memory.contexts[run]
                if not memory.stopped[run] and closing != CUT_CLOSING and context >= 0:
                    add_bet(rule, event, context, closing == UNMET_CLOSING, memory.weights[run], bets)
                member = -1 if run < runs else memory.links[member]
                run = -1 if member < 0 else runs + member


@compiled
def sum_bets(groups: Any, bets: Any, logs: Any, sums: Any, counts: Any) -> None:
    """Add up the bets of rules without slices by group of their events.

    `logs` has the log e-values of a bet by twice its context, plus one where it is found against.
    """
    for rule in range(bets.places.shape[0]):
        for event in range(bets.places.shape[1]):
            place, group = bets.places[rule, event], groups[event]
            if place >= 0:
                counts[rule, group, TRIALS] += 1
                counts[rule, group, VIOLATED] += place & 1
                for ratio in range(logs.shape[1]):
                    sums[rule, group, ratio] += logs[place, ratio]


@compiled
def sum_sliced_bets(
    groups: Any, rules: Any, found: Any, logs: Any, bets: Any, sums: Any, counts: Any
) -> None:
    """Add up the bets of rules with slices by group of their events.

    `found` are the ranks of rules and the events with bets, and `logs` their log e-values; `rules` are by
    rank.
    """
    ranks, events = found
    for place in range(len(ranks)):
        rank, event = ranks[place], events[place]
        rule, group = rules[rank], groups[event]
        counts[rule, group, TRIALS] += bets.counts[rank, event, TRIALS]
        counts[rule, group, VIOLATED] += bets.counts[rank, event, VIOLATED]
        for ratio in range(logs.shape[1]):
            sums[rule, group, ratio] += logs[place, ratio]
