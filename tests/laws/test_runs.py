"""Laws of runs: cutting and resuming, finality, restarts, and what a verdict means for the future."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from tracline.rules.compiler.compile import compile_formula
from tracline.rules.engine.monitor import Monitor
from tracline.rules.model.formula import Formula, Op, names
from tracline.rules.reference.semantics import holds_forever, invariant_body
from tracline.schemas.verdict import Recover, Verdict

from .strategies import FORMULAS, FUTURE_FORMULAS, LAWS, LETTERS, LOOPS, RECOVERS, TRACES

Trace = list[frozenset[str]]


@LAWS
@given(FORMULAS, RECOVERS, TRACES, st.integers(0, 10))
def test_cutting_a_trace_and_resuming_from_the_stored_state_changes_nothing(
    formula: Formula, recover: Recover, trace: Trace, cut: int
) -> None:
    """A state written as JSON and read by a machine that is compiled again goes on as without a break."""
    machine, again = (compile_formula(formula, recover=recover) for _ in range(2))
    assert machine == again
    state, outputs = 0, list[int]()
    for at, letter in enumerate(trace):
        if at == cut:
            state, machine = json.loads(json.dumps(state)), again
        state, output = machine.step(state, machine.word(letter))
        outputs.append(output)
    whole, expected = 0, list[int]()
    for letter in trace:
        whole, output = machine.step(whole, machine.word(letter))
        expected.append(output)
    assert (outputs, machine.closing[state]) == (expected, machine.closing[whole])


@LAWS
@given(FORMULAS, TRACES)
def test_verdicts_never_leave_violated_or_satisfied(formula: Formula, trace: Trace) -> None:
    """Under `none` the first verdict is the last; under `violation` a satisfaction is."""
    once, broken = Monitor(formula, Recover.NONE), Monitor(formula, Recover.VIOLATION)
    first: Verdict = Verdict.PENDING
    satisfied = False
    for letter in trace:
        verdict = once.step(letter)
        assert first in (Verdict.PENDING, verdict)
        first = verdict
        verdict = broken.step(letter)
        assert verdict is Verdict.SATISFIED or not satisfied
        satisfied = verdict is Verdict.SATISFIED
    assert (once.close() is None) == (first is not Verdict.PENDING or not trace)


@LAWS
@given(FUTURE_FORMULAS, TRACES)
def test_a_restarted_instance_is_a_fresh_one(formula: Formula, trace: Trace) -> None:
    """Without past operators, a rule gives after a verdict what a monitor gives that starts there."""
    running, fresh = Monitor(formula), Monitor(formula)
    for letter in trace:
        verdict = running.step(letter)
        assert verdict is fresh.step(letter)
        assert running.residual == fresh.residual
        if verdict is not Verdict.PENDING:
            fresh = Monitor(formula)


@LAWS
@given(FORMULAS, TRACES, LOOPS)
def test_a_verdict_is_true_of_every_continuation(formula: Formula, trace: Trace, loop: Trace) -> None:
    """Once satisfied, the formula holds of any infinite word that goes on; once violated, of none."""
    machine = Monitor(formula, Recover.NONE)
    verdicts = [machine.step(letter) for letter in trace]
    if invariant_body(formula) is None and verdicts and verdicts[-1] is not Verdict.PENDING:
        wanted = verdicts[-1] is Verdict.SATISFIED
        assert holds_forever(formula, trace, loop, [1]) == [wanted]
        assert holds_forever(formula, trace[: verdicts.index(verdicts[-1]) + 1], loop, [1]) == [wanted]


@LAWS
@given(FUTURE_FORMULAS, LETTERS)
def test_a_tautology_is_satisfied_and_a_contradiction_violated_at_once(
    formula: Formula, letter: frozenset[str]
) -> None:
    """`f or not f` is satisfied, `f and not f` violated, by the first event, however deep f is."""
    negation = Formula(Op.NOT, (formula,))
    assert Monitor(Formula(Op.OR, (formula, negation))).step(letter) is Verdict.SATISFIED
    assert Monitor(Formula(Op.AND, (formula, negation))).step(letter) is Verdict.VIOLATED


@LAWS
@given(FUTURE_FORMULAS, TRACES)
def test_the_negation_of_a_rule_gets_the_opposite_verdict(formula: Formula, trace: Trace) -> None:
    """If a rule is violated its negation is satisfied, and the first instance closes the other way."""
    plain, negated = Monitor(formula, "none"), Monitor(Formula(Op.NOT, (formula,)), "none")
    opposite = {
        Verdict.PENDING: Verdict.PENDING,
        Verdict.VIOLATED: Verdict.SATISFIED,
        Verdict.SATISFIED: Verdict.VIOLATED,
        Verdict.HELD: Verdict.UNMET,
        Verdict.UNMET: Verdict.HELD,
        None: None,
    }
    for letter in trace:
        assert negated.step(letter) is opposite[plain.step(letter)]
        assert negated.close() is opposite[plain.close()]


@LAWS
@given(FORMULAS, RECOVERS, TRACES)
def test_names_that_a_rule_does_not_use_change_nothing(
    formula: Formula, recover: Recover, trace: Trace
) -> None:
    """Propositions of other rules may come along in a label."""
    plain, crowded = Monitor(formula, recover), Monitor(formula, recover)
    others = {"p", "q", "r", "s"} - names(formula)
    for letter in trace:
        assert plain.step(letter & names(formula)) is crowded.step(letter | others)
    assert plain.close() is crowded.close()
