"""The risks of one rule in every context that may occur, and the evidence that each rests on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from ...rules.model.arrays import F64, I32, I64, Mask
from ..chain.contexts import NODES_MAX, Contexts
from ..chain.learned import Counted
from ..chain.risks import DIGITS, HORIZON_MAX, Basis, RiskTable
from ..error import PredictError
from ..estimation.expectation import NextSymbolChain, next_probabilities
from ..estimation.nested import NestedEstimate, chosen_weights, dividing, over_labels
from ..estimation.options import EstimateOptions, estimated
from .solve import RiskSolver


@dataclass(frozen=True, slots=True)
class RiskOptions:
    """The horizons of the risks, None for that of ever, and the estimate of the chain."""

    horizons: tuple[int | None, ...] = (1, 5, None)
    estimate: EstimateOptions = field(default_factory=EstimateOptions)


@dataclass(frozen=True, slots=True)
class RuleRisks:
    """The risks of one rule.

    `table` has those of `counted.contexts`, of which the `learned` ones have counts. `others` are the further
    contexts that may occur, with `other_risks` by horizon; in them the symbol `boundary + 1` is one that the
    chain lacks, and `unseen` is the estimate that its risks rest on. `labels` is that of the chain over
    labels. Where `agents` are several, one number more stands for any other agent.
    """

    counted: Counted
    agents: tuple[str, ...]
    options: RiskOptions
    estimate: NestedEstimate
    unseen: NestedEstimate
    labels: NestedEstimate
    table: RiskTable
    learned: Mask
    others: Contexts
    other_risks: F64

    def bases(self) -> tuple[list[Basis], list[Basis]]:
        """Return the basis of each context of the table, and of each other one."""
        unseen = self.others.symbols == self.counted.symbols.boundary + 1
        return (
            [Basis.CONTEXT if each else Basis.SYMBOL for each in self.learned.tolist()],
            [Basis.STATE if each else Basis.SYMBOL for each in unseen.tolist()],
        )


def rule_risks(counted: Counted, options: RiskOptions) -> RuleRisks:
    """Return the risks of a rule, rounded to `DIGITS` decimals and NaN where the rule has stopped.

    Raises ValueError where an impossible pair of symbols occurs, and PredictError (TRL810) where no risk of
    ever can be certified, or where agents, symbols and rows are too many.
    """
    assert all(each is None or 1 <= each <= HORIZON_MAX for each in options.horizons)
    horizons = tuple(sorted(set(options.horizons), key=lambda each: (each is None, each)))
    agents = counted.agents
    if len(agents) > 1:
        counted = replace(counted, agents=(*agents, ""))
    _check_size(counted)
    estimate = estimated(counted, options.estimate)
    chain = NextSymbolChain(counted, estimate)
    solver = RiskSolver(counted, chain)
    solved = solver.each_within(horizons)
    columns = _unseen_columns(counted, options.estimate.has_history)
    unseen, labels = chosen_weights(counted, dividing(counted, columns)), over_labels(counted)
    shares = unseen_shares(counted, unseen)
    tables = [with_unseen(shares, values, solver.gains(before)) for values, before in
              (solved[each] for each in horizons)]  # fmt: skip
    others = other_contexts(counted)
    learned = np.zeros(len(counted.contexts), dtype=np.bool_)
    learned[counted.counts.contexts] = True
    table = RiskTable(horizons, risks_at(counted, tables, counted.contexts))
    other_risks = risks_at(counted, tables, others)
    return RuleRisks(counted, agents, options, estimate, unseen, labels, table, learned, others, other_risks)


def _check_size(counted: Counted) -> None:
    agents, symbols, rows = len(counted.agents), counted.symbols.boundary + 1, len(counted.steps.states)
    if agents * symbols * rows > NODES_MAX:
        what = f"{agents:,} agents, {symbols:,} symbols and {rows:,} states together"
        hint = f"agents times symbols times states may be {NODES_MAX:,}: learn without --by"
        raise PredictError("TRL810", f"{counted.pack}/{counted.rule}", what, hint)


def risk_table(counted: Counted, chain: NextSymbolChain, horizons: Iterable[int | None]) -> RiskTable:
    """Return the rounded risks of the contexts under a given chain, the shortest horizon first."""
    ordered = tuple(sorted(set(horizons), key=lambda each: (each is None, each)))
    solved = RiskSolver(counted, chain).each_within(ordered)
    values = risks_at(counted, [solved[each][0] for each in ordered], counted.contexts)
    return RiskTable(ordered, values)


def _unseen_columns(counted: Counted, has_history: bool) -> list[tuple[str, ...]]:
    """Return the levels of the distribution after a symbol that the chain lacks."""
    has_memory = any(counted.steps.memory)
    if not has_history:
        return [("memory",)] if has_memory else []
    return [("state",), ("row",)] if has_memory else [("state",)]


def unseen_shares(counted: Counted, unseen: NestedEstimate) -> F64:
    """Return by [row, next] the distribution after a symbol that the chain lacks."""
    rows = np.arange(len(counted.steps.states), dtype=np.int32)
    zeros = np.zeros_like(rows)
    return next_probabilities(counted, unseen, Contexts(zeros, zeros, rows))


def with_unseen(shares: F64, values: F64, gains: F64) -> F64:
    """Return the values with a further symbol, the one that the chain lacks, by [agent, symbol, row]."""
    last = np.einsum("qw,awq->aq", shares, gains)
    return np.concatenate([values, last[:, None, :]], axis=1)


def risks_at(counted: Counted, tables: Iterable[F64], contexts: Contexts) -> F64:
    """Return the rounded risks by [context, horizon]."""
    where = contexts.agents, contexts.symbols, contexts.states
    values = np.stack([table[where] for table in tables], axis=1)
    values = np.round(np.clip(values, 0.0, 1.0), DIGITS)
    values[counted.steps.finals[contexts.states]] = np.nan
    return values


def other_contexts(counted: Counted) -> Contexts:
    """Return the contexts that sequences can come to and that the counts lack, in order.

    After a symbol that the chain lacks, the machine may be in every row.
    """
    following = counted.steps.next
    rows, symbols = following.shape
    possible = np.zeros((symbols + 2, rows), dtype=np.bool_)
    possible[symbols, 0] = True
    possible[symbols + 1] = True
    reachable = _reachable(following)
    for symbol in range(symbols):
        possible[symbol, following[reachable, symbol]] = True
    every = np.broadcast_to(possible, (max(1, len(counted.agents)), *possible.shape)).copy()
    every[counted.contexts.agents, counted.contexts.symbols, counted.contexts.states] = False
    agents, found, states = (axis.astype(np.int32) for axis in np.nonzero(every))
    return Contexts(agents, found, states)


def _reachable(following: I32) -> I64:
    """Return the rows that sequences of the chain's symbols can come to."""
    found = np.zeros(len(following), dtype=np.bool_)
    frontier = np.zeros(1, dtype=np.int64)
    while len(frontier):
        found[frontier] = True
        targets = np.unique(following[frontier])
        frontier = targets[~found[targets]]
    return np.flatnonzero(found)
