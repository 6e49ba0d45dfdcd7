"""The parts that decide a rule: those that a violation depends on, and where."""

from __future__ import annotations

from itertools import product

import pytest
from tracline.rules import explain
from tracline.rules.explanation.deciding import DecidingParts
from tracline.rules.model.printer import to_text
from tracline.rules.reference.semantics import holds

pytestmark = pytest.mark.slow

LETTERS = tuple(frozenset(letter) for letter in ("", "p", "q", "pq"))


@pytest.mark.parametrize(
    ("formula", "parts"),
    [
        ("always (p -> once q)", ["once q"]),
        ("always (p -> not q since (p and previous q))", ["not q since (p and previous q)"]),
        ("always not (p and previous q)", ["previous q"]),
        ("always not p", ["p"]),
        ("p -> q", ["p", "q"]),
        ("eventually q", ["eventually q"]),
        ("always ((once p or historically q) and (p -> next q))", ["once p", "historically q", "next q"]),
    ],
)
def test_the_temporal_parts_below_boolean_operators_decide(formula: str, parts: list[str]) -> None:
    """A rule without such parts has its propositions."""
    found = DecidingParts(explain(formula, [{"p"}, {"q"}]))
    assert [to_text(part.formula) for part in found.parts] == parts


@pytest.mark.parametrize(
    "formula", ["always (p -> once q)", "always not (p and previous q)", "always (p -> eventually[0,1] q)"]
)
def test_steps_that_break_a_rule_are_those_where_its_condition_is_false(formula: str) -> None:
    """All words of four events; some deciding part is blamed at each such step, and none elsewhere."""
    for word in product(LETTERS, repeat=4):
        status = explain(formula, word)
        found, body = DecidingParts(status), status.parts[0].formula.args[0]
        for step in range(1, 5):
            blamed = found.breaking(step)
            assert bool(blamed) != holds(body, word, step), (formula, word, step)
            assert not blamed or blamed & {part.node for part in found.parts}
            assert set(found.true_names(step)) == set(word[step - 1])
