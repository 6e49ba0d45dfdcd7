"""The answers of `tracline predict solve`: a probability, or its least and greatest value, for each state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...rules.compiler.compile import compile_formula
from ...rules.language.parse import parse_formula
from ...rules.model.arrays import F64, Mask
from ...schemas.verdict import Recover
from .chain import ExplicitChain
from .formula import label_states, product
from .intervals import reach_bounds, reach_bounds_within
from .solve import reach, reach_within


@dataclass(frozen=True, slots=True)
class Solution:
    """The least and the greatest probability by state; they are equal where the chain has no intervals."""

    low: F64
    high: F64
    has_intervals: bool


def reaching(chain: ExplicitChain, names: Sequence[str], within: int | None, where: str) -> Solution:
    """Return the probabilities of reaching a state with one of the labels, the state itself included.

    `within` is the most steps; None is any number. `where` names the file in errors. Raises PredictError:
    TRL809 for a label that no state has.
    """
    targets = np.zeros(chain.states, dtype=np.bool_)
    for name in names:
        targets[label_states(chain, name, where)] = True
    return _solve(chain, targets, within)


def violating(chain: ExplicitChain, formula: str, within: int | None, where: str) -> Solution:
    """Return the probabilities that the labels from a state on violate a formula, which does not restart.

    The word begins with the labels of the state itself; `within` is the most steps after it. Raises RuleError
    for the formula's text, and PredictError: TRL809 for a name that is no label, TRL810 for a product that is
    too large.
    """
    machine = compile_formula(parse_formula(formula), recover=Recover.NONE)
    joint = product(chain, machine, where)
    found = _solve(joint.chain, joint.violated, within)
    return Solution(found.low[joint.first], found.high[joint.first], found.has_intervals)


def _solve(chain: ExplicitChain, targets: Mask, within: int | None) -> Solution:
    if chain.has_intervals:
        ends = reach_bounds(chain, targets) if within is None else reach_bounds_within(chain, targets, within)
        return Solution(*ends, has_intervals=True)
    values = reach(chain, targets) if within is None else reach_within(chain, targets, within)
    return Solution(values, values, has_intervals=False)
