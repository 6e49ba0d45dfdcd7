"""Solving the risks of 25 rules over 500 symbols and 300 states each, from 3,000 random sessions a rule.

    python benchmarks/prediction/risks.py

Prints the processor time and the memory; the goal is 60 s and 1 GB. NumPy's BLAS has one thread, as in
`tracline predict learn`.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from tracline.predict.chain.contexts import FOLDS, Contexts, RuleCounts, SymbolSet
from tracline.predict.chain.learned import Counted
from tracline.predict.chain.steps import HELD_CLOSING, PENDING_STEP, UNMET_CLOSING, VIOLATED_STEP, StepTable
from tracline.predict.chain.walks import Walks
from tracline.predict.risk.rule_risks import RiskOptions, rule_risks

RULES, SYMBOLS, STATES, SESSIONS, EVENTS = 25, 500, 300, 3_000, 30
LETTERS, SUCCESSORS = 8, 12


def random_steps(rng: np.random.Generator) -> StepTable:
    """Return the steps of a random machine over eight letters, of which each symbol has one."""
    letters = rng.integers(0, LETTERS, SYMBOLS)
    following = rng.integers(0, STATES, (STATES, LETTERS)).astype(np.int32)
    verdicts = np.where(rng.random((STATES, LETTERS)) < 0.003, VIOLATED_STEP, PENDING_STEP).astype(np.uint8)
    closings = np.where(rng.random(STATES) < 0.05, UNMET_CLOSING, HELD_CLOSING).astype(np.uint8)
    texts = ("",) * STATES
    stopped, states = np.zeros(STATES, dtype=np.bool_), np.arange(STATES, dtype=np.int32)
    return StepTable(following[:, letters], verdicts[:, letters], closings, stopped, states, texts, texts)


def random_counted(seed: int) -> Counted:
    """Return the counts of random sessions, in which each symbol has a dozen frequent successors."""
    rng = np.random.default_rng(seed)
    steps = random_steps(rng)
    successors = rng.integers(0, SYMBOLS, (SYMBOLS + 1, SUCCESSORS))
    found: Counter[tuple[int, int, int, int]] = Counter()
    for session in range(SESSIONS):
        symbol, row = SYMBOLS, 0
        for _ in range(rng.geometric(1 / EVENTS)):
            following = int(successors[symbol, min(int(rng.exponential(3)), SUCCESSORS - 1)])
            found[session % FOLDS, symbol, row, following] += 1
            symbol, row = following, int(steps.next[row, following])
        found[session % FOLDS, symbol, row, SYMBOLS] += 1
    contexts = sorted({(symbol, row) for _, symbol, row, _ in found})
    number = {key: place for place, key in enumerate(contexts)}
    rows = [(fold, number[s, q], following, n) for (fold, s, q, following), n in sorted(found.items())]
    table, columns = np.array(rows, dtype=np.int64), np.array(contexts, dtype=np.int32)
    folds, places, nexts = (table[:, column].astype(np.int32) for column in range(3))
    nothing = np.empty(0, dtype=np.int32)
    walks = Walks(nothing, nothing.astype(np.bool_), np.zeros(1, np.int64), nothing, nothing.astype(np.uint8))
    return Counted(
        pack="p",
        rule=f"r{seed}",
        rule_digest="0" * 64,
        agents=("",),
        symbols=SymbolSet(tuple(f"s{place:03}" for place in range(SYMBOLS))),
        steps=steps,
        contexts=Contexts(np.zeros(len(columns), dtype=np.int32), columns[:, 0], columns[:, 1]),
        counts=RuleCounts(folds, places, nexts, table[:, 3]),
        walks=walks,
    )


def main() -> None:
    """Solve the rules one after another, and print the sums."""
    spent, contexts = 0.0, 0
    for seed in range(RULES):
        counted = random_counted(seed)
        before = time.process_time()
        risks = rule_risks(counted, RiskOptions())
        spent += time.process_time() - before
        contexts += len(risks.learned) + len(risks.others)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{RULES} rules, {contexts:,} contexts: {spent:.1f} s of the processor, {memory:,.0f} MB at most")


if __name__ == "__main__":
    main()
