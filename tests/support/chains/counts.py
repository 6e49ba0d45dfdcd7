"""Small counts for tests: written by hand or random, of one agent."""

from __future__ import annotations

import numpy as np
from tracline.predict.chain.contexts import Contexts, RuleCounts, SymbolSet
from tracline.predict.chain.learned import Counted
from tracline.predict.chain.steps import PENDING_STEP, VIOLATED_STEP, StepTable

from .walks import walks_of


def counted_of(steps: StepTable, symbols: int, transitions: dict[tuple[int, int, int], int]) -> Counted:
    """Return counts of (symbol, row, next) of one agent."""
    contexts = sorted({(symbol, row) for symbol, row, _ in transitions})
    columns = np.array(contexts, dtype=np.int32)
    rows = [(contexts.index((s, q)), following, n) for (s, q, following), n in sorted(transitions.items())]
    table = np.array(rows, dtype=np.int64)
    return Counted(
        pack="p",
        rule="r",
        rule_digest="0" * 64,
        agents=("",),
        symbols=SymbolSet(tuple(f"s{number}" for number in range(symbols))),
        steps=steps,
        contexts=Contexts(np.zeros(len(contexts), dtype=np.int32), columns[:, 0], columns[:, 1]),
        counts=RuleCounts(
            np.zeros(len(rows), dtype=np.int32),
            table[:, 0].astype(np.int32),
            table[:, 1].astype(np.int32),
            table[:, 2],
        ),
        walks=walks_of([]),
    )


def steps_of(following: list[list[int]], verdicts: list[list[int]], closings: list[int]) -> StepTable:
    """Return a step table without memory or final rows."""
    rows = len(following)
    return StepTable(
        next=np.array(following, dtype=np.int32),
        verdicts=np.array(verdicts, dtype=np.uint8),
        closings=np.array(closings, dtype=np.uint8),
        finals=np.zeros(rows, dtype=np.bool_),
        states=np.arange(rows, dtype=np.int32),
        memory=("",) * rows,
        residuals=("",) * rows,
    )


def random_counted(rng: np.random.Generator) -> Counted:
    """Return random counts of a random machine over three symbols."""
    rows, symbols = 3, 3
    steps = steps_of(
        rng.integers(0, rows, (rows, symbols)).tolist(),
        rng.choice([PENDING_STEP, PENDING_STEP, VIOLATED_STEP], (rows, symbols)).tolist(),
        rng.integers(0, 3, rows).tolist(),
    )
    transitions = {(symbols, 0, w): int(rng.integers(1, 30)) for w in range(symbols + 1)}
    for symbol, row in {(int(w), int(steps.next[q, w])) for q in range(rows) for w in range(symbols)}:
        if rng.random() < 0.8:
            taken = rng.choice(symbols + 1, int(rng.integers(1, symbols + 1)), replace=False)
            transitions |= {(symbol, row, int(w)): int(rng.integers(1, 60)) for w in taken}
    return counted_of(steps, symbols, transitions)
