"""`compare`: the comparison of two rules or formulas, and a shortest session on which they differ.

Two rules are equal where every possible session gives the same verdict after every event and the same reading
at its close. Possible are the events that the propositions allow; for formulas without predicates all are.
Sessions are those in which everything was captured.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from types import MappingProxyType

from ...schemas.verdict import Recover, Verdict
from ..compiler.compile import compile_formula, compile_rule
from ..language.parse import parse_formula
from ..lint.satisfiability import satisfiable_with_steps
from ..model.digest import predicate_key
from ..model.formula import Formula, evaluate_boolean, names
from ..model.machine import (
    APPLIES,
    SATISFIED,
    STAYS_SATISFIED,
    STAYS_VIOLATED,
    VERDICT_MASK,
    VIOLATED,
    Machine,
)
from ..model.predicate import And, Predicate
from ..model.rule import Rule
from .walk import Labels, PairedEvent, paired_events, possible_events, shortest, stepped, too_large

Comparable = Rule | Formula | str
"""A rule, a formula or its text."""

SEARCH_STEPS_MAX = 4_000_000
"""Evaluated leaves in the search for propositions that exclude each other."""

_WORDS = {
    VIOLATED: "violated",
    SATISFIED: "satisfied",
    STAYS_VIOLATED: "violated before",
    STAYS_SATISFIED: "satisfied before",
}
_FINAL = {STAYS_VIOLATED: VIOLATED, STAYS_SATISFIED: SATISFIED}


@dataclass(frozen=True, slots=True)
class Difference:
    """A shortest session on which two rules differ: at each event the propositions that are true.

    `left` and `right` are their answers at event `step`, which counts from 1, or at the close where that is
    None. `breaks` is a shortest session that exactly one of them breaks (violated or unmet), None where they
    break the same sessions and only flag other events.
    """

    session: tuple[Labels, ...]
    step: int | None
    left: str
    right: str
    breaks: tuple[Labels, ...] | None


def compare(
    left: Comparable, right: Comparable, *, recover: str | Recover = Recover.BOTH
) -> Difference | None:
    """Return where two rules or formulas differ, or None where they are equal.

    `recover` is that of formulas. A name in a formula is the proposition of that name in the rule to which it
    is compared. Propositions of two rules are one only where their predicates are equal. Rules with
    `for_each` are compared on one slice.

    Raises:
        RuleError: a text is no formula, a machine is too large, or the comparison exceeds a limit (TRL303).
    """
    return compare_sides(side_of(left, recover=recover), side_of(right, recover=recover))


def compare_sides(left: Side, right: Side) -> Difference | None:
    """Return the same for two sides."""
    return Comparison.of(left, right, common_names(left, right)).difference()


@dataclass(frozen=True, slots=True)
class Side:
    """One of two compared rules: its machine, its `steps`, and the predicates of its propositions.

    A formula has no predicates.
    """

    label: str
    machine: Machine
    steps: Formula | None
    predicates: Mapping[str, Predicate | None]


def side_of(
    given: Comparable,
    *,
    recover: str | Recover = Recover.BOTH,
    predicates: Mapping[str, Predicate] = MappingProxyType({}),
) -> Side:
    """Return a rule, or a formula with these predicates for its names, as one of two."""
    if isinstance(given, Rule):
        machine = compile_rule(given)
        used = {*machine.propositions, *(names(given.steps) if given.steps else ())}
        known = {name: given.propositions[name] for name in sorted(used)}
        return Side(f"{given.pack}/{given.id}", machine, given.steps, known)
    formula = parse_formula(given) if isinstance(given, str) else given
    machine = compile_formula(formula, recover=Recover(recover))
    return Side("the formulas", machine, None, {name: predicates.get(name) for name in machine.propositions})


@dataclass(frozen=True, slots=True)
class Naming:
    """The common names of both sides' propositions; equal names are one proposition.

    `predicates` has by common name the predicates that it stands for: two where the sides differ on it.
    """

    left: Mapping[str, str]
    right: Mapping[str, str]
    predicates: Mapping[str, tuple[Predicate, ...]]


def common_names(left: Side, right: Side, *, by_name: bool = False) -> Naming:
    """Return common names: propositions of rules are one where their predicates are equal.

    Those of a formula are one with those of the same name. With `by_name`, so are those of rules with one
    name whose predicates the other side lacks.
    """
    first, second = _keys(left, right), _keys(right, left)
    if by_name:
        for name in first.keys() & second.keys():
            if first[name] not in second.values() and second[name] not in first.values():
                second[name] = first[name]
    shown: dict[bytes, str] = {}
    for name, key in [*first.items(), *second.items()]:
        if key not in shown:
            shown[key] = _free(name, shown.values())
    naming = (
        {name: shown[key] for name, key in first.items()},
        {name: shown[key] for name, key in second.items()},
    )
    predicates: dict[str, dict[bytes, Predicate]] = {name: {} for name in shown.values()}
    for side, common in zip((left, right), naming, strict=True):
        for name, predicate in side.predicates.items():
            if predicate is not None:
                predicates[common[name]][predicate_key(predicate)] = predicate
    return Naming(*naming, {name: tuple(found.values()) for name, found in predicates.items()})


def _keys(side: Side, facing: Side) -> dict[str, bytes]:
    """Return what identifies each proposition of a side: its predicate, else its name."""
    found: dict[str, bytes] = {}
    for name, stated in side.predicates.items():
        predicate = facing.predicates.get(name) if stated is None else stated
        found[name] = name.encode() if predicate is None else predicate_key(predicate)
    return found


def _free(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: a proposition of the right side may have that of another."""
    return name if name not in taken else _free(f"{name}'", taken)


