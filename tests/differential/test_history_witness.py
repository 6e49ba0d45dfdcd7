"""Which event a witness names for a past condition, against the condition's values by their definition."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.language.parse import parse_formula
from tracline.rules.model.formula import PAST, Formula, Op, has_future, prop
from tracline.rules.model.rule import Rule
from tracline.rules.reference.semantics import holds

from ..support.table_witness import replayed, trails_of
from .formulas import of_size
from .words import LETTERS

TRUE_BEFORE = {Op.WEAK_PREVIOUS, Op.HISTORICALLY, Op.WEAK_SINCE, Op.AT_MOST}
"""The past operators that hold where nothing has happened yet."""

BOUNDED = [
    f"{word}{bounds} {operand}"
    for word, choices in (
        ("once", ("[0,0]", "[0,1]", "[1,1]", "[1,2]", "[2,3]")),
        ("historically", ("[0,0]", "[0,1]", "[1,1]", "[1,2]", "[2,3]")),
        ("previous", ("[0]", "[2]", "[3]")),
        ("weak_previous", ("[0]", "[2]", "[3]")),
        ("at_most", ("[0]", "[1]", "[2]")),
    )
    for bounds in choices
    for operand in ("p", "not p", "once q")
]


def conditions() -> Iterator[Formula]:
    """Yield every past condition of up to three nodes, and those with bounds."""
    for nodes in (2, 3):
        yield from (formula for formula in of_size(nodes) if formula.op in PAST and not has_future(formula))
    yield from map(parse_formula, BOUNDED)


def looks_back(condition: Formula) -> int:
    """Return how many events before it the nearest one is of which the condition speaks."""
    if condition.op in (Op.PREVIOUS, Op.WEAK_PREVIOUS):
        return 1 if condition.bounds is None else condition.bounds[0]
    return condition.bounds[0] if condition.bounds and condition.op is not Op.AT_MOST else 0


def expected(condition: Formula, word: tuple[frozenset[str], ...]) -> list[tuple[bool, int | None]]:
    """After each event the condition's value, and the event that made it differ from before, if one did."""
    found: list[tuple[bool, int | None]] = []
    before, index = condition.op in TRUE_BEFORE, None
    for at in range(len(word)):
        now = holds(condition, word, at + 1)
        index = at - looks_back(condition) if now is not before else index
        found.append((now, index))
        before = now
    return found


@pytest.mark.slow
def test_a_witness_names_the_event_that_last_changed_each_condition() -> None:
    """The first event included: of no change it names none, for every small condition and short session."""
    count = changes = 0
    for condition in conditions():
        formula = Formula(Op.ALWAYS, (Formula(Op.IMPLIES, (condition, Formula(Op.NEXT, (prop("p"),)))),))
        rule = Rule("p", "r", "", formula, "", {})
        machine = compile_rule(rule)
        trails = trails_of(rule, machine)
        events = 3 if condition.bounds is None else 4
        for word in product(LETTERS, repeat=events):
            found = replayed(trails, machine, word, [(0, events)], range(events))
            for at, (value, index) in enumerate(expected(condition, word)):
                (bit,) = found[at].history
                assert (bit.value, bit.place) == (value, index), (str(condition), word, at)
                changes += index is not None
            count += 1
    print(f"history bits: {count} sessions, {changes} values that some event made")
    assert count == 22_784
    assert changes > count
