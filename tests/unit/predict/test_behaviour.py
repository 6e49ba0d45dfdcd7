"""Two chains of one rule compared, whatever numbers their contexts and symbols have."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from tracline.predict.binomial import lower_limit
from tracline.predict.chain.alignment import ABSENT, aligned
from tracline.predict.chain.contexts import Contexts, SymbolSet
from tracline.predict.chain.learned import Counted
from tracline.predict.chain.steps import HELD_CLOSING, PENDING_STEP, VIOLATED_STEP
from tracline.predict.chain.walks import CLOSED_UNMET, CUT
from tracline.predict.validation.behaviour import (
    BehaviourChange,
    behaviour_change,
    violating_sessions,
    violating_share,
)

from ...support.chains.counts import counted_of, steps_of
from ...support.chains.walks import random_sequences, walks_of

STEPS = steps_of([[0, 1], [1, 0]], [[PENDING_STEP, PENDING_STEP], [VIOLATED_STEP, PENDING_STEP]], [1, 1])
FEW, MANY = violating_share(6, 714, 0.05), violating_share(60, 714, 0.05)


def counted(transitions: dict[tuple[int, int, int], int], symbols: tuple[str, ...] = ("a", "b")) -> Counted:
    """Return counts of (symbol, row, next) with these texts."""
    return replace(counted_of(STEPS, 2, transitions), symbols=SymbolSet(symbols))


def swapped(counts: Counted) -> Counted:
    """Return the same counts with symbols and rows numbered the other way round."""
    symbol, row, following = np.array([1, 0, 2]), np.array([1, 0]), counts.counts.nexts
    contexts = counts.contexts
    return replace(
        counts,
        symbols=SymbolSet(counts.symbols.symbols[::-1]),
        steps=replace(counts.steps, states=counts.steps.states[::-1]),
        contexts=Contexts(contexts.agents, symbol[contexts.symbols], row[contexts.states]),
        counts=replace(counts.counts, nexts=symbol[following]),
    )


def change(first: Counted, second: Counted) -> BehaviourChange:
    """Return the change, with the same sessions before and after."""
    return behaviour_change(first, second, FEW, FEW)


BEFORE = {(2, 0, 0): 500, (2, 0, 1): 500, (0, 0, 1): 300, (0, 0, 2): 200, (1, 1, 0): 5, (1, 1, 2): 795}


def test_numbers_do_not_matter() -> None:
    """The same counts under other numbers have no changed context, and each context finds itself."""
    first = counted(BEFORE)
    found = change(first, swapped(first))
    assert (found.contexts, found.changed) == (3, ())
    assert aligned(first, swapped(first)).contexts.tolist() == [0, 1, 2]


def test_a_changed_context_is_named_with_its_next_symbols() -> None:
    """After `b`, which is left to end or to be followed by `a`, the second agent goes on far more often."""
    after = BEFORE | {(1, 1, 0): 205, (1, 1, 2): 595}
    (found,) = change(counted(BEFORE), swapped(counted(after))).changed
    assert (found.symbol, found.visits_before, found.visits_after) == ("b", 800, 800)
    shares = {each.symbol: (each.before, each.after) for each in found.nexts}
    assert shares == {"a": (5 / 800, 205 / 800), "end": (795 / 800, 595 / 800)}


def test_a_new_symbol_is_a_change() -> None:
    """A symbol that the first chain never saw counts as one of its own; its contexts are not compared."""
    after = counted({(2, 0, 0): 500, (2, 0, 1): 500, (1, 1, 0): 500}, ("a", "new"))
    assert aligned(counted(BEFORE), after).contexts.tolist() == [ABSENT, 2]
    found = change(counted(BEFORE), after)
    assert (found.contexts, len(found.changed)) == (1, 1)
    assert {each.symbol: each.after for each in found.changed[0].nexts} == {"b": 0, "new": 0.5}


def test_worse_is_an_interval_above_the_other() -> None:
    """The intervals are Clopper-Pearson's; overlapping ones are neither worse nor better."""
    first = counted(BEFORE)
    assert FEW.low == pytest.approx(lower_limit(6, 714, 0.975))
    assert FEW.high == pytest.approx(1 - lower_limit(708, 714, 0.975))
    worse, better = (behaviour_change(first, first, *sides) for sides in ((FEW, MANY), (MANY, FEW)))
    assert (worse.is_worse, worse.is_better) == (True, False)
    assert (better.is_worse, better.is_better) == (False, True)
    same = change(first, first)
    assert not same.is_worse
    assert not same.is_better


@pytest.mark.parametrize("seed", range(6))
def test_violating_sessions_are_counted_once(seed: int) -> None:
    """A session violates where one of its sequences does; one with a cut sequence is left out."""
    sequences = random_sequences(np.random.default_rng(seed), 30, 4)
    whole = {each.session for each in sequences} - {each.session for each in sequences if each.ending == CUT}
    violating = {each.session for each in sequences if any(each.violated) or each.ending == CLOSED_UNMET}
    assert violating_sessions(walks_of(sequences)) == (len(violating & whole), len(whole))


@pytest.mark.slow
def test_memory_is_that_of_the_counts() -> None:
    """Not of every pair of a context and a next symbol, of which 3,000 contexts have 1.8 million."""
    symbols, rows = 300, 10
    steps = steps_of([[0] * symbols] * rows, [[PENDING_STEP] * symbols] * rows, [HELD_CLOSING] * rows)
    transitions = {(s, q, s): 3 for s in range(symbols) for q in range(rows)}
    counts = counted_of(steps, symbols, transitions)
    tracemalloc.start()
    try:
        behaviour_change(counts, counts, FEW, FEW)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
