"""The examples inside packs: whole sessions, stepped through the rule's own machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ...schemas.verdict import Verdict
from ..engine.stepper import MachineRun
from ..model.formula import Formula, Op
from ..model.machine import Machine
from ..model.rule import Rule


@dataclass(frozen=True, slots=True)
class Trial:
    """One example run: the verdict after each step, None at steps that the rule's `steps` leaves out.

    `expected` is `violated` or `holds`, `number` counts the rule's examples of that sort from 1, and `end`
    is the reading at the close. Every event of an example belongs to one slice, whatever `for_each` says.
    """

    rule: Rule
    expected: str
    number: int
    session: tuple[frozenset[str], ...]
    verdicts: tuple[Verdict | None, ...]
    end: Verdict | None

    @property
    def broken(self) -> bool:
        """Return whether the rule was violated, or unmet at the close."""
        return Verdict.VIOLATED in self.verdicts or self.end is Verdict.UNMET

    @property
    def passed(self) -> bool:
        """Return whether the rule answered as the example expects."""
        return self.broken == (self.expected == "violated")


def trials(rule: Rule, machine: Machine) -> Iterator[Trial]:
    """Run every example of the rule, those that break it first."""
    for expected, sessions in (("violated", rule.examples.violated), ("holds", rule.examples.holds)):
        for number, session in enumerate(sessions, start=1):
            verdicts, end = run(rule, machine, session)
            yield Trial(rule, expected, number, session, verdicts, end)


def run(
    rule: Rule, machine: Machine, session: tuple[frozenset[str], ...]
) -> tuple[tuple[Verdict | None, ...], Verdict | None]:
    """The verdict after each step of a session, and the reading when it closes after the last."""
    stepped = MachineRun(machine)
    verdicts: list[Verdict | None] = []
    for true in session:
        if rule.steps is not None and not truth(rule.steps, true):
            verdicts.append(None)
            continue
        verdicts.append(stepped.step(true).verdict)
    return tuple(verdicts), stepped.closing


def truth(formula: Formula, true: Collection[str]) -> bool:
    """Return whether a Boolean formula holds where just these propositions are true."""
    values = (truth(arg, true) for arg in formula.args)
    match formula.op:
        case Op.TRUE:
            return True
        case Op.FALSE:
            return False
        case Op.PROP:
            return formula.name in true
        case Op.NOT:
            return not next(values)
        case Op.AND:
            return all(values)
        case Op.OR:
            return any(values)
        case Op.IMPLIES:
            return not next(values) or next(values)
        case Op.IFF:
            return next(values) == next(values)
        case _:
            raise AssertionError(f"`{formula.op.value}` is not Boolean")
