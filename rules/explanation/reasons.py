"""Plain sentences on conditions on the past, from the events that came before: why one is false, or true.

Each claim of a sentence is checked on these events, so there is none where it would not be true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..model.formula import Formula, Op, walk
from ..model.rule import Rule
from .nouns import any_noun, event_phrase, events_of, joined
from .past import RunPast

TIMES_NAMED_MAX = 10
"""Events that a sentence names of those that were too many."""


def why_false(part: Formula, past: RunPast, at: int) -> str | None:
    """Return why a condition on the past is false at an event, as the end of a sentence on that event."""
    match part.op:
        case Op.PREVIOUS if _is_single(part) and at:
            return why_false(part.args[0], past, at - 1)
        case Op.PREVIOUS if _is_single(part) and part.args[0].op is Op.SINCE:
            return _never(part.args[0].args[1], past, at - 1)
        case Op.NOT:
            return why_true(part.args[0], past, at)
        case Op.AND:
            reasons = (why_false(arg, past, at) for arg in part.args if not past.truth(arg)[at])
            return next((reason for reason in reasons if reason is not None), None)
        case Op.SINCE:
            return _not_since(part, past, at)
        case _:
            return None


def why_true(part: Formula, past: RunPast, at: int) -> str | None:
    """Return why a condition on the past is true at an event, as the end of a sentence on a later event."""
    match part.op:
        case Op.PREVIOUS if _is_single(part) and at:
            if part.args[0].op is Op.PROP:
                return f"came right after {_event(part, past, at - 1)}"
            return why_true(part.args[0], past, at - 1)
        case Op.NOT:
            return why_false(part.args[0], past, at)
        case Op.AND:
            reasons = [why_true(arg, past, at) for arg in part.args if arg.op is not Op.PROP]
            return reasons[0] if len(reasons) == 1 else None
        case Op.SINCE:
            return _since(part, past, at)
        case _:
            return None


def _is_single(part: Formula) -> bool:
    return part.bounds in (None, (1, 1))


def _event(part: Formula, past: RunPast, at: int) -> str:
    """Return the event at a place with the propositions of a part that are true there."""
    return event_phrase(past.rule, past.seqs[at], past.names_at(part, at))


def _not_since(part: Formula, past: RunPast, at: int) -> str | None:
    """Return why `lasting since begin` is false: it never began, or an event ended it.

    The reason names the last event that decided: where a question came after the last answer that counted,
    that is what became of the question.
    """
    lasting, begin = part.args
    begun = past.last(begin, at)
    if begun is None:
        return _never(begin, past, at)
    ended = past.first_false(lasting, begun, at)
    if ended is None or ended == len(past.seqs) - 1:
        return None
    answered = _answer_of(begin)
    asked = None if answered is None else past.last(answered.question, at)
    if answered is not None and asked is not None and asked > begun:
        reason = _unanswered(answered, past, asked, at)
        if reason is None or _is_last(reason, part, past, at):
            return reason
    ending, allowing = _event(lasting, past, ended), _event(begin, past, begun)
    reason = f"came too late: {ending} ended what {allowing} had allowed"
    return reason if _is_last(reason, part, past, at) else None


def _is_last(reason: str, part: Formula, past: RunPast, at: int) -> bool:
    """Return whether no `since` in a part changes from the last event that a reason names to the verdict."""
    places = [past.seqs.index(seq) for seq in events_of(reason)]
    named, end = max(places), min(at, len(past.seqs) - 2)
    truths = (past.truth(node)[named : end + 1] for node in walk(part) if node.op is Op.SINCE)
    return all((truth == truth[0]).all() for truth in truths)


class _Answered(NamedTuple):
    """The condition `answer and (lasting since question)`, in which `shift` is 1 for `previous (...)`."""

    answer: Formula
    lasting: Formula
    question: Formula
    shift: int


def _answer_of(begin: Formula) -> _Answered | None:
    """Return a condition as an answer to a question, None where it has another shape."""
    present = [arg for arg in begin.args if arg.op is Op.PROP]
    others = [arg for arg in begin.args if arg.op is not Op.PROP]
    if begin.op is not Op.AND or len(present) != 1 or len(others) != 1:
        return None
    shift = int(others[0].op is Op.PREVIOUS and _is_single(others[0]))
    inner = others[0].args[0] if shift else others[0]
    return _Answered(present[0], inner.args[0], inner.args[1], shift) if inner.op is Op.SINCE else None


def _never(begin: Formula, past: RunPast, at: int) -> str | None:
    """Return why no event up to a place meets a condition: `p`, or `p and (not r since q)`."""
    noun = any_noun(past.rule, begin)
    if noun is not None:
        return f"came too early: no {noun} came before it{seen(past.rule)}"
    answered = _answer_of(begin)
    if answered is None:
        return None
    question, asked = any_noun(past.rule, answered.question), past.last(answered.question, at)
    if question is not None and any_noun(past.rule, answered.answer) is not None and asked is None:
        return f"came too early: no {question} came before it{seen(past.rule)}"
    return None if asked is None else _unanswered(answered, past, asked, at)


def _unanswered(answered: _Answered, past: RunPast, asked: int, at: int) -> str | None:
    """Return why no event up to a place answers the last question, which came at place `asked`."""
    answer, question = any_noun(past.rule, answered.answer), any_noun(past.rule, answered.question)
    if answer is None or question is None or asked == len(past.seqs) - 1:
        return None
    came = past.last(answered.answer, at)
    if came is None or came <= asked:
        place = f"the last {question} (event {past.seqs[asked]})"
        instead = past.first_false(answered.lasting, asked, min(at, len(past.seqs) - 2))
        reply = "" if instead is None else f"; {_event(answered.lasting, past, instead)} came instead"
        return f"came too early: no {answer} came since {place}{seen(past.rule)}{reply}"
    between = past.first_false(answered.lasting, asked, came - answered.shift)
    if between is None or between == came:
        return None
    ends = f"{_event(answered.question, past, asked)} and {_event(answered.answer, past, came)}"
    return f"came too early: {_event(answered.lasting, past, between)} came between {ends}"


def seen(rule: Rule) -> str:
    """Return the words by which a sentence is about the events that the rule sees only."""
    return "" if rule.steps is None else ", of the events that the rule sees"


def times_true(part: Formula, past: RunPast) -> str:
    """Return how often a part without future operators was true by the last event, and where last."""
    seqs = [str(seq) for seq, true in zip(past.seqs, past.truth(part).tolist(), strict=True) if true]
    last = "at events" if len(seqs) <= TIMES_NAMED_MAX else f"the last {TIMES_NAMED_MAX} times at events"
    return f"{len(seqs):,} times by then, {last} {joined(seqs[-TIMES_NAMED_MAX:])}"


def _since(part: Formula, past: RunPast, at: int) -> str | None:
    """Return why `not r since p` is true, where p may require the same of events before it."""
    links = list(_chain(part, past, at))
    if not links or links[0][0] == len(past.seqs) - 1:
        return None
    events = [_event(begin, past, place) for place, begin, _ in reversed(links)]
    lasting = {each for _, _, each in links}
    absent = lasting.pop() if len(lasting) == 1 else None
    noun = None
    if absent is not None and absent.op is Op.NOT and past.first_false(absent, links[-1][0], at) is None:
        noun = any_noun(past.rule, absent.args[0])
    without = "" if noun is None else f", with no {noun} since{' the first' if len(events) > 1 else ''}"
    return f"came after {joined(events)}{without}{seen(past.rule) if noun else ''}"


def _chain(part: Formula, past: RunPast, at: int) -> Iterator[tuple[int, Formula, Formula]]:
    """Yield the place at which a true `since` began, its condition, and what lasts; then those before it."""
    if part.op is Op.PREVIOUS and _is_single(part) and at:
        part, at = part.args[0], at - 1
    if part.op is not Op.SINCE:
        return
    lasting, begin = part.args
    place = past.last(begin, at)
    if place is None:
        return
    yield place, _present(begin), lasting
    for arg in _past_parts(begin):
        yield from _chain(arg, past, place)


def _present(begin: Formula) -> Formula:
    """Return the proposition of a condition such as `p and previous q`, else the condition."""
    present = [arg for arg in begin.args if arg.op is Op.PROP] if begin.op is Op.AND else []
    return present[0] if len(present) == 1 else begin


def _past_parts(begin: Formula) -> Sequence[Formula]:
    return [arg for arg in begin.args if arg.op is not Op.PROP] if begin.op is Op.AND else ()
