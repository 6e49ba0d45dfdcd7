"""A walk over the pairs of states that two machines reach on the same events, for a shortest session.

Of the shortest sessions it finds the one with the fewest true propositions, and of these the first in the
alphabet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..model.machine import Machine
from ..model.problem import Problem, RuleError

STEPS_MAX = 2_000_000
"""Steps of one walk: pairs of states times events that the machines distinguish."""
EVENTS_MAX = 1 << 16
"""Possible events: sets of propositions that are true together."""

Labels = tuple[str, ...]
"""The propositions that are true at an event, sorted."""
Vertex = TypeVar("Vertex", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PairedEvent:
    """An event as both machines read it: their letters, None where `steps` skips it."""

    left: int | None
    right: int | None
    labels: Labels


def possible_events(
    names: Iterable[str], exclusions: Mapping[str, frozenset[str]], rules: str
) -> list[frozenset[str]]:
    """Return every set of names without two that exclude each other; a name may exclude itself.

    Raises RuleError (TRL303) if there are more than `EVENTS_MAX`; `rules` names the rules in the error.
    """
    found = [frozenset[str]()]
    for name in names:
        excluded = exclusions.get(name, frozenset())
        if name not in excluded:
            found += [true | {name} for true in found if true.isdisjoint(excluded)]
        if len(found) > EVENTS_MAX:
            raise too_large(rules, f"possible events, {EVENTS_MAX:,}")
    return found


def paired_events(
    events: Iterable[frozenset[str]],
    left: Callable[[frozenset[str]], int | None],
    right: Callable[[frozenset[str]], int | None],
) -> list[PairedEvent]:
    """Return an event for each pair of letters: that with the fewest true propositions, then the first."""
    found: dict[tuple[int | None, int | None], Labels] = {}
    for event in events:
        letters, labels = (left(event), right(event)), tuple(sorted(event))
        known = found.get(letters)
        if known is None or (len(labels), labels) < (len(known), known):
            found[letters] = labels
    return [PairedEvent(first, second, labels) for (first, second), labels in found.items()]


def stepped(machine: Machine, state: int, letter: int | None) -> tuple[int, int]:
    """Return the state after an event and its output; a skipped event changes nothing and has none."""
    return (state, 0) if letter is None else (machine.next[state][letter], machine.output[state][letter])


def shortest(
    start: Vertex,
    events: Sequence[PairedEvent],
    step: Callable[[Vertex, PairedEvent], tuple[Vertex, bool]],
    rules: str,
) -> tuple[Labels, ...] | None:
    """Return the shortest session whose last event is of interest, or None where there is none.

    `step` returns the node after an event, and whether the event is of interest. Raises RuleError (TRL303) if
    the walk takes more than `STEPS_MAX` steps.
    """
    # All shortest sessions to a node have its depth, so a layer needs only the best session to each node.
    layer: dict[Vertex, tuple[int, tuple[Labels, ...]]] = {start: (0, ())}
    known = {start}
    spent = 0
    while layer:
        found: list[tuple[int, tuple[Labels, ...]]] = []
        following: dict[Vertex, tuple[int, tuple[Labels, ...]]] = {}
        for node, (count, session) in layer.items():
            spent += len(events)
            if spent > STEPS_MAX:
                raise too_large(rules, f"steps of the search, {STEPS_MAX:,}")
            for event in events:
                target, is_found = step(node, event)
                if not is_found and (target in known or found):
                    continue
                reached = count + len(event.labels), (*session, event.labels)
                if is_found:
                    found.append(reached)
                elif target not in following or reached < following[target]:
                    following[target] = reached
        if found:
            return min(found)[1]
        known.update(following)
        layer = following
    return None


def too_large(rules: str, limit: str) -> RuleError:
    """Return the error for rules whose comparison exceeds a limit."""
    message = f"{rules} are too large to compare: more than the limit of {limit}"
    hint = "compare rules with smaller bounds or fewer propositions; they may be equal or different"
    return RuleError([Problem("TRL303", message, hint)])
