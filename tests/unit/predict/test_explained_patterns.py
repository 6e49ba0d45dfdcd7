"""The likeliest continuations that make a pattern true, against every continuation of small chains."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from tracline.predict.chain.contexts import END, Contexts
from tracline.predict.chain.learned import Counted
from tracline.predict.chain.steps import HELD_CLOSING, SATISFIED_STEP, UNMET_CLOSING, VIOLATED_STEP
from tracline.predict.estimation.expectation import NextSymbolChain, next_probabilities
from tracline.predict.estimation.nested import NestedEstimate, nested
from tracline.predict.explaining.explanation import STAYS, ExplainedChain
from tracline.predict.explaining.paths import PATHS_MAX
from tracline.predict.explaining.pattern_graph import explained_pattern
from tracline.predict.explaining.rule_graph import explained_chain
from tracline.predict.risk.pattern import PatternSolver, read_pattern

from .test_pattern import PATTERNS, any_verdicts, estimate_of, is_true

NAMES = {VIOLATED_STEP: frozenset(["violated"]), SATISFIED_STEP: frozenset(["satisfied"])}
CLOSES = {UNMET_CLOSING: frozenset(["unmet"]), HELD_CLOSING: frozenset(["held"])}
NOTHING = frozenset[str]()
Word = tuple[frozenset[str], ...]
Ways = dict[tuple[str, ...], float]


@cache
def is_decided(pattern: str, word: Word, left: int) -> bool:
    """Return whether a pattern is true on a word and on all of at most so many verdicts more."""
    further = [NOTHING, *NAMES.values(), *CLOSES.values()]
    return all(
        is_true(pattern, word + more)
        for count in range(left + 1)
        for more in product(further, repeat=count)
        if word + more
    )


def ways_after(
    counted: Counted, estimate: NestedEstimate, start: tuple[int, int], pattern: str, events: int
) -> Ways:
    """Return the continuations that make a pattern true, up to where that is certain, by their symbols."""
    steps, names = counted.steps, (*counted.symbols.symbols, END)
    found: Ways = {}

    def go(symbol: int, row: int, word: Word, symbols: tuple[str, ...], probability: float) -> None:
        left = events - len(word)
        # One verdict more than may come: a formula is certain whatever comes, also where the word is over.
        if word and (is_true(pattern, word) if not left else is_decided(pattern, word, 3)):
            found[symbols] = found.get(symbols, 0.0) + probability
            return
        if not left:
            return
        at = Contexts(*(np.array([each], dtype=np.int32) for each in (0, symbol, row)))
        shares: list[float] = next_probabilities(counted, estimate, at)[0].tolist()
        if not any(shares) and is_true(pattern, (*word, *[NOTHING] * left)):
            found[*symbols, STAYS] = probability
        for following, share in enumerate(shares):
            further = (*symbols, names[following])
            if share and following == counted.symbols.boundary:
                if is_true(pattern, (*word, CLOSES.get(int(steps.closings[row]), NOTHING))):
                    found[further] = probability * share
            elif share:
                name = NAMES.get(int(steps.verdicts[row, following]), NOTHING)
                to = int(steps.next[row, following])
                go(following, to, (*word, name), further, probability * share)

    go(*start, (), (), 1.0)
    return found


def explained(
    counted: Counted, estimate: NestedEstimate, text: str, start: tuple[int, int], events: int | None
) -> ExplainedChain:
    """Return the graph of a pattern from a symbol and a row on."""
    chain, pattern = NextSymbolChain(counted, estimate), read_pattern(text)
    solved = PatternSolver(counted, chain, pattern).by_state(events)
    return explained_pattern(counted, chain, pattern, (0, *start), events, solved)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nested", "frequencies"])
@pytest.mark.parametrize("seed", range(3))
def test_the_ways_to_a_pattern_are_the_likeliest_of_all(seed: int, kind: str) -> None:
    """Within 1 to 3 events, at every pair of a symbol and a row; together they have the whole probability."""
    counted = any_verdicts(seed)
    estimate = estimate_of(counted, kind)
    count = 0
    for text in PATTERNS:
        for events in (1, 2, 3):
            for symbol, row in product(range(counted.symbols.boundary + 1), range(len(counted.steps.states))):
                ways = ways_after(counted, estimate, (symbol, row), text, events)
                found = explained(counted, estimate, text, (symbol, row), events).explain(0, PATHS_MAX)
                assert found.risk == pytest.approx(sum(ways.values()), abs=1e-12)
                likeliest = sorted(ways.values(), reverse=True)[:PATHS_MAX]
                assert [path.probability for path in found.paths] == pytest.approx(likeliest, abs=1e-12)
                of_symbols = {tuple(step.symbol for step in path.steps): path for path in found.paths}
                assert len(of_symbols) == len(found.paths)
                for symbols, path in of_symbols.items():
                    assert ways[symbols] == pytest.approx(path.probability, abs=1e-12), (text, symbols)
                means = sum(each.probability * each.risk for each in found.nexts)
                assert means == pytest.approx(found.risk, abs=1e-12)
                count += len(of_symbols)
    assert count > 200


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_ways_to_a_pattern_of_ever_are_those_of_many_events(seed: int) -> None:
    """But for those that are true as nothing more has come: these end with the close."""
    counted = any_verdicts(seed)
    for text in (
        "eventually (violated or unmet)",
        "violated and next eventually violated",
        "always not satisfied",
    ):
        for start in ((0, 0), (1, 1)):
            ever, soon = (explained(counted, nested(counted), text, start, each) for each in (None, 60))
            paths = [each.explain(0, 8).paths for each in (ever, soon)]
            assert paths[0] == paths[1], text
            assert ever.explain(0, 1).risk == pytest.approx(soon.explain(0, 1).risk, abs=1e-6)


def test_the_ways_to_a_verdict_are_those_of_the_rule() -> None:
    """The same steps, probabilities and next symbols as without a pattern, where rules do not stop."""
    for seed in range(4):
        counted = any_verdicts(seed)
        chain = NextSymbolChain(counted, nested(counted))
        for start in product(range(counted.symbols.boundary + 1), range(len(counted.steps.states) - 1)):
            rule = explained_chain(counted, chain, (0, *start), 4).explain(0, 12)
            graph = explained(counted, nested(counted), "eventually (violated or unmet)", start, 4)
            pattern = graph.explain(0, 12)
            assert pattern.paths == rule.paths
            assert pattern.risk == pytest.approx(rule.risk, abs=1e-12)
            after = [{each.symbol: each.risk for each in found.nexts} for found in (rule, pattern)]
            assert after[1] == pytest.approx(after[0], abs=1e-12)
