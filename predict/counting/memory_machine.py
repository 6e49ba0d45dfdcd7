"""Machines of memory formulas: minimised, with the value of the formula as the mark of each state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...rules.model.formula import Formula, Op
from ...rules.model.machine import VERDICT_MASK, VIOLATED, Machine
from ...rules.model.rule import Rule
from ...schemas.verdict import Recover, Unknown


@dataclass(frozen=True, slots=True)
class MemoryMachine:
    """The states of a past formula; state 0 is the start, and `true[state]` its value at the last event.

    `next[state][letter]` has the letters of the machine of `judged_as`. `places[state]` counts the states
    before it that have the same value.
    """

    name: str
    next: tuple[tuple[int, ...], ...]
    true: tuple[bool, ...]
    places: tuple[int, ...]

    def text(self, states: Sequence[int]) -> str:
        """Return the name where the formula is true, and nothing where it is false and nothing else matters.

        A `?` marks a value that may be either. Numbers distinguish states with the same value.
        """
        values = {self.true[state] for state in states}
        numbers = ".".join(str(self.places[state]) for state in states)
        suffix = "" if numbers == "0" else f"#{numbers}"
        if len(values) > 1:
            suffix = "#" + ".".join(f"{int(self.true[state])}-{self.places[state]}" for state in states)
            return f"{self.name}?{suffix}"
        return f"{self.name}{suffix}" if values == {True} else (f"!{self.name}{suffix}" if suffix else "")


def judged_as(memory: Rule) -> Rule:
    """Return the rule that is violated at each event at which the memory formula is false."""
    formula = Formula(Op.ALWAYS, (memory.formula,))
    return replace(memory, formula=formula, recover=Recover.BOTH, unknown=Unknown.FOLLOW)


def memory_machine(name: str, machine: Machine) -> MemoryMachine:
    """Return the minimised machine of a memory formula, given the machine of its `judged_as`."""
    states, edges = _reachable(machine)
    block = _blocks([true for _, true in states], edges)
    first = [block.index(number) for number in range(max(block) + 1)]
    true = tuple(states[state][1] for state in first)
    return MemoryMachine(
        name,
        next=tuple(tuple(block[target] for target in edges[state]) for state in first),
        true=true,
        places=tuple(true[:state].count(value) for state, value in enumerate(true)),
    )


def _reachable(machine: Machine) -> tuple[list[tuple[int, bool]], list[list[int]]]:
    """Return the pairs of a state and the formula's last value, and the edges of each by letter."""
    states, edges = [(0, False)], list[list[int]]()
    number = {states[0]: 0}
    for state, _ in states:  # the loop appends states
        row: list[int] = []
        for target, output in zip(machine.next[state], machine.output[state], strict=True):
            reached = target, output & VERDICT_MASK != VIOLATED
            if reached not in number:
                number[reached] = len(states)
                states.append(reached)
            row.append(number[reached])
        edges.append(row)
    return states, edges


def _blocks(true: Sequence[bool], edges: Sequence[Sequence[int]]) -> list[int]:
    """Return the block of each state of the coarsest partition by value; state 0 is in block 0."""
    block = [int(value != true[0]) for value in true]
    while True:
        number: dict[tuple[int, ...], int] = {}
        keys = [(block[s], *(block[target] for target in row)) for s, row in enumerate(edges)]
        refined = [number.setdefault(key, len(number)) for key in keys]
        if len(number) == len(set(block)):
            return refined
        block = refined
