"""Finite-trace verdicts that contradict a verdict: the product of two machines against the definitions."""

from __future__ import annotations

from itertools import product

from tracline.rules.compiler.limits import Work
from tracline.rules.lint.finite_trace import finite_trace_disagrees
from tracline.rules.model.formula import Formula
from tracline.rules.reference.ltl3 import Meaning
from tracline.rules.reference.semantics import advance, begin, holds, invariant_body
from tracline.schemas.verdict import Recover, Verdict

from .formulas import is_accepted, of_size, sample_of
from .words import LETTERS

TRACE_MAX = 4
OPPOSITE = {Verdict.VIOLATED: True, Verdict.SATISFIED: False}


def contradicting(formula: Formula) -> list[frozenset[str]] | None:
    """Return a trace of up to four events whose verdict and finite reading disagree in the reference."""
    meaning = Meaning(formula, {})
    runs = {(): begin(meaning)}
    for length in range(1, TRACE_MAX + 1):
        longer = {}
        for trace in product(LETTERS, repeat=length):
            verdict, run = advance(meaning, runs[trace[:-1]], trace[-1], Recover.NONE)
            if verdict in OPPOSITE and holds(formula, trace, 1) == OPPOSITE[verdict]:
                return list(trace)
            longer[trace] = run
        runs = longer
    return None


def agree(formulas: list[Formula]) -> tuple[int, int]:
    """Compare all formulas that are no invariants; how many there are, and how many are contradicted."""
    asked = [formula for formula in formulas if invariant_body(formula) is None]
    found = 0
    for formula in asked:
        trace = contradicting(formula)
        assert finite_trace_disagrees(formula, {}, Work("formula")) == (trace is not None), (
            f"{formula}: {trace}"
        )
        found += trace is not None
    return len(asked), found


def test_every_small_formula() -> None:
    """All accepted formulas of up to three nodes are contradicted just where a short trace does it."""
    small = [formula for nodes in (1, 2, 3) for formula in of_size(nodes) if is_accepted(formula)]
    asked, found = agree(small)
    print(f"finite readings: {asked} formulas of up to three nodes, {found} contradicted")
    assert (asked, found) == (300, 43)


def test_a_sample_of_larger_formulas() -> None:
    """So are a hundred formulas of five nodes."""
    asked, found = agree(sample_of(5, 100, seed=20261121))
    print(f"finite readings: {asked} formulas of five nodes, {found} contradicted")
    assert found > 0
