"""Formulas beyond the fixed set: step bounds, `at_most`, and transition bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

from tracline.rules.language.parse import parse_formula
from tracline.rules.model.formula import Formula


@dataclass(frozen=True)
class Sample:
    """A formula and the transition bits it names."""

    formula: Formula
    transitions: Mapping[str, Formula] = field(default_factory=dict)


BOUNDS = ("[0,0]", "[0,1]", "[0,2]", "[1,1]", "[1,2]", "[2,2]", "[1,3]")
FUTURE = (*(f"{op}{bounds}" for op, bounds in product("FG", BOUNDS)), "X[2]", "N[2]", "X[3]")
PAST = (*(f"{op}{bounds}" for op, bounds in product("OH", BOUNDS)), "Y[2]", "Z[2]", "Y[3]")
COUNTS = ("at_most[0]", "at_most[1]", "at_most[2]")

SHAPES = (
    "{} p",
    "not {} p",
    "G (q -> {} p)",
    "F (q and {} p)",
    "q U {} p",
    "({} p) W q",
    "q R {} p",
    "({} p) <-> X q",
)
"""Contexts for an operator of either direction."""

SHAPES_OF_PAST = ("{} (p and Y q)", "Y {} p", "F Z {} p", "p S {} q", "G ({} p or X q)", "O not {} p")
SHAPES_OF_FUTURE = ("{} F p", "{} (p U q)", "G F {} p", "F G {} p", "{} (p and O q)")

BITS = {
    "odd": "not previous odd",
    "turn": "previous turn and not q or p",
    "both": "previous (both or p) and not previous[2] both",
    "chain": "previous chain <-> q",
}
WITH_BIT = (
    "G (p -> {})",
    "{}",
    "historically {}",
    "not {}",
    "F (p and {})",
    "{} U p",
    "G ({} -> F p)",
    "p R {}",
    "X {}",
    "F Y {}",
    "at_most[1] {}",
    "once ({} and q) -> F p",
)


def samples() -> list[Sample]:
    """Return all of them; how many there are is asserted where they are used."""
    texts = [shape.format(op) for op, shape in product((*FUTURE, *PAST, *COUNTS), SHAPES)]
    texts += [shape.format(op) for op, shape in product((*PAST, *COUNTS), SHAPES_OF_PAST)]
    texts += [shape.format(op) for op, shape in product(FUTURE, SHAPES_OF_FUTURE)]
    plain = [Sample(parse_formula(text)) for text in texts]
    with_bits = [
        Sample(parse_formula(shape.format(name)), {name: parse_formula(rule)})
        for (name, rule), shape in product(BITS.items(), WITH_BIT)
    ]
    return plain + with_bits
