"""The semantic difference of two packs: which rules are the same, changed, added and removed, and in what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ...schemas.verdict import Unknown
from ..model.digest import predicate_key, rule_digest
from ..model.formula import TRUE, Formula, evaluate_kleene, names
from ..model.rule import Rule, RuleSet
from .compare import Comparison, Difference, Naming, Side, common_names, side_of
from .walk import Labels

STEPS_NAMES_MAX = 8
"""Names in the `steps` of two rules whose values, unknown among them, are all tried."""


@dataclass(frozen=True, slots=True)
class RuleComparison:
    """A rule of two packs, by its name; `left` is None where it was added, `right` where it was removed.

    `changes` has what differs, of `formula`, `steps`, `recover`, `predicate`, `for_each`, `applies_to`,
    `unknown` and `severity`; it is empty where the rule is the same, however it is written. `predicates` are
    the propositions whose predicates differ. `difference` is the one of the formulas, over propositions of
    which those with one name are taken for one. `applies` is a shortest session to which exactly one of the
    rules applies.
    """

    name: str
    left: Rule | None
    right: Rule | None
    changes: tuple[str, ...] = ()
    predicates: tuple[str, ...] = ()
    difference: Difference | None = None
    applies: tuple[Labels, ...] | None = None

    @property
    def status(self) -> str:
        """Return `same`, `changed`, `added` or `removed`."""
        if self.left is None:
            return "added"
        if self.right is None:
            return "removed"
        return "changed" if self.changes else "same"


def compare_packs(left: RuleSet, right: RuleSet) -> list[RuleComparison]:
    """Return the comparison of each rule, in the order of the left packs and then of the right ones.

    Raises RuleError (TRL303) where two rules are too large to compare: they are never called the same.
    """
    by_name = _by_name(left.rules, right.rules), _by_name(right.rules, left.rules)
    found = list(by_name[0]) + [name for name in by_name[1] if name not in by_name[0]]
    pairs = ((name, by_name[0].get(name), by_name[1].get(name)) for name in found)
    return [
        compare_rules(name, first, second) if first and second else RuleComparison(name, first, second)
        for name, first, second in pairs
    ]


def _by_name(rules: Sequence[Rule], others: Sequence[Rule]) -> dict[str, Rule]:
    """Return rules by id, or by `PACK/ID` where several packs of a side use the id."""
    counts = Counter(rule.id for rule in rules) | Counter(rule.id for rule in others)
    return {rule.id if counts[rule.id] == 1 else f"{rule.pack}/{rule.id}": rule for rule in rules}


def compare_rules(name: str, left: Rule, right: Rule) -> RuleComparison:
    """Return the comparison of two rules."""
    severity = ["severity"] if left.severity is not right.severity else []
    if rule_digest(left) == rule_digest(right):
        return RuleComparison(name, left, right, tuple(severity))
    sides = side_of(left), side_of(right)
    naming = common_names(*sides, by_name=True)
    comparison = Comparison.of(*sides, naming)
    difference, applies = comparison.difference(), comparison.applies_elsewhere()
    predicates = tuple(_changed_predicates(*sides))
    changes = [*_written(left, right)] if difference is not None else []
    changes += ["predicate"] if predicates else []
    changes += ["for_each"] if left.for_each != right.for_each else []
    has_own = left.applies_to is not None or right.applies_to is not None
    changes += ["applies_to"] if has_own and applies is not None else []
    changes += ["unknown"] if _asks_otherwise(left, right, naming) else []
    return RuleComparison(name, left, right, (*changes, *severity), predicates, difference, applies)


def _written(left: Rule, right: Rule) -> Iterator[str]:
    """Yield what is written otherwise in rules that give other verdicts."""
    formulas = [(rule.formula, rule.transitions) for rule in (left, right)]
    is_rewritten = left.steps == right.steps and left.recover is right.recover
    if formulas[0] != formulas[1] or is_rewritten:
        yield "formula"
    if left.steps != right.steps:
        yield "steps"
    if left.recover is not right.recover:
        yield "recover"


def _changed_predicates(left: Side, right: Side) -> Iterator[str]:
    """Yield the propositions of both rules whose predicates differ."""
    for name, predicate in left.predicates.items():
        facing = right.predicates.get(name)
        if predicate is None or facing is None:
            continue
        if predicate_key(predicate) != predicate_key(facing):
            yield name


def _asks_otherwise(left: Rule, right: Rule, naming: Naming) -> bool:
    """Return whether what was not captured makes the rules unjudged at other events.

    A rule that stops is unjudged wherever a proposition that it names is unknown, needed or not, and where
    its `steps` is.
    """
    if left.unknown is not right.unknown:
        return True
    if left.unknown is not Unknown.STOP:
        return False
    asked = _Asked.of(left, naming.left), _Asked.of(right, naming.right)
    if asked[0].names != asked[1].names:
        return True
    return asked[0] != asked[1] and _counts_otherwise(*asked)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The `steps` of a rule that stops, and the common names of propositions there and in its formulas."""

    steps: Formula
    in_steps: Mapping[str, str]
    required: frozenset[str]

    @staticmethod
    def of(rule: Rule, common: Mapping[str, str]) -> _Asked:
        """Return what a rule asks for."""
        roots = (rule.formula, rule.applies_to, *rule.transitions.values())
        found = {name for root in roots if root is not None for name in names(root)} - rule.transitions.keys()
        steps = rule.steps or TRUE
        in_steps = {name: common.get(name, name) for name in names(steps)}
        return _Asked(steps, in_steps, frozenset(common.get(name, name) for name in found))

    @property
    def names(self) -> frozenset[str]:
        """Return the common names of all propositions that the rule names."""
        return self.required.union(self.in_steps.values())

    def counts(self, event: Mapping[str, bool | None]) -> bool | None:
        """Return whether the rule steps at an event, and None where it is unjudged there."""
        counts = evaluate_kleene(self.steps, {name: event[shown] for name, shown in self.in_steps.items()})
        is_known = all(event.get(name, True) is not None for name in self.required)
        return None if counts and not is_known else counts


def _counts_otherwise(left: _Asked, right: _Asked) -> bool:
    """Return whether two rules are unjudged at other events because of their `steps`.

    With more than `STEPS_NAMES_MAX` names, `steps` that are written otherwise count as other ones.
    """
    asked = sorted({*left.in_steps.values(), *right.in_steps.values()})
    if len(asked) > STEPS_NAMES_MAX:
        return True
    events = (
        dict(zip(asked, values, strict=True)) for values in product((True, False, None), repeat=len(asked))
    )
    return any(left.counts(event) is not right.counts(event) for event in events)
