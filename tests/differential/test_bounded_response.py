"""Risks without history of bounded responses, by the product of a chain and Pro2Guard's monitor."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from tracline.predict.chain.learned import Counted
from tracline.predict.counting.watched_rules import watch
from tracline.predict.estimation.options import EstimateOptions
from tracline.predict.risk.rule_risks import RiskOptions, rule_risks
from tracline.rules.packs.load import pack_text

from ..support.chains.counts import counted_of

HORIZONS = (1, 2, 5, 9)
LETTERS = ("", "p", "p,q", "q")
IDLE, VIOLATED = -1, -2
PACK = """
pack: responses
version: 1
propositions: {{p: text contains "p", q: text contains "q"}}
rules: [{{id: response, formula: 'always (p -> eventually[0,{bound}] q)'}}]
"""


def monitored(state: int, letter: str, bound: int) -> int:
    """Return the next state of the monitor (Pro2Guard, Definition 6): idle, violated, or the steps left."""
    triggers, answers = "p" in letter, "q" in letter
    if state == IDLE:
        return bound if triggers and not answers else IDLE
    if state == VIOLATED or answers:
        return VIOLATED if state == VIOLATED else IDLE
    return state - 1 if state > 0 else VIOLATED


def product_risks(shares: np.ndarray, bound: int, within: int) -> dict[tuple[int, int], float]:
    """Return the probability of coming to the violated state, by last symbol and state of the monitor."""
    nodes = [(s, m) for s in range(len(LETTERS) + 1) for m in (IDLE, *range(bound + 1))]
    risks = dict.fromkeys(nodes, 0.0)
    for _ in range(within):
        risks = {
            (s, m): sum(
                float(shares[s, w]) * (1.0 if after == VIOLATED else risks[w, after])
                for w, letter in enumerate(LETTERS)
                for after in [monitored(m, letter, bound)]
            )
            for s, m in nodes
        }
    return risks


def random_counted(bound: int, random: Random) -> Counted:
    """Return counts of sessions that go on: each symbol is followed by some others, in every state alike."""
    watched = watch(pack_text(PACK.format(bound=bound)))
    steps = watched.step_table(0, ["user:" + letter for letter in LETTERS])
    size = len(LETTERS)
    followers = [random.sample(range(size), random.randint(2, size)) for _ in range(size + 1)]
    transitions: dict[tuple[int, int, int], int] = {}
    waiting = [(size, 0)]
    while waiting:
        symbol, row = waiting.pop()
        for following in followers[symbol]:
            if (symbol, row, following) not in transitions:
                transitions[symbol, row, following] = random.randint(1, 9)
                waiting.append((following, int(steps.next[row, following])))
    return counted_of(steps, size, transitions)


@pytest.mark.parametrize("bound", range(4))
@pytest.mark.parametrize("seed", range(5))
def test_risks_are_those_of_the_product_of_definition_6(seed: int, bound: int) -> None:
    """At every context that words of four events come to.

    The monitor of Definition 6 with K steps raises the violation one event after K: it is that of F[0,K+1].
    """
    random = Random(seed)
    counted = random_counted(bound + 1, random)
    counts = np.zeros((len(LETTERS) + 1, len(LETTERS)))
    at = counted.counts.contexts
    np.add.at(counts, (counted.contexts.symbols[at], counted.counts.nexts), counted.counts.counts)
    shares = counts / counts.sum(axis=1, keepdims=True)
    table = rule_risks(counted, RiskOptions(HORIZONS, EstimateOptions(alpha=0.0, has_history=False))).table
    number = {
        key: place
        for place, key in enumerate(
            zip(counted.contexts.symbols.tolist(), counted.contexts.states.tolist(), strict=True)
        )
    }
    expected = [product_risks(shares, bound, within) for within in HORIZONS]
    seen: set[tuple[int, int]] = set()
    waiting = [(len(LETTERS), 0, IDLE, 0)]
    while waiting:
        symbol, row, state, events = waiting.pop()
        found = table.values[number[symbol, row]]
        assert found == pytest.approx([risks[symbol, state] for risks in expected], abs=1e-9)
        seen.add((symbol, state))
        for following in np.flatnonzero(shares[symbol]).tolist() if events < bound + 3 else ():
            after = monitored(state, LETTERS[following], bound)
            if after != VIOLATED:
                waiting.append((following, int(counted.steps.next[row, following]), after, events + 1))
    assert len(seen) > 3
    assert any(0 < value < 1 for value in table.values[:, -1].tolist())
