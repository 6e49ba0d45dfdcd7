"""The reference's runs as arrays, so that all traces of a length are stepped at once.

A state of the reference is whatever `tracline.rules.reference.semantics` keeps between two events; it is met
again and again, so a formula's states are numbered and its steps are written down once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
from tracline.rules.model.formula import Formula
from tracline.rules.reference.ltl3 import NO_TRANSITIONS, Label, Meaning, PastMemory, PastSummary, Transitions
from tracline.rules.reference.semantics import Run, advance, begin, invariant_body
from tracline.schemas.verdict import Recover, Verdict

from .words import LETTERS

Array = Any
Key = TypeVar("Key", bound=Hashable)

CODES = {
    Verdict.PENDING: 0,
    Verdict.VIOLATED: 1,
    Verdict.SATISFIED: 2,
    None: 3,
    Verdict.HELD: 4,
    Verdict.UNMET: 5,
}
"""Verdicts and closing readings as numbers."""


class Remembering(Meaning):
    """The reference, asked only once for each of its answers, which depend on nothing but what is asked."""

    def __init__(self, formula: Formula, transitions: Transitions = NO_TRANSITIONS) -> None:
        super().__init__(formula, transitions)
        history = self.history
        self.history = _RememberingHistory(history.parts, history.depth, transitions, history.alphabet)
        self.step = cache(super().step)
        self.verdict = cache(super().verdict)
        self._edges = cache(super()._edges)


class _RememberingHistory(PastSummary):
    """The reference's history, asked only once for each of its answers."""

    @cached_property
    def after(self) -> Callable[[PastMemory, Label], PastMemory]:
        return cache(super().after)

    @cached_property
    def _values(self) -> Callable[[PastMemory, Label], Callable[[Formula], int]]:
        return cache(super()._values)


def numbered(
    starts: Sequence[Key], steps: Callable[[Key], Sequence[Key]]
) -> tuple[dict[Key, int], list[list[int]]]:
    """Everything that steps lead to, numbered in the order met, and the numbers each one's steps lead to."""
    number = {key: place for place, key in enumerate(dict.fromkeys(starts))}
    rows: list[list[int]] = []
    todo = list(number)
    for key in todo:
        row = []
        for target in steps(key):
            if target not in number:
                number[target] = len(number)
                todo.append(target)
            row.append(number[target])
        rows.append(row)
    return number, rows


@dataclass(frozen=True)
class Instances:
    """Instances that are never restarted: LTL3 alone.

    `memory_next` steps the history, `begin` gives the instance that begins after a history, `next` steps
    it and `verdict` is its LTL3 verdict.
    """

    memory_next: Array
    begin: Array
    next: Array
    verdict: Array


def instances(meaning: Meaning) -> Instances:
    """Return all instances of a formula, wherever in whatever session they begin."""
    history = meaning.history
    memories, memory_rows = numbered(
        [history.start], lambda memory: [history.after(memory, letter) for letter in LETTERS]
    )
    begins = [meaning.begin(memory) for memory in memories]
    states, rows = numbered(begins, lambda state: [meaning.step(state, letter) for letter in LETTERS])
    return Instances(
        np.array(memory_rows),
        np.array([states[state] for state in begins]),
        np.array(rows),
        np.array([CODES[meaning.verdict(state)] for state in states], np.uint8),
    )


@dataclass(frozen=True)
class Runs:
    """A rule's runs under one way of recovering. `verdict` is that of the step, by state and letter.

    `final` states answer the same for ever; `fresh` ones have an instance that has seen no event; `held` ones
    close as held whatever the verdict on the finite trace is.
    """

    next: Array
    verdict: Array
    final: Array
    fresh: Array
    held: Array


def runs(meaning: Meaning, recover: Recover) -> Runs:
    """Return all states of a rule's run over a session."""
    verdicts: list[list[int]] = []

    def steps(run: Run) -> list[Run]:
        advanced = [advance(meaning, run, letter, recover) for letter in LETTERS]
        verdicts.append([CODES[verdict] for verdict, _ in advanced])
        return [_placeless(after) for _, after in advanced]

    states, rows = numbered([begin(meaning)], steps)
    invariant = invariant_body(meaning.formula, meaning.history.transitions) is not None
    return Runs(
        np.array(rows),
        np.array(verdicts, np.uint8),
        np.array([run.final is not None for run in states]),
        np.array([run.start > run.position for run in states]),
        np.array([invariant or (run.after_satisfied and meaning.is_whole(run.instance)) for run in states]),
    )


def _placeless(run: Run) -> Run:
    """Return the run without its position in the session, except for whether its instance has begun."""
    return Run(run.instance, int(run.start > run.position), 0, run.after_satisfied, run.final)


def by_letter(rows: Array, places: Array) -> Array:
    """Return what the rows, a column per letter, have for every trace at its place and every letter after it.

    That is for the traces longer by one letter, in the order of the words.
    """
    return rows[places].reshape(-1)
