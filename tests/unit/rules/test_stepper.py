"""The stepper: one run is stepped in a short way, several in the ordinary one."""

from __future__ import annotations

from tracline.rules.compiler.compile import compile_rule
from tracline.rules.engine.stepper import MachineRun
from tracline.rules.model.machine import Machine
from tracline.rules.packs.load import load_packs, shipped_packs

MACHINES = [compile_rule(rule) for rule in load_packs(shipped_packs()).rules]


def runs(machine: Machine, state: int) -> list[tuple[MachineRun, MachineRun]]:
    """Return a run in this state twice, one that broke the rule and one that did not."""
    at, none = frozenset((state,)), frozenset[int]()
    return [
        (MachineRun(machine, at, none), MachineRun(machine, at, none)),
        (MachineRun(machine, none, at), MachineRun(machine, none, at)),
    ]


def test_one_letter_steps_as_the_same_letter_twice() -> None:
    """In every state of every shipped machine; a letter that is given twice takes the ordinary way."""
    for machine in MACHINES:
        for state, row in enumerate(machine.next):
            for letter in (None, *range(len(row))):
                for short, ordinary in runs(machine, state):
                    assert short.step_letters((letter,)) == ordinary.step_letters((letter, letter))
                    assert short == ordinary
