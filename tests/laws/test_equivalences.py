"""Laws of temporal logic: equivalent formulas give the same verdicts, also at the close."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from tracline.rules.engine.monitor import Monitor
from tracline.rules.language.parse import parse_formula
from tracline.rules.model.formula import Formula, Op, prop, walk
from tracline.rules.reference.semantics import invariant_body
from tracline.schemas.verdict import Recover

from .strategies import FEWER, FUTURE_FORMULAS, PAST_FORMULAS, RECOVERS, TRACES

FUTURE_LAWS = [
    ("F a", "not G not a"),
    ("F a", "true U a"),
    ("G a", "false R a"),
    ("G a", "a W false"),
    ("not (a U b)", "not a R not b"),
    ("not (a W b)", "not a M not b"),
    ("a W b", "(a U b) or G a"),
    ("a R b", "b W (a and b)"),
    ("a M b", "b U (a and b)"),
    ("a U b", "b or (a and X (a U b))"),
    ("a W b", "b or (a and N (a W b))"),
    ("a R b", "b and (a or N (a R b))"),
    ("not X a", "N not a"),
    ("F[0,2] a", "a or X (a or X a)"),
    ("G[1,2] a", "N (a and N a)"),
    ("F[1,2] a", "not G[1,2] not a"),
    ("X[2] a", "X X a"),
    ("N[2] a", "N N a"),
    ("G (a and b)", "G a and G b"),
    ("F (a or b)", "F a or F b"),
    ("a -> b", "not a or b"),
    ("a <-> b", "(a -> b) and (b -> a)"),
]
PAST_LAWS = [
    ("O a", "not H not a"),
    ("O a", "true S a"),
    ("H a", "a WS false"),
    ("a WS b", "(a S b) or H a"),
    ("a S b", "b or (a and Y (a S b))"),
    ("a WS b", "b or (a and Z (a WS b))"),
    ("not Y a", "Z not a"),
    ("O[0,2] a", "a or Y (a or Y a)"),
    ("H[1,2] a", "Z (a and Z a)"),
    ("Y[2] a", "Y Y a"),
    ("Z[2] a", "Z Z a"),
    ("at_most[0] a", "H not a"),
    ("at_most[1] a", "H (a -> Z H not a)"),
    ("at_most[1] a", "not O (a and Y O a)"),
    ("at_most[2] a", "not O (a and Y O (a and Y O a))"),
]


def _with(shape: str, a: Formula, b: Formula) -> Formula:
    """Return a side of the law with formulas for its letters a and b."""

    def put(f: Formula) -> Formula:
        if f.op is Op.PROP and f.name in ("a", "b"):
            return a if f.name == "a" else b
        return Formula(f.op, tuple(map(put, f.args)), f.name, f.bounds)

    return put(parse_formula(shape))


def _assert_same(left: Formula, right: Formula, recover: Recover, trace: list[frozenset[str]]) -> None:
    left_monitor, right_monitor = Monitor(left, recover), Monitor(right, recover)
    assert left_monitor.close() is right_monitor.close()
    for letter in trace:
        assert left_monitor.step(letter) is right_monitor.step(letter), (str(left), str(right))
        assert left_monitor.close() is right_monitor.close(), (str(left), str(right))


@pytest.mark.parametrize("law", FUTURE_LAWS, ids="  =  ".join)
@FEWER
@given(FUTURE_FORMULAS, FUTURE_FORMULAS, RECOVERS, TRACES)
def test_laws_of_the_future(
    law: tuple[str, str], a: Formula, b: Formula, recover: Recover, trace: list[frozenset[str]]
) -> None:
    """Rewriting a rule by the law changes no verdict, whatever a and b are."""
    _assert_same(_with(law[0], a, b), _with(law[1], a, b), recover, trace)


@pytest.mark.parametrize("law", PAST_LAWS, ids="  =  ".join)
@FEWER
@given(PAST_FORMULAS, PAST_FORMULAS, RECOVERS, TRACES)
def test_laws_of_the_past(
    law: tuple[str, str], a: Formula, b: Formula, recover: Recover, trace: list[frozenset[str]]
) -> None:
    """The same holds for past operators, inside an invariant and under a future operator."""
    left, right = (_with(side, a, b) for side in law)
    for context in ("G (p -> a)", "F (q and a)"):
        rules = [_with(context, side, side) for side in (left, right)]
        _assert_same(rules[0], rules[1], recover, trace)
    assert invariant_body(_with("G (p -> a)", left, left)) is not None


def test_every_operator_stands_in_a_law() -> None:
    """Every operator of the language has a law."""
    covered = Counter(f.op for side in sum(FUTURE_LAWS + PAST_LAWS, ()) for f in walk(parse_formula(side)))
    assert set(Op) - set(covered) == set()
    assert parse_formula("a") == prop("a")
