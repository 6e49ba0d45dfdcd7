"""The explanation of one risk: the likeliest continuations to its goal, and what the next event makes of it.

The goal is a verdict against the agent, or that a pattern of verdicts is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...rules.model.arrays import F64, I32
from ..chain.contexts import END, SymbolSet
from ..chain.steps import StepTable
from .chain_graph import ChainGraph
from .next_symbols import Actor, NextSymbol, next_symbols
from .paths import GoalPath, likeliest_paths

STAYS = "nothing"
"""The name of a continuation without an event: nothing follows such a context in a chain of frequencies."""

LIKELY_MIN = 0.001
"""The least probability of a next symbol that is named as one that decides."""


@dataclass(frozen=True, slots=True)
class PathStep:
    """One event of a path: its symbol, and the formula that the events after it must satisfy."""

    symbol: str
    residual: str


@dataclass(frozen=True, slots=True)
class ExplainedPath:
    """A continuation in words; the verdict comes at its last step, or the pattern is true from there on."""

    steps: tuple[PathStep, ...]
    probability: float


@dataclass(frozen=True, slots=True)
class RiskExplanation:
    """The explanation of the risk at one node.

    `paths` cover the share `covered` of the risk together. `nexts` are all next symbols, by their share of
    the risk.
    """

    within: int | None
    risk: float
    paths: tuple[ExplainedPath, ...]
    nexts: tuple[NextSymbol, ...]

    @property
    def covered(self) -> float:
        """Return the share of the risk that the paths have together; 1 where there is no risk."""
        return sum(path.probability for path in self.paths) / self.risk if self.risk else 1.0

    def greatest_change(self, actor: Actor, *, is_rise: bool) -> NextSymbol | None:
        """Return the next symbol of that side after which the risk is greatest, or least; None without one.

        Neither a symbol that leaves the risk on the same side of what it is now nor one that hardly ever
        comes (`LIKELY_MIN`) is one.
        """
        side = [each for each in self.nexts if each.actor is actor and each.probability >= LIKELY_MIN]
        if is_rise:
            return max((each for each in side if each.risk > self.risk), key=_by_risk, default=None)
        return min((each for each in side if each.risk < self.risk), key=_by_risk, default=None)


@dataclass(frozen=True, slots=True)
class ExplainedChain:
    """One rule's chain as a graph, with the symbols and the step table that its numbers stand for.

    `rows` are the rows of the nodes. `risks` are the nodes' probabilities of the goal within `within`
    events, and `after` those within one event less (the same of ever).
    """

    graph: ChainGraph
    rows: I32
    symbols: SymbolSet
    steps: StepTable
    within: int | None
    risks: F64
    after: F64

    def explain(self, node: int, paths: int) -> RiskExplanation:
        """Return the explanation of the risk at a node, with at most so many paths."""
        return RiskExplanation(
            within=self.within,
            risk=float(self.risks[node]),
            paths=tuple(
                ExplainedPath(tuple(self._steps(node, path)), path.probability)
                for path in likeliest_paths(self.graph, node, self.within, paths)
            ),
            nexts=tuple(next_symbols(self.graph, node, self.after, self._names)),
        )

    @property
    def _names(self) -> tuple[str, ...]:
        """Return the texts of the next symbols; a graph of which a node stays has one more."""
        return (*self.symbols.symbols, END, STAYS)[: self.graph.probabilities.shape[1]]

    def _steps(self, node: int, path: GoalPath) -> Iterator[PathStep]:
        """Yield the steps of a path; at a close nothing is left to satisfy."""
        row = int(self.rows[node])
        for symbol in path.nexts:
            if symbol >= self.symbols.boundary:
                yield PathStep(self._names[symbol], "")
                return
            row = int(self.steps.next[row, symbol])
            yield PathStep(self.symbols.symbols[symbol], self.steps.residuals[row])


def _by_risk(symbol: NextSymbol) -> tuple[float, float]:
    return symbol.risk, symbol.probability
