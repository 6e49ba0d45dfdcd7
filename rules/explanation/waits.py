"""Plain sentences on what did not come in time: within some events, or within some turns.

Each claim of a sentence is checked on the events of the run, so there is none where it would not be true.
"""

from __future__ import annotations

from ...schemas.records.verdict_record import Witness
from ..compiler.shape import always_body
from ..model.formula import FALSE, Formula, Op, has_future
from ..model.rule import Rule
from .nouns import NAMES_MAX, any_noun, event_phrase
from .past import RunPast

_WITHIN = " within "
_ORDINALS = {1: "the first", 2: "the second", 3: "the third"}


def plain_wait(rule: Rule, witness: Witness, past: RunPast, *, is_over: bool) -> str | None:
    """Return a sentence on the obligation of `always (p -> ...)` that the last event, or the end, broke.

    The obligation is `eventually[a,b] q`, or `next (not t until (q or t and next ...))`: q comes before so
    many t.
    """
    inner = always_body(rule.formula)
    if inner.op is not Op.IMPLIES or has_future(inner.args[0]):
        return None
    begins, awaited = inner.args
    seqs = list(past.seqs)
    first = witness.events[0].seq
    if first not in seqs or not past.truth(begins)[seqs.index(first)]:
        return None
    start, end = seqs.index(first), len(seqs) - 1
    late = _within(rule, awaited, past, start, end) or _before_turns(rule, awaited, past, start, end)
    if late is None:
        return None
    noun, reason = late
    if is_over == bool(reason):
        return None
    phrase = event_phrase(rule, first, past.names_at(begins, start)[:NAMES_MAX])
    seen = "" if rule.steps is None else " that the rule sees"
    # The events of a bound are those that the rule sees, too.
    rest = f"{reason}{seen}" if reason.startswith(_WITHIN) else f"{seen}{reason}"
    closing = "" if reason else f": the session ended after event {seqs[-1]}"
    return f"{phrase[0].upper()}{phrase[1:]} was not followed by any {noun}{rest}{closing}."


def _within(rule: Rule, awaited: Formula, past: RunPast, start: int, end: int) -> tuple[str, str] | None:
    """Return what did not come within the bound, and the bound in words if it has passed."""
    if awaited.op is not Op.EVENTUALLY or awaited.bounds is None or awaited.bounds[0] > 1:
        return None
    noun, bound = any_noun(rule, awaited.args[0]), awaited.bounds[1]
    came = past.last(awaited.args[0], end)
    if noun is None or (came is not None and came >= start):
        return None
    if end - start < bound:
        return noun, ""
    events = "event" if bound == 1 else "events"
    return (noun, f"{_WITHIN}{bound} {events}") if end - start == bound else None


def _before_turns(
    rule: Rule, awaited: Formula, past: RunPast, start: int, end: int
) -> tuple[str, str] | None:
    """Return what did not come before so many turns, and the last turn in words if it began."""
    turns = _turns(awaited)
    if turns is None:
        return None
    turn, answer, count = turns
    noun, came = any_noun(rule, answer), past.last(answer, end)
    if noun is None or (came is not None and came > start):
        return None
    begun = int(past.truth(turn)[start + 1 :].sum())
    if begun < count:
        return noun, ""
    if begun > count or not past.truth(turn)[end]:
        return None
    ordinal = _ORDINALS.get(count, f"number {count}")
    place = event_phrase(rule, past.seqs[end], past.names_at(turn, end))
    return noun, f" before {place}, {ordinal} further turn"


def _turns(awaited: Formula) -> tuple[Formula, Formula, int] | None:
    """Return the turn, the answer and the number of turns of `next (not t until (q or t and next ...))`."""
    if awaited.op is not Op.NEXT or awaited.args[0].op is not Op.UNTIL:
        return None
    lasting, ending = awaited.args[0].args
    if lasting.op is not Op.NOT or has_future(lasting):
        return None
    turn, parts = lasting.args[0], ending.args if ending.op is Op.OR else (ending,)
    further = [part for part in parts if has_future(part)]
    answers = [part for part in parts if not has_future(part)]
    answer = Formula(Op.OR, tuple(answers)) if len(answers) > 1 else answers[0] if answers else FALSE
    if not further:
        return turn, answer, 1
    if len(further) > 1 or further[0].op is not Op.AND or further[0].args[0] != turn:
        return None
    rest = _turns(further[0].args[1]) if len(further[0].args) == 2 else None
    return (turn, answer, rest[2] + 1) if rest is not None and rest[:2] == (turn, answer) else None
