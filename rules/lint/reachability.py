"""Which events a rule can meet at all, and its machine with only those."""

from __future__ import annotations

from ..compiler.limits import Work
from ..model.formula import names
from ..model.machine import Machine
from ..model.predicate import And
from ..model.rule import Rule
from ..packs.examples import evaluate_boolean
from .product import PROPOSITIONS_MAX, sets_of
from .satisfiability import satisfiable_with_steps


def reachable_machine(rule: Rule, machine: Machine, work: Work) -> Machine:
    """The machine with the states and letters alone that the rule can meet; `letters` of words are lost.

    Events that `steps` leaves out are not met, nor are those at which two propositions would have to hold
    that exclude each other, or one that never holds. Raises TooLarge where
    that takes more than `work` allows.
    """
    possible = _letters(rule, machine, work)
    number = {0: 0}
    order = [0]
    for state in order:  # grows while it is walked
        for letter in possible:
            target = machine.next[state][letter]
            if target not in number:
                number[target] = len(order)
                order.append(target)
    return Machine(
        propositions=machine.propositions,
        letters=b"",
        next=tuple(tuple(number[machine.next[state][letter]] for letter in possible) for state in order),
        output=tuple(tuple(machine.output[state][letter] for letter in possible) for state in order),
        closing=tuple(machine.closing[state] for state in order),
        residual=tuple(machine.residual[state] for state in order),
    )


def _letters(rule: Rule, machine: Machine, work: Work) -> list[int]:
    """The letters of events that the rule can meet."""
    asked = sorted({*machine.propositions, *(names(rule.steps) if rule.steps else ())})
    if len(asked) > PROPOSITIONS_MAX:
        return sorted(set(machine.letters))
    apart = {name: {other for other in asked if not _together(rule, name, other, work)} for name in asked}
    sets = sets_of(asked, apart)
    work.spend(len(sets) * (len(asked) + (rule.steps.size if rule.steps else 0)))
    counted = [true for true in sets if rule.steps is None or evaluate_boolean(rule.steps, true)]
    return sorted({machine.letters[machine.word(true)] for true in counted})


def _together(rule: Rule, one: str, other: str, work: Work) -> bool:
    """Return whether some event makes both propositions true (or the one, where they are the same)."""
    # In one order for both ways to ask, so that the answer is found once.
    both = [rule.propositions[name] for name in sorted({one, other})]
    answer, steps = satisfiable_with_steps(both[0] if len(both) == 1 else And(tuple(both)))
    work.spend(steps)
    return answer
