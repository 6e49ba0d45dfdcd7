"""Completions: the letters that an event may have for a rule, where some of its propositions are unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .formula import evaluate_boolean
from .machine import Machine
from .rule import Rule

UNKNOWN_MAX = 6
"""Unknown propositions of one rule at an event whose completions are tried; with more, each letter counts."""


class Possible(NamedTuple):
    """The letters that some completion of an event gives a rule, ascending, and a stand-in for them.

    The stand-in is the machine's word of the first completion with which the rule sees the event. Completions
    count in binary: nothing unknown is true in the first.
    """

    letters: tuple[int, ...]
    stand_in: int


def completed(true: frozenset[str], unknown: frozenset[str]) -> Iterator[frozenset[str]]:
    """Yield the true propositions of each completion, first the one in which nothing unknown is true."""
    names = sorted(unknown)
    for number in range(1 << len(names)):
        yield true | {name for bit, name in enumerate(names) if number >> bit & 1}


def possible_letters(machine: Machine, true: frozenset[str], unknown: frozenset[str]) -> frozenset[int]:
    """Return the letters that are possible for a formula's machine at an event."""
    if len(unknown) > UNKNOWN_MAX:
        return frozenset(machine.letters)
    return frozenset(machine.letters[machine.word(each)] for each in completed(true, unknown))


class Completions:
    """The completions of the unknown propositions of one rule; `skip` is the letter of an unseen event."""

    def __init__(self, rule: Rule, machine: Machine, skip: int) -> None:
        self._steps, self._machine, self._skip = rule.steps, machine, skip
        self._names = sorted(rule.propositions)
        self._found: dict[tuple[frozenset[str], frozenset[str]], Possible] = {}

    def of(self, true: frozenset[str], unknown: frozenset[str]) -> Possible:
        """Return the letters that are possible where these propositions are true and those are unknown."""
        known = true, unknown
        if known not in self._found:
            self._found[known] = self._all(true) if len(unknown) > UNKNOWN_MAX else self._tried(true, unknown)
        return self._found[known]

    def _tried(self, true: frozenset[str], unknown: frozenset[str]) -> Possible:
        letters: set[int] = set()
        stand_in: int | None = None
        for each in completed(true, unknown):
            if self._steps is not None and not evaluate_boolean(self._steps, each):
                letters.add(self._skip)
                continue
            word = self._machine.word(each)
            letters.add(self._machine.letters[word])
            stand_in = word if stand_in is None else stand_in
        return Possible(tuple(sorted(letters)), self._machine.word(true) if stand_in is None else stand_in)

    def _all(self, true: frozenset[str]) -> Possible:
        letters = sorted(set(self._machine.letters))
        skipped = [] if self._steps is None else [self._skip]
        return Possible((*letters, *skipped), self._machine.word(true))