_Watched = tuple[tuple[int, int], bool, bool]
"""The states of both machines, and whether something has happened to each."""
_START: _Watched = ((0, 0), False, False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two rules over common events."""

    left: Machine
    right: Machine
    events: list[PairedEvent]
    rules: str

    @staticmethod
    def of(left: Side, right: Side, naming: Naming) -> Comparison:
        """Return the comparison of two sides. Raises RuleError (TRL303) if there are too many events."""
        rules = left.label if left.label == right.label else f"{left.label} and {right.label}"
        exclusions = _exclusions(naming.predicates, rules)
        events = possible_events(sorted(naming.predicates), exclusions, rules)
        read = _reader(left, naming.left), _reader(right, naming.right)
        return Comparison(left.machine, right.machine, paired_events(events, *read), rules)

    def difference(self) -> Difference | None:
        """Return the shortest session on which the rules differ, or None where they are equal."""
        session = shortest((0, 0), self.events, self._differs, self.rules)
        if session is None:
            return None
        states, outputs = (0, 0), (0, 0)
        by_labels = {event.labels: event for event in self.events}
        for labels in session:
            states, outputs = self._step(states, by_labels[labels])
        if _recorded(outputs[0]) != _recorded(outputs[1]):
            step, left, right = len(session), _output_word(outputs[0]), _output_word(outputs[1])
        else:
            step, (left, right) = None, map(_closing_word, self._closing(states))
        return Difference(session, step, left, right, self._breaks())

    def applies_elsewhere(self) -> tuple[Labels, ...] | None:
        """Return a shortest session to which exactly one of the rules applies, or None."""

        def step(node: _Watched, event: PairedEvent) -> tuple[_Watched, bool]:
            states, left, right = node
            after, (first, second) = self._step(states, event)
            left, right = left or bool(first & APPLIES), right or bool(second & APPLIES)
            return (after, left, right), left != right

        return shortest(_START, self.events, step, self.rules)

    def _breaks(self) -> tuple[Labels, ...] | None:
        """Return a shortest session that exactly one of the rules breaks, or None."""

        def step(node: _Watched, event: PairedEvent) -> tuple[_Watched, bool]:
            states, left, right = node
            after, (first, second) = self._step(states, event)
            left, right = left or _recorded(first) == VIOLATED, right or _recorded(second) == VIOLATED
            unmet = [end is Verdict.UNMET for end in self._closing(after)]
            return (after, left, right), (left or unmet[0]) != (right or unmet[1])

        return shortest(_START, self.events, step, self.rules)

    def _step(self, states: tuple[int, int], event: PairedEvent) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the states after an event, and the outputs."""
        first, left = stepped(self.left, states[0], event.left)
        second, right = stepped(self.right, states[1], event.right)
        return (first, second), (left, right)

    def _closing(self, states: tuple[int, int]) -> tuple[Verdict | None, Verdict | None]:
        return self.left.closing[states[0]], self.right.closing[states[1]]

    def _differs(self, states: tuple[int, int], event: PairedEvent) -> tuple[tuple[int, int], bool]:
        after, (left, right) = self._step(states, event)
        closings = self._closing(after)
        return after, _recorded(left) != _recorded(right) or closings[0] is not closings[1]


def _recorded(output: int) -> int:
    """Return the verdict that an output records, 0 for none: a final verdict is recorded once."""
    verdict = output & VERDICT_MASK
    return 0 if verdict in _FINAL else verdict


def _output_word(output: int) -> str:
    return _WORDS.get(output & VERDICT_MASK, "pending")


def _closing_word(closing: Verdict | None) -> str:
    return "nothing pending" if closing is None else closing.value


def _reader(side: Side, shown: Mapping[str, str]) -> Callable[[frozenset[str]], int | None]:
    """Return a function that reads an event as the letter of a machine, None where `steps` skips it."""
    machine, steps = side.machine, side.steps
    bits = [(1 << place, shown[name]) for place, name in enumerate(machine.propositions)]

    def read(event: frozenset[str]) -> int | None:
        if steps is not None and not evaluate_boolean(
            steps, {name for name, common in shown.items() if common in event}
        ):
            return None
        return machine.letters[sum(bit for bit, name in bits if name in event)]

    return read


def _exclusions(predicates: Mapping[str, Sequence[Predicate]], rules: str) -> dict[str, frozenset[str]]:
    """Return for each proposition those that are never true of the same event, by their predicates.

    A proposition without a predicate, or with another on each side, excludes none. Two whose search gives up
    fit.
    """
    known = {name: found[0] for name, found in predicates.items() if len(found) == 1}
    found: dict[str, set[str]] = {name: set() for name in known}
    spent = 0
    for first, second in combinations_with_replacement(sorted(known), 2):
        wanted = known[first], known[second]
        fits, steps = satisfiable_with_steps(wanted[0] if first == second else And(wanted))
        spent += steps
        if spent > SEARCH_STEPS_MAX:
            raise too_large(rules, f"steps of the search for possible events, {SEARCH_STEPS_MAX:,}")
        if not fits:
            found[first].add(second)
            found[second].add(first)
    return {name: frozenset(excluded) for name, excluded in found.items()}
