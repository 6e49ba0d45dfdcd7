"""Running the examples inside packs: whole sessions, stepped through the rule's machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....schemas.verdict import Verdict
from ...engine.stepper import MachineRun
from ...model.formula import evaluate_boolean
from ...model.machine import Machine
from ...model.rule import ExampleSession, Rule


@dataclass(frozen=True, slots=True)
class ExampleRun:
    """The result of one example: the verdict after each step, None at steps that the rule's `steps` excludes.

    `expected` is `violated` or `holds`, `number` counts the rule's examples of that kind from 1, and `end`
    is the verdict at the close. All steps of an example are in one slice, whatever `for_each` is. An example
    of `events`, the path of their file, has the worst verdict of all slices after each event; `unjudged` is
    the reason if it cannot be judged.
    """

    rule: Rule
    expected: str
    number: int
    session: ExampleSession
    verdicts: tuple[Verdict | None, ...]
    end: Verdict | None
    events: str | None = None
    unjudged: str | None = None

    @property
    def broken(self) -> bool:
        """Return whether the rule was violated, or unmet at the close."""
        return Verdict.VIOLATED in self.verdicts or self.end is Verdict.UNMET

    @property
    def passed(self) -> bool:
        """Return whether the rule's verdict is the expected one."""
        return self.unjudged is None and self.broken == (self.expected == "violated")


def run_examples(rule: Rule, machine: Machine) -> Iterator[ExampleRun]:
    """Run every example of the rule, those of a violation first."""
    for expected, sessions in (("violated", rule.examples.violated), ("holds", rule.examples.holds)):
        for number, session in enumerate(sessions, start=1):
            verdicts, end = _run_session(rule, machine, session)
            yield ExampleRun(rule, expected, number, session, verdicts, end)


def _run_session(
    rule: Rule, machine: Machine, session: ExampleSession
) -> tuple[tuple[Verdict | None, ...], Verdict | None]:
    """Return the verdict after each step of a session, and the verdict at its close."""
    stepped = MachineRun(machine)
    verdicts: list[Verdict | None] = []
    for true in session:
        if rule.steps is not None and not evaluate_boolean(rule.steps, true):
            verdicts.append(None)
            continue
        verdicts.append(stepped.step(true).verdict)
    return tuple(verdicts), stepped.closing
