"""Verdicts of the reference on a session, by a rule that stops at an unknown, or by one that follows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress, product

from tracline.rules.compiler.compile import compile_rule
from tracline.rules.model.formula import evaluate_boolean
from tracline.rules.model.rule import Rule
from tracline.rules.reference.semantics import LabelledEvent, judge_session
from tracline.rules.reference.slow_stepper import SteppedEvent, judge_slowly
from tracline.schemas.verdict import Unknown, Verdict


@dataclass(frozen=True)
class FoundVerdict:
    """A verdict at an event, by its place from 0, and in a slice, None for the whole session."""

    event: int
    slice: str | None
    verdict: Verdict


def referenced(rule: Rule, events: Sequence[LabelledEvent], *, closed: bool = True) -> list[FoundVerdict]:
    """Return the findings: by meaning where the rule stops, else by the states of every completion."""
    if rule.unknown is Unknown.STOP:
        found = judge_session(rule, events, closed=closed).findings
        return [FoundVerdict(f.event, f.slice if f.sliced else None, f.verdict) for f in found]
    machine = compile_rule(rule)
    if not closed:
        machine = replace(machine, closing=(None,) * len(machine.closing))
    stepped = [_with_readings(rule, event) for event in events]
    judged = judge_slowly(machine, stepped, sliced=rule.for_each is not None)
    return [FoundVerdict(f.at, f.slice, f.verdict) for f in judged.findings + judged.closing]


def may_apply(rule: Rule, events: Sequence[LabelledEvent]) -> bool:
    """Return whether the rule comes to apply in a session, at least in some completion."""
    if rule.unknown is Unknown.STOP:
        return judge_session(rule, events).applies is not None
    stepped = [_with_readings(rule, event) for event in events]
    judged = judge_slowly(compile_rule(rule), stepped, sliced=rule.for_each is not None)
    return judged.may_apply or any(f.verdict is Verdict.VIOLATED for f in judged.findings)


def readings_of(
    rule: Rule, true: frozenset[str], unknown: frozenset[str]
) -> tuple[frozenset[str] | None, ...]:
    """Return the true propositions of every completion, None where `steps` excludes the event."""
    choices = product((False, True), repeat=len(unknown))
    cases = [true | frozenset(compress(sorted(unknown), chosen)) for chosen in choices]
    return tuple(each if rule.steps is None or evaluate_boolean(rule.steps, each) else None for each in cases)


def _with_readings(rule: Rule, event: LabelledEvent) -> SteppedEvent:
    readings = readings_of(rule, event.true - event.unknown, event.unknown)
    return SteppedEvent(event.true, value=event.slice, value_unknown=event.slice_unknown, readings=readings)
