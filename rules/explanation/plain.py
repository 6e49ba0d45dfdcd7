"""Plain sentences on the common shapes of rules, where the shape suffices to explain a violation.

A shape is a formula such as `always (p -> once q)`. Each sentence follows from the formula and the witness
alone; for other shapes there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...schemas.records.verdict_record import Witness, WitnessEvent
from ...schemas.verdict import Recover
from ..compiler.shape import always_body, invariant_body
from ..model.formula import BOOLEAN, Formula, Op, has_future, walk
from ..model.printer import to_text
from ..model.rule import Rule
from .nouns import NAMES_MAX, any_noun, event_phrase
from .past import RunPast
from .reasons import seen, times_true, why_false

_TIMES = {1: "more than once", 2: "more than twice"}


def plain_violation(
    rule: Rule, witness: Witness, decisive: Sequence[str], past: RunPast | None
) -> str | None:
    """Return a sentence on a condition that was false at the last event, or None.

    `decisive` are the propositions that would have averted the violation; the sentence names them. `past` has
    the events that came before, which conditions such as `not p since q` require.
    """
    last, body = witness.events[-1], invariant_body(rule.formula, rule.transitions)
    present = [name for name in decisive if name in last.true]
    subject = _subject(rule, last.seq, present)
    if body is None:
        awaited = _anchored(rule)
        if awaited is not None:
            return f"{subject} came too early: no {awaited} came before it{seen(rule)}."
        return _excluded(rule, last, decisive, subject)
    if len(present) < len(decisive):
        return None
    sentence = _conditional(rule, body, witness, subject, past) if body.op is Op.IMPLIES else None
    if sentence is not None or past is None:
        return sentence
    at = len(past.seqs) - 1
    # The antecedent of a false implication is true.
    part = body.args[1] if body.op is Op.IMPLIES else body
    reason = None if past.truth(part)[at] else why_false(part, past, at)
    return None if reason is None else f"{subject} {reason}."


def _excluded(rule: Rule, last: WitnessEvent, decisive: Sequence[str], subject: str) -> str | None:
    """Return the sentence where the rule reads nothing but the event itself."""
    body = always_body(rule.formula)
    if not decisive or any(node.op not in BOOLEAN for node in walk(body)):
        return None
    missing = [f"`{name}`" for name in decisive if name not in last.true]
    if not missing:
        return f"The rule excludes {subject[0].lower()}{subject[1:]}."
    return f"{subject} came without {' and without '.join(missing)}."


def _conditional(
    rule: Rule, body: Formula, witness: Witness, subject: str, past: RunPast | None
) -> str | None:
    """Return the sentence on `p -> q`, where the witness suffices for the condition q on the past.

    With the past it names the events that are too many.
    """
    required = body.args[1]
    missing = _missing(rule, required)
    if missing is not None:
        return f"{subject} came too early: no {missing} came before it{seen(rule)}."
    if required.op is Op.AT_MOST and required.bounds is not None and required.bounds[1]:
        counted = f"{subject} came too often: `{to_text(required.args[0])}` was true"
        if past is not None:
            return f"{counted} {times_true(required.args[0], past)}."
        return f"{counted} {_TIMES.get(required.bounds[1], f'more than {required.bounds[1]} times')} by then."
    return _after(rule, required, witness, subject)


def _subject(rule: Rule, seq: int, decisive: Sequence[str]) -> str:
    """Return an event as the subject of a sentence, with the propositions that matter."""
    phrase = event_phrase(rule, seq, decisive)
    return phrase[0].upper() + phrase[1:]


def _missing(rule: Rule, required: Formula) -> str | None:
    """Return a noun for the events of which the condition required an earlier one."""
    parts = required.args if required.op is Op.OR else (required,)
    nouns: list[str] = []
    for part in parts:
        inner = part.args[0] if part.op is Op.PREVIOUS and part.bounds in (None, (1, 1)) else part
        noun = any_noun(rule, inner.args[0]) if inner.op is Op.ONCE and inner.bounds is None else None
        if noun is None:
            return None
        nouns.append(noun)
    return " or ".join(dict.fromkeys(nouns))


def _anchored(rule: Rule) -> str | None:
    """Return a noun for the events that `not p weak_until q` awaits, where the rule does not begin again."""
    formula = rule.formula
    if formula.op not in (Op.UNTIL, Op.WEAK_UNTIL) or rule.recover is Recover.BOTH or rule.transitions:
        return None
    is_boolean = all(node.op in BOOLEAN for node in walk(formula.args[0]))
    return any_noun(rule, formula.args[1]) if is_boolean else None


def _after(rule: Rule, required: Formula, witness: Witness, subject: str) -> str | None:
    """Return the sentence where the condition excludes earlier events, and the witness has one."""
    if required.op is Op.NOT and required.args[0].op is Op.ONCE and required.args[0].bounds is None:
        bit, excluded = required.args[0], required.args[0].args[0]
    elif required.op is Op.HISTORICALLY and required.args[0].op is Op.NOT and required.bounds is None:
        bit, excluded = required, required.args[0].args[0]
    else:
        return None
    noun = any_noun(rule, excluded)
    seqs = [each.seq for each in witness.history if each.formula == to_text(bit)]
    if noun is None or not seqs or seqs[0] is None or seqs[0] == witness.events[-1].seq:
        return None
    return f"{subject} came after the {noun} at event {seqs[0]}, which excludes it."


def plain_omission(rule: Rule, witness: Witness, end: int) -> str | None:
    """Return a sentence on what never came, for `eventually q` and `always (p -> eventually q)`, or None.

    In other rules an event can end an obligation and begin the same again, which the residual does not show.
    """
    formula = rule.formula
    inner = always_body(formula)
    begins = inner is not formula and inner.op is Op.IMPLIES and not has_future(inner.args[0])
    awaited = inner.args[1] if begins else formula
    if awaited.op is not Op.EVENTUALLY or awaited.bounds is not None:
        return None
    noun = any_noun(rule, awaited.args[0])
    if noun is None:
        return None
    ended = f"the session ended after event {end}"
    seen = "" if rule.steps is None else " that the rule sees"
    if not begins:
        return f"No {noun} came{seen}: {ended}."
    first = witness.events[0]
    return (
        f"{_subject(rule, first.seq, first.true[:NAMES_MAX])} was not followed by any {noun}{seen}: {ended}."
    )
