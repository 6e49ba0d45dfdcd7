"""The findings of the reference in a session, by a rule that stops at an unknown or one that follows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracline.rules.compiler.compile import compile_rule
from tracline.rules.model.completions import completed
from tracline.rules.model.rule import Rule
from tracline.rules.reference.semantics import LabelledEvent, judge_session, kleene
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


def _with_readings(rule: Rule, event: LabelledEvent) -> SteppedEvent:
    """Return an event with the labels of each completion, None where the rule does not see it."""
    readings = tuple(
        true if rule.steps is None or kleene(rule.steps, LabelledEvent(true)) else None
        for true in completed(event.true - event.unknown, event.unknown)
    )
    return SteppedEvent(event.true, value=event.slice, value_unknown=event.slice_unknown, readings=readings)
