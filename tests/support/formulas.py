"""The formulas that the differential tests go through: the fixed set, and seeded samples beyond it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

from tracline.rules.model.formula import FALSE, PAST, TRUE, Formula, Op, has_future, prop, walk

LEAVES = (prop("p"), prop("q"), TRUE, FALSE)
UNARY = (
    Op.NOT,
    Op.NEXT,
    Op.WEAK_NEXT,
    Op.EVENTUALLY,
    Op.ALWAYS,
    Op.PREVIOUS,
    Op.WEAK_PREVIOUS,
    Op.ONCE,
    Op.HISTORICALLY,
)
BINARY = (
    Op.AND,
    Op.OR,
    Op.IMPLIES,
    Op.IFF,
    Op.UNTIL,
    Op.WEAK_UNTIL,
    Op.RELEASE,
    Op.STRONG_RELEASE,
    Op.SINCE,
    Op.WEAK_SINCE,
)
"""With two propositions and two constants as leaves these make 7,760 formulas of up to four nodes."""

ALL, ACCEPTED, REFUSED = 7_760, 5_968, 1_792
FIVE_NODES, ACCEPTED_FIVE = 116_804, 76_484


@cache
def of_size(nodes: int) -> tuple[Formula, ...]:
    """Return every formula of that many nodes, future inside past included."""
    if nodes == 1:
        return LEAVES
    unary = (Formula(op, (arg,)) for op in UNARY for arg in of_size(nodes - 1))
    binary = (
        Formula(op, (left, right))
        for op in BINARY
        for size in range(1, nodes - 1)
        for left in of_size(size)
        for right in of_size(nodes - 1 - size)
    )
    return (*unary, *binary)


def fixed_set() -> Iterator[Formula]:
    """Yield all formulas of up to four nodes, shorter ones first."""
    for nodes in range(1, 5):
        yield from of_size(nodes)


def is_accepted(formula: Formula) -> bool:
    """Return whether no future operator stands inside a past one."""
    return not any(node.op in PAST and has_future(node) for node in walk(formula))


@cache
def accepted() -> tuple[Formula, ...]:
    """Return the accepted formulas of the fixed set."""
    return tuple(filter(is_accepted, fixed_set()))


def sample_of(nodes: int, size: int, seed: int) -> list[Formula]:
    """That many distinct accepted formulas of that many nodes, each shape of tree as likely as its number."""
    random, found = Random(seed), dict[Formula, None]()
    while len(found) < size:
        formula = _random(nodes, random)
        if is_accepted(formula):
            found[formula] = None
    return list(found)


def _random(nodes: int, random: Random) -> Formula:
    if nodes == 1:
        return random.choice(LEAVES)
    splits = range(1, nodes - 1)
    weights = [
        len(UNARY) * _count(nodes - 1),
        *(len(BINARY) * _count(n) * _count(nodes - 1 - n) for n in splits),
    ]
    split = random.choices([0, *splits], weights)[0]
    if split == 0:
        return Formula(random.choice(UNARY), (_random(nodes - 1, random),))
    left, right = _random(split, random), _random(nodes - 1 - split, random)
    return Formula(random.choice(BINARY), (left, right))


@cache
def _count(nodes: int) -> int:
    """Return how many formulas of that many nodes there are."""
    if nodes == 1:
        return len(LEAVES)
    pairs = sum(_count(size) * _count(nodes - 1 - size) for size in range(1, nodes - 1))
    return len(UNARY) * _count(nodes - 1) + len(BINARY) * pairs
