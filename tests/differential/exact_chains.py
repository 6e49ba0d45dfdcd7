"""Probabilities of Markov chains by definition, in rational arithmetic: the oracle of `predict/explicit/`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Rows = Sequence[Sequence[Fraction]]


def reach_exactly(rows: Rows, targets: Sequence[bool]) -> list[Fraction]:
    """Return the least solution of x = 1 on targets and x = P x elsewhere, by elimination over rationals."""
    can = _can_reach(rows, targets)
    unknown = [state for state, found in enumerate(can) if found and not targets[state]]
    goals = [state for state, is_target in enumerate(targets) if is_target]
    system = [
        [Fraction(int(a == b)) - rows[a][b] for b in unknown]
        + [sum((rows[a][t] for t in goals), Fraction(0))]
        for a in unknown
    ]
    values = [Fraction(int(is_target)) for is_target in targets]
    for state, value in zip(unknown, _solved(system), strict=True):
        values[state] = value
    return values


def reach_within_exactly(rows: Rows, targets: Sequence[bool], steps: int) -> list[Fraction]:
    """Return the probability of a target after at most that many steps, by the recurrence."""
    values = [Fraction(int(is_target)) for is_target in targets]
    for _ in range(steps):
        after = [sum((p * v for p, v in zip(row, values, strict=True)), Fraction(0)) for row in rows]
        values = [Fraction(1) if goal else value for goal, value in zip(targets, after, strict=True)]
    return values


def _can_reach(rows: Rows, targets: Sequence[bool]) -> list[bool]:
    """Return which states have a path to a target."""
    found = list(targets)
    for _ in rows:
        found = [
            is_found or any(share and there for share, there in zip(row, found, strict=True))
            for row, is_found in zip(rows, found, strict=True)
        ]
    return found


def _solved(system: list[list[Fraction]]) -> list[Fraction]:
    """Return the solution of a regular system by Gauss and Jordan."""
    for column in range(len(system)):
        pivot = next(row for row in range(column, len(system)) if system[row][column])
        system[column], system[pivot] = system[pivot], system[column]
        head = [value / system[column][column] for value in system[column]]
        system[column] = head
        for row, values in enumerate(system):
            if row != column and values[column]:
                system[row] = [a - values[column] * b for a, b in zip(values, head, strict=True)]
    return [row[-1] for row in system]
