"""Probabilities of explicit chains agree with rational arithmetic, with all choices, and with all words."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from tracline.predict.explicit.chain import ExplicitChain, Transition, explicit_chain
from tracline.predict.explicit.intervals import reach_bounds, reach_bounds_within
from tracline.predict.explicit.solution import violating
from tracline.predict.explicit.solve import reach, reach_within
from tracline.rules.language.parse import parse_formula
from tracline.rules.reference.ltl3 import InstanceState, Label, Meaning
from tracline.rules.reference.semantics import Run, advance, begin
from tracline.schemas.verdict import Recover, Verdict

from .exact_chains import Rows, reach_exactly, reach_within_exactly

CHAINS = 300
INTERVAL_CHAINS = 300
FORMULAS = (
    "always p",
    "always (p -> once q)",
    "always (p -> previous q)",
    "always (p -> next q)",
    "always (p -> next[2] q)",
    "always (p -> eventually[0,2] q)",
    "not p weak_until q",
    "p until q",
    "eventually (p and q)",
    "always (p -> (not q) since p)",
    "next (p or q)",
    "eventually p and always not q",
)


def random_rows(rng: random.Random, states: int) -> Rows:
    """Return rows whose probabilities are multiples of an eighth; some states are absorbing."""
    rows: list[list[Fraction]] = []
    for state in range(states):
        shares = [Fraction(0)] * states
        for _ in range(8):
            few = rng.random() < 0.5
            shares[rng.randrange(min(states, 3)) if few else rng.randrange(states)] += Fraction(1, 8)
        absorbing = [Fraction(int(target == state)) for target in range(states)]
        rows.append(absorbing if rng.random() < 0.2 else shares)
    return rows


def chain_of(rows: Rows, labels: dict[str, list[int]] | None = None) -> ExplicitChain:
    """Return the rows as a chain."""
    transitions = [
        Transition(1, source, target, float(share), float(share))
        for source, row in enumerate(rows)
        for target, share in enumerate(row)
        if share
    ]
    return explicit_chain("chain", len(rows), transitions, labels or {}, 0)


def test_probabilities_are_those_of_rational_arithmetic() -> None:
    """Random chains of up to seven states with one or two random targets, ever and within 0 to 6 steps."""
    rng = random.Random(1)
    compared = 0
    for _ in range(CHAINS):
        states = rng.randrange(1, 8)
        rows = random_rows(rng, states)
        chain = chain_of(rows)
        targets = [False] * states
        for target in rng.sample(range(states), min(states, 2)):
            targets[target] = True
        goal = np.array(targets)
        assert reach(chain, goal) == pytest.approx(
            [float(v) for v in reach_exactly(rows, targets)], abs=1e-12
        )
        for steps in range(7):
            exact = [float(value) for value in reach_within_exactly(rows, targets, steps)]
            assert reach_within(chain, goal, steps) == pytest.approx(exact, abs=1e-12)
            compared += states
    assert compared > 7_000


def test_certain_and_impossible_are_exact() -> None:
    """The graph decides 0 and 1: no rounding makes a sure state unsure."""
    rows = [[Fraction(1, 10), Fraction(9, 10), Fraction(0)], [Fraction(1, 3), Fraction(1, 3), Fraction(1, 3)]]
    chain = chain_of([*rows, [Fraction(0), Fraction(0), Fraction(1)]])
    assert reach(chain, np.array([False, False, True])).tolist() == [1.0, 1.0, 1.0]
    assert reach(chain, np.array([False, True, False])).tolist() == [1.0, 1.0, 0.0]


def vertices(row: list[tuple[int, Fraction, Fraction]]) -> Iterator[dict[int, Fraction]]:
    """Yield the corners of a row's distributions: all orders in which what is left can be given away."""
    for order in itertools.permutations(row):
        left = 1 - sum((low for _, low, _ in row), Fraction(0))
        shares: dict[int, Fraction] = {}
        for target, low, high in order:
            added = min(left, high - low)
            shares[target] = low + added
            left -= added
        yield shares


Corners = Sequence[Iterable[tuple[tuple[int, Fraction], ...]]]
"""For each state the corners of its row, as the targets and their shares."""


def interval_rows(rng: random.Random, states: int) -> list[list[tuple[int, Fraction, Fraction]]]:
    """Return rows of two or three intervals around a distribution; some ends are 0 or 1."""
    rows: list[list[tuple[int, Fraction, Fraction]]] = []
    for _ in range(states):
        targets = rng.sample(range(states), min(states, rng.choice((1, 2, 2, 3))))
        cuts = sorted(rng.randrange(9) for _ in targets[1:])
        shares = [Fraction(b - a, 8) for a, b in itertools.pairwise((0, *cuts, 8))]
        row: list[tuple[int, Fraction, Fraction]] = []
        for target, share in zip(targets, shares, strict=True):
            width = Fraction(rng.randrange(4), 8)
            row.append((target, max(Fraction(0), share - width), min(Fraction(1), share + width)))
        rows.append(row)
    return rows


