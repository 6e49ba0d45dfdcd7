"""What a rule loses when it begins anew: obligations that were open, and what was fulfilled once for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..schemas.verdict import Recover, Verdict
from .compiler.compile import compile_formula
from .formula import Formula, Op
from .machine import PENDING, SATISFIED, STAYS_SATISFIED, VERDICT_MASK, VIOLATED, Machine

STEPS_MAX = 200_000
"""Pairs of states times sorts of events that are looked at before the search gives up and finds nothing."""

PROPOSITIONS_MAX = 10
"""Propositions of two parts that are looked at together; the search goes through every set of them."""


def parts(formula: Formula) -> tuple[Formula, ...]:
    """The formulas that must all hold where this one must: `always (p -> q and r)` is two."""
    return tuple(_parts(formula))


def _parts(formula: Formula) -> Iterator[Formula]:
    # always (a and b)  =  (always a) and (always b);  p -> a and b  =  (p -> a) and (p -> b)
    if formula.op is Op.AND:
        for arg in formula.args:
            yield from _parts(arg)
    elif formula.op is Op.ALWAYS and formula.bounds is None:
        for part in _parts(formula.args[0]):
            yield Formula(Op.ALWAYS, (part,))
    elif formula.op is Op.IMPLIES:
        for part in _parts(formula.args[1]):
            yield Formula(Op.IMPLIES, (formula.args[0], part))
    else:
        yield formula


def forgotten(formula: Formula, transitions: Mapping[str, Formula]) -> tuple[Formula, Formula] | None:
    """A part that loses something when another part is broken, and that other part.

    It loses the obligations that are open then, or, where it was satisfied, is asked for again.
    """
    machines = [
        (part, compile_formula(part, transitions=transitions, recover=Recover.NONE))
        for part in dict.fromkeys(parts(formula))
    ]
    breakable = [(part, machine) for part, machine in machines if _has(machine, VIOLATED)]
    for kept, left in machines:
        for broken, right in breakable:
            if kept != broken and _loses(left, right):
                return kept, broken
    return None


def begins_anew(machine: Machine) -> bool:
    """Whether the rule, once satisfied, can still be violated or end unmet."""
    starts = {
        target
        for targets, outputs in zip(machine.next, machine.output, strict=True)
        for target, output in zip(targets, outputs, strict=True)
        if output & VERDICT_MASK == SATISFIED
    }
    return any(
        machine.closing[state] is Verdict.UNMET
        or any(output & VERDICT_MASK == VIOLATED for output in machine.output[state])
        for state in _reached(machine, starts)
    )


def _reached(machine: Machine, starts: set[int]) -> set[int]:
    """The states that can be reached from these, themselves included."""
    found, todo = set(starts), list(starts)
    while todo:
        new = set(machine.next[todo.pop()]) - found
        found |= new
        todo += new
    return found


def _has(machine: Machine, verdict: int) -> bool:
    return any(output & VERDICT_MASK == verdict for row in machine.output for output in row)


def _loses(left: Machine, right: Machine) -> bool:
    """Whether the right machine can be violated where the left one asks otherwise than at its start."""
    names = sorted({*left.propositions, *right.propositions})
    can_break = _has(left, VIOLATED) or Verdict.UNMET in left.closing
    if len(names) > PROPOSITIONS_MAX or not can_break:
        return False
    words = _words(names, left, right)
    found = {(0, 0)}
    todo = [(0, 0)]
    while todo and len(found) * len(words) < STEPS_MAX:
        kept, broken = todo.pop()
        for word, other in words:
            after, kept_output = left.step(kept, word)
            beyond, broken_output = right.step(broken, other)
            verdict = kept_output & VERDICT_MASK
            asks_more = verdict == PENDING and left.residual[after] != left.residual[0]
            was_done = verdict in (SATISFIED, STAYS_SATISFIED)
            if broken_output & VERDICT_MASK == VIOLATED and (asks_more or was_done):
                return True
            going = verdict != VIOLATED and broken_output & VERDICT_MASK == PENDING
            if going and (after, beyond) not in found:
                found.add((after, beyond))
                todo.append((after, beyond))
    return False


def _words(names: Sequence[str], left: Machine, right: Machine) -> list[tuple[int, int]]:
    """An event of every sort that the two machines tell apart, as a word of each."""
    sets = [frozenset[str]()]
    for name in names:
        sets += [true | {name} for true in sets]
    words = [(left.word(true), right.word(true)) for true in sets]
    return list({(left.letters[a], right.letters[b]): (a, b) for a, b in words}.values())
