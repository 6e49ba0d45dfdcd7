"""Residual text keeps meaning: read back, it asks of the rest of the trace what the rule still asks."""

from __future__ import annotations

from functools import reduce

from hypothesis import given
from tracline.rules.engine.monitor import Monitor
from tracline.rules.language.parse import parse_formula
from tracline.rules.model.formula import Formula
from tracline.rules.reference.ltl3 import Meaning
from tracline.rules.reference.semantics import holds, invariant_body
from tracline.schemas.verdict import Recover, Verdict

from .strategies import FORMULAS, LAWS, TRACES


@LAWS
@given(FORMULAS, TRACES)
def test_the_residual_asks_what_the_rule_still_asks(formula: Formula, trace: list[frozenset[str]]) -> None:
    """After every event of the first instance, the residual, judged with the whole session as its history,
    gives the rest of the trace the verdicts and the finite reading that the rule gives."""
    running = Monitor(formula, Recover.NONE)
    verdicts, residuals, closings = [], [running.residual], [running.close()]
    for letter in trace:
        verdicts.append(running.step(letter))
        residuals.append(running.residual)
        closings.append(running.close())
    for at, text in enumerate(residuals):
        if at and verdicts[at - 1] is not Verdict.PENDING:
            assert text == {Verdict.SATISFIED: "true", Verdict.VIOLATED: "false"}[verdicts[at - 1]]
        elif invariant_body(formula) is None:
            _same(parse_formula(text), trace, at, verdicts, closings)


def _same(
    residual: Formula,
    trace: list[frozenset[str]],
    at: int,
    verdicts: list[Verdict],
    closings: list[Verdict | None],
) -> None:
    """Judge the residual from the event after `at` on."""
    meaning = Meaning(residual)
    state = meaning.begin(reduce(meaning.history.after, trace[:at], meaning.history.start))
    for place in range(at, len(trace)):
        state = meaning.step(state, trace[place])
        assert meaning.verdict(state) is verdicts[place], (str(residual), place)
        if verdicts[place] is not Verdict.PENDING:
            return
        reading = Verdict.HELD if holds(residual, trace[: place + 1], at + 1) else Verdict.UNMET
        assert closings[place + 1] is reading, (str(residual), place)


def test_residuals_are_those_of_the_progression_table() -> None:
    """TRAC, Table 1, rule by rule, on single events; of equal texts the shortest, then the first."""
    table = [
        ("next p", {}, "p"),
        ("p until q", {"p"}, "p until q"),
        ("always p", {"p"}, "always p"),
        ("eventually p", {}, "eventually p"),
        ("always (p -> eventually q)", {"q"}, "always (p -> eventually q)"),
        ("next p and always q", {"q"}, "always q and p"),
        ("next p or eventually q", {}, "eventually q or p"),
        ("not next p", {}, "not p"),
    ]
    for text, letter, residual in table:
        monitor = Monitor(text)
        assert monitor.step(set(letter)) is Verdict.PENDING
        assert monitor.residual == residual
