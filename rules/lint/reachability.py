"""Reachability in a rule's machine: the states, letters and verdicts that its events allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ...schemas.verdict import Recover, Verdict
from ..compiler.compile import compile_rule
from ..compiler.limits import Work
from ..model.formula import Formula, evaluate_boolean, names
from ..model.machine import APPLIES, STAYS_VIOLATED, VERDICT_MASK, VIOLATED, Machine
from ..model.predicate import Literal
from ..model.problem import Location, Problem
from ..model.rule import Rule
from .product import PROPOSITIONS_MAX, sets_of
from .rewrites import at_cause
from .satisfiability import jointly_satisfiable


def reachable_machine(rule: Rule, machine: Machine, work: Work) -> Machine:
    """Return the machine with only its reachable states and letters; it has no `letters` of words.

    An event is excluded if `steps` excludes it, or if it needs an unsatisfiable proposition or two that
    exclude each other. Raises TooLarge if the search takes more than `work` allows.
    """
    letters = _letters(rule, machine, work)
    number = {0: 0}
    order = [0]
    for state in order:  # grows during the iteration
        for letter in letters:
            target = machine.next[state][letter]
            if target not in number:
                number[target] = len(order)
                order.append(target)
    return Machine(
        propositions=machine.propositions,
        letters=b"",
        next=tuple(tuple(number[machine.next[state][letter]] for letter in letters) for state in order),
        output=tuple(tuple(machine.output[state][letter] for letter in letters) for state in order),
        closing=tuple(machine.closing[state] for state in order),
        residual=tuple(machine.residual[state] for state in order),
    )


def _letters(rule: Rule, machine: Machine, work: Work) -> list[int]:
    """Return the letters of the events that the rule can see."""
    used = sorted({*machine.propositions, *(names(rule.steps) if rule.steps else ())})
    if len(used) > PROPOSITIONS_MAX:
        return sorted(set(machine.letters))
    exclusions = {
        first: {second for second in used if not jointly_satisfiable(rule, first, second, work)}
        for first in used
    }
    sets = sets_of(used, exclusions)
    work.spend(len(sets) * (len(used) + (rule.steps.size if rule.steps else 0)))
    seen = [true for true in sets if rule.steps is None or evaluate_boolean(rule.steps, true)]
    return sorted({machine.letters[machine.word(true)] for true in seen})


def never_violated(machine: Machine) -> bool:
    """Return whether no finite session gives `violated` or `unmet`."""
    outputs = {output & VERDICT_MASK for row in machine.output for output in row}
    return VIOLATED not in outputs and Verdict.UNMET not in machine.closing


def always_violated(machine: Machine) -> bool:
    """Return whether every session with an event gives `violated` or `unmet`."""
    found, todo = {0}, [0]
    while todo:
        state = todo.pop()
        for target, output in zip(machine.next[state], machine.output[state], strict=True):
            if output & VERDICT_MASK in (VIOLATED, STAYS_VIOLATED):
                continue
            if machine.closing[target] is not Verdict.UNMET:
                return False
            if target not in found:
                found.add(target)
                todo.append(target)
    return True


def is_sticky(machine: Machine, work: Work) -> bool:
    """Return whether after some violation every later event is a violation, whatever it is.

    `not previous once handover` is not sticky: each flagged event is one too many, and the handover itself is
    not a violation.
    """
    stuck = set(range(len(machine.next)))
    while True:
        work.spend(len(stuck) * len(machine.next[0]) // 4)
        left = {
            state
            for state in stuck
            if all(output & VERDICT_MASK == VIOLATED for output in machine.output[state])
            and stuck.issuperset(machine.next[state])
        }
        if left == stuck:
            break
        stuck = left
    return any(
        target in stuck and output & VERDICT_MASK == VIOLATED
        for state in set(range(len(machine.next))) - stuck
        for target, output in zip(machine.next[state], machine.output[state], strict=True)
    )


def one_verdict_warnings(rule: Rule, machine: Machine, location: Location) -> Iterator[Problem]:
    """Yield a warning if no session violates the rule, or every session does."""
    if never_violated(machine):
        hint = "no possible session gives `violated` or `unmet`: check the formula and its propositions"
        yield Problem("TRL501", f"rule `{rule.id}` can never be violated", hint, location)
    elif always_violated(machine):
        hint = "every session gives `violated` or `unmet`: check the formula and its propositions"
        yield Problem("TRL502", f"rule `{rule.id}` is violated by every session", hint, location)


def sticky_warnings(
    rule: Rule, body: Formula, machine: Machine, location: Location, work: Work
) -> Iterator[Problem]:
    """Yield a warning if a violation of the invariant makes every later event a violation."""
    if rule.recover is not Recover.NONE and is_sticky(machine, work):
        message = f"after a violation of rule `{rule.id}`, every later event is flagged too"
        yield Problem("TRL506", message, f"write `{at_cause(body)}`, which flags only the cause", location)


@dataclass(frozen=True, slots=True)
class ReachableVerdicts:
    """The verdicts of a rule that some session reaches.

    `can_violate`: some session violates the rule. `can_hold`: some session to which it applies does not.
    """

    can_violate: bool
    can_hold: bool


def reachable_verdicts(rule: Rule, missing: Iterable[str]) -> ReachableVerdicts:
    """Return the reachable verdicts of a rule if the `missing` propositions are never true."""
    never = dict.fromkeys(missing, Literal(False))
    reduced = replace(rule, propositions={**rule.propositions, **never})
    machine = reachable_machine(reduced, compile_rule(reduced), Work(f"{rule.pack}/{rule.id}"))
    closable = _closable_states(machine)
    found, todo = {0}, [0]
    can_hold = False
    while todo:
        state = todo.pop()
        for target, output in zip(machine.next[state], machine.output[state], strict=True):
            if output & VERDICT_MASK != VIOLATED:
                can_hold |= bool(output & APPLIES) and target in closable
                todo += [target] if target not in found else []
                found.add(target)
    return ReachableVerdicts(not never_violated(machine), can_hold)


def _closable_states(machine: Machine) -> set[int]:
    """Return the states from which some session closes without a violation."""
    closable = {state for state, end in enumerate(machine.closing) if end is not Verdict.UNMET}
    while True:
        more = {
            state
            for state in range(len(machine.next))
            for target, output in zip(machine.next[state], machine.output[state], strict=True)
            if target in closable and output & VERDICT_MASK != VIOLATED
        }
        if more <= closable:
            return closable
        closable |= more
