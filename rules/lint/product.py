"""Search in the product of two machines over the same events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from ..compiler.limits import Work
from ..model.machine import Machine

PROPOSITIONS_MAX = 12
"""The most propositions of a searched rule; the searches enumerate every set of them."""

STEPS_MAX = 200_000
"""Pairs of states times letters after which a search gives up and finds nothing."""

StepResult = tuple[int, int]
"""The state after an event, and the output."""


def sets_of(
    names: Iterable[str], exclusions: Mapping[str, Collection[str]] = MappingProxyType({})
) -> list[frozenset[str]]:
    """Return every set of names without a pair of `exclusions`, the empty set first.

    A name that excludes itself is in no set.
    """
    sets = [frozenset[str]()]
    for name in names:
        excluded = exclusions.get(name, ())
        if name not in excluded:
            sets += [true | {name} for true in sets if true.isdisjoint(excluded)]
    return sets


def _always(*_: StepResult) -> bool:
    return True


def product_reaches(
    left: Machine,
    right: Machine,
    found: Callable[[StepResult, StepResult], bool],
    work: Work,
    goes_on: Callable[[StepResult, StepResult], bool] = _always,
    never: Collection[str] = (),
) -> bool:
    """Return whether some session brings both machines to a step that `found` accepts.

    No event of the session has a `never` name, and the session ends if `goes_on` is false. Return False also
    if the search exceeds the limits above. Raises TooLarge if it takes more than `work` allows.
    """
    names = sorted({*left.propositions, *right.propositions}.difference(never))
    if len(names) > PROPOSITIONS_MAX:
        return False
    work.spend(len(names) << len(names))
    words = [(left.word(true), right.word(true)) for true in sets_of(names)]
    letters = {(left.letters[a], right.letters[b]): (a, b) for a, b in words}.values()
    known = {(0, 0)}
    todo = [(0, 0)]
    while todo and len(known) * len(letters) < STEPS_MAX:
        states = todo.pop()
        work.spend(len(letters))
        for left_word, right_word in letters:
            left_result = left.step(states[0], left_word)
            right_result = right.step(states[1], right_word)
            if found(left_result, right_result):
                return True
            after = left_result[0], right_result[0]
            if after not in known and goes_on(left_result, right_result):
                known.add(after)
                todo.append(after)
    return False
