"""Two machines beside each other over the same events: what warnings are looked for in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from ..compiler.limits import Work
from ..model.machine import Machine

PROPOSITIONS_MAX = 12
"""Propositions of rules that are looked into; the searches go through every set of them."""

STEPS_MAX = 200_000
"""Pairs of states times sorts of events that are looked at before a search gives up and finds nothing."""

StepResult = tuple[int, int]
"""The state after an event, and the output there."""


def sets_of(
    names: Iterable[str], apart: Mapping[str, Collection[str]] = MappingProxyType({})
) -> list[frozenset[str]]:
    """Every set of the names in which none stands with one that it is `apart` from, the empty one first.

    A name that is apart from itself is in none.
    """
    sets = [frozenset[str]()]
    for name in names:
        excluded = apart.get(name, ())
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
    """Whether some session, none of whose events has a `never` name, brings both machines to a found step.

    The session ends where `goes_on` is false. False as well where the search would run into
    the limits above. Raises TooLarge where it takes more than `work` allows.
    """
    names = sorted({*left.propositions, *right.propositions}.difference(never))
    if len(names) > PROPOSITIONS_MAX:
        return False
    work.spend(len(names) << len(names))
    words = [(left.word(true), right.word(true)) for true in sets_of(names)]
    sorts = {(left.letters[a], right.letters[b]): (a, b) for a, b in words}.values()
    known = {(0, 0)}
    todo = [(0, 0)]
    while todo and len(known) * len(sorts) < STEPS_MAX:
        states = todo.pop()
        work.spend(len(sorts))
        for word, other in sorts:
            one, two = left.step(states[0], word), right.step(states[1], other)
            if found(one, two):
                return True
            after = one[0], two[0]
            if after not in known and goes_on(one, two):
                known.add(after)
                todo.append(after)
    return False