def test_bounds_are_those_of_all_choices() -> None:
    """Chains of four states: each choice of a corner a state, solved in rational arithmetic."""
    rng = random.Random(2)
    solved = 0
    for _ in range(INTERVAL_CHAINS):
        rows = interval_rows(rng, 4)
        targets = [state == 3 for state in range(4)]
        corners = [{tuple(sorted(each.items())) for each in vertices(row)} for row in rows]
        found = [
            reach_exactly(
                [[dict(row).get(target, Fraction(0)) for target in range(4)] for row in choice], targets
            )
            for choice in itertools.product(*corners)
        ]
        solved += len(found)
        transitions = [
            Transition(1, source, target, float(low), float(high))
            for source, row in enumerate(rows)
            for target, low, high in row
        ]
        chain = explicit_chain("chain", 4, transitions, {}, 0)
        least, greatest = reach_bounds(chain, np.array(targets))
        for state in range(4):
            values = [float(each[state]) for each in found]
            assert least[state] == pytest.approx(min(values), abs=1e-9)
            assert greatest[state] == pytest.approx(max(values), abs=1e-9)
        for choose, found_bounds in zip(
            (min, max), reach_bounds_within(chain, np.array(targets), 5), strict=True
        ):
            exact = within_exactly(corners, targets, 5, choose)
            assert found_bounds == pytest.approx(list(map(float, exact)), abs=1e-12)
    assert solved > 2_000


def within_exactly(
    corners: Corners, targets: list[bool], steps: int, choose: Callable[[Iterable[Fraction]], Fraction]
) -> list[Fraction]:
    """Return the least or greatest probability of a target within so many steps, over all corners."""
    values = [Fraction(int(is_target)) for is_target in targets]
    for _ in range(steps):
        values = [
            Fraction(1)
            if is_target
            else choose(sum((p * values[t] for t, p in corner), Fraction(0)) for corner in row)
            for is_target, row in zip(targets, corners, strict=True)
        ]
    return values


def test_numbers_of_a_file_are_no_rounding() -> None:
    """A chance of 1e-13 in each step reaches a target almost surely, a chance of 0 never."""
    for share, expected in ((1e-13, 1.0), (0.0, 0.0)):
        transitions = [
            Transition(1, 0, 0, 1 - share, 1 - share),
            Transition(2, 0, 1, share, share),
            Transition(3, 2, 0, 0.4, 0.5),
            Transition(4, 2, 1, 0.5, 0.6),
        ]
        chain = explicit_chain("chain", 3, transitions, {}, 0)
        least, greatest = reach_bounds(chain, np.array([False, True, False]))
        assert [least[0], greatest[0]] == [expected, expected]


LABELS: tuple[Label, ...] = (frozenset(), frozenset({"p"}), frozenset({"q"}), frozenset({"p", "q"}))


def labelled(rng: random.Random) -> tuple[Rows, list[Label], ExplicitChain]:
    """Return a chain of three states, and the labels of each."""
    rows = random_rows(rng, 3)
    labels = [rng.choice(LABELS) for _ in rows]
    named = {name: [state for state, label in enumerate(labels) if name in label] for name in "pq"}
    return rows, labels, chain_of(rows, named)


def violation_within(meaning: Meaning, rows: Rows, labels: list[Label], first: int, steps: int) -> Fraction:
    """Return the weight of all paths whose word is violated within so many steps, by trying each path."""

    def after(run: Run, state: int, left: int) -> Fraction:
        verdict, run = advance(meaning, run, labels[state], Recover.NONE)
        if verdict is Verdict.VIOLATED:
            return Fraction(1)
        if left == 0:
            return Fraction(0)
        return sum((p * after(run, t, left - 1) for t, p in enumerate(rows[state]) if p), Fraction(0))

    return after(begin(meaning), first, steps)


@pytest.mark.parametrize("text", FORMULAS)
def test_violations_are_those_of_all_words(text: str) -> None:
    """Words of up to eight events: the probability is the sum over the paths that the reference violates."""
    rng = random.Random(text)
    meaning = Meaning(parse_formula(text))
    for _ in range(3):
        rows, labels, chain = labelled(rng)
        found = violating(chain, text, 7, "chain").low
        for first in range(3):
            exact = violation_within(meaning, rows, labels, first, 7)
            assert found[first] == pytest.approx(float(exact), abs=1e-12)


def violation_ever(meaning: Meaning, rows: Rows, labels: list[Label]) -> list[Fraction]:
    """Return the probability of a violation ever, over the product with the reference's runs."""
    numbers: dict[tuple[int, InstanceState, Verdict | None], int] = {}
    waiting: list[tuple[int, Run]] = []

    def number(state: int, before: Run) -> int:
        _, run = advance(meaning, before, labels[state], Recover.NONE)
        node = (state, run.instance, run.final)
        if node not in numbers:
            numbers[node] = len(numbers)
            waiting.append((state, run))
        return numbers[node]

    firsts = [number(state, begin(meaning)) for state in range(len(rows))]
    found: list[tuple[bool, dict[int, Fraction]]] = []
    while waiting:
        state, run = waiting.pop(0)
        after = {number(target, run): share for target, share in enumerate(rows[state]) if share}
        found.append((run.final is Verdict.VIOLATED, after))
    matrix = [[after.get(target, Fraction(0)) for target in range(len(found))] for _, after in found]
    values = reach_exactly(matrix, [is_violated for is_violated, _ in found])
    return [values[first] for first in firsts]


@pytest.mark.parametrize("text", FORMULAS)
def test_violations_ever_are_those_of_the_reference(text: str) -> None:
    """The product with the states of the reference semantics, solved in rational arithmetic."""
    rng = random.Random(text)
    meaning = Meaning(parse_formula(text))
    for _ in range(5):
        rows, labels, chain = labelled(rng)
        exact = [float(value) for value in violation_ever(meaning, rows, labels)]
        assert violating(chain, text, None, "chain").low == pytest.approx(exact, abs=1e-12)
