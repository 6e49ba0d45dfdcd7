"""Guards: predicates for the rows on which a costly leaf matters; regular expressions and JSON run there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ..model.formula import Formula, Op
from ..model.predicate import (
    ELEMENT,
    And,
    Condition,
    Leaf,
    Literal,
    Not,
    Or,
    Predicate,
    Test,
    leaves,
    read_paths,
)

CONTENT_FIELDS = frozenset({"text", "args", "result"})
"""The fields that hold messages, arguments and results, which may be absent, truncated or redacted."""

CAPTURED_FIELDS = CONTENT_FIELDS | {"tool"}
"""The fields that may not have been captured: a call without a tool name had one. All others are metadata."""

_JSON_OR_TEXT = CONTENT_FIELDS | {ELEMENT}
_CHEAP_TESTS = frozenset({Test.EQ, Test.NE, Test.IN, Test.IS_NULL, Test.IS_TRUE, Test.STARTS_WITH})

TRUE = Literal(True)


def is_cheap(leaf: Condition) -> bool:
    """Return whether the leaf compares plain fields, without a search and without JSON."""
    if not isinstance(leaf, Leaf):
        return False
    plain = all(path.field not in _JSON_OR_TEXT and not path.steps for path in read_paths(leaf))
    return leaf.test in _CHEAP_TESTS and plain


def shadow(predicate: Predicate) -> Predicate:
    """Return a predicate of cheap leaves that is false only where the given one is, at worst `true`."""
    match predicate:
        case Literal():
            return predicate
        case Not(arg):
            return predicate if all(is_cheap(leaf) for leaf in leaves(arg)) else TRUE
        case And(args):
            return all_of(shadow(arg) for arg in args)
        case Or(args):
            return any_of(shadow(arg) for arg in args)
        case _:
            return predicate if is_cheap(predicate) else TRUE


def guards(predicates: Iterable[Predicate]) -> dict[Condition, Predicate]:
    """Return for each costly leaf a predicate of cheap leaves, false only where the leaf does not matter.

    A leaf under `and` matters only where its siblings are not false; a leaf that occurs in several predicates
    matters where it matters in one of them.
    """
    by_leaf: dict[Condition, list[Predicate]] = {}
    for predicate in predicates:
        for leaf, guard in _guarded_leaves(predicate, TRUE):
            by_leaf.setdefault(leaf, []).append(guard)
    return {leaf: any_of(found) for leaf, found in by_leaf.items()}


def all_of(parts: Iterable[Predicate]) -> Predicate:
    """Return the conjunction, flat, without repetitions and without `true`."""
    found = [part for part in _flat(parts, And) if part != TRUE]
    return TRUE if not found else found[0] if len(found) == 1 else And(tuple(found))


def any_of(parts: Iterable[Predicate]) -> Predicate:
    """Return the disjunction, flat, without parts that imply another part; `true` if one part is."""
    found = _flat(parts, Or)
    if TRUE in found or not found:
        return TRUE
    weakest = _weakest(found)
    return weakest[0] if len(weakest) == 1 else Or(tuple(weakest))


def _weakest(predicates: list[Predicate]) -> list[Predicate]:
    """Return the predicates without those that imply another one; of equal ones the first remains."""
    # p or (p and q)  =  p
    parts = [parts_of(predicate) for predicate in predicates]
    uses = Counter(part for conjuncts in parts for part in conjuncts)
    # Every part of a weaker predicate, so its rarest too, is a part of the stronger one: few are compared.
    by_rarest: dict[str, list[int]] = {}
    for place, conjuncts in enumerate(parts):
        by_rarest.setdefault(min(conjuncts, key=lambda part: (uses[part], part)), []).append(place)

    def remains(place: int) -> bool:
        strong = parts[place]
        candidates = (candidate for part in strong for candidate in by_rarest.get(part, ()))
        return not any(
            parts[candidate] < strong or (parts[candidate] == strong and candidate < place)
            for candidate in candidates
        )

    return [predicate for place, predicate in enumerate(predicates) if remains(place)]


def steps_shadow(steps: Formula | None, propositions: Mapping[str, Predicate]) -> Predicate:
    """Return a predicate of cheap leaves that is false only on events which a rule's `steps` excludes."""
    return TRUE if steps is None else shadow(as_predicate(steps, propositions))


def as_predicate(formula: Formula, propositions: Mapping[str, Predicate]) -> Predicate:
    """Return a Boolean formula over propositions as one predicate."""
    if formula.op is Op.PROP:
        return propositions[formula.name]
    args = tuple(as_predicate(arg, propositions) for arg in formula.args)
    match formula.op:
        case Op.TRUE | Op.FALSE:
            return Literal(formula.op is Op.TRUE)
        case Op.NOT:
            return Not(args[0])
        case Op.AND:
            return And(args)
        case Op.OR:
            return Or(args)
        case Op.IMPLIES:
            return Or((Not(args[0]), args[1]))
        case _:
            assert formula.op is Op.IFF, "`steps` is Boolean"
            return Or((And(args), And(tuple(Not(arg) for arg in args))))


def _guarded_leaves(predicate: Predicate, guard: Predicate) -> Iterator[tuple[Condition, Predicate]]:
    """Yield every costly leaf with a predicate that is false only where the leaf does not matter."""
    match predicate:
        case Not(arg):
            yield from _guarded_leaves(arg, guard)
        case Or(args):
            for arg in args:
                yield from _guarded_leaves(arg, guard)
        case And(args):
            for place, arg in enumerate(args):
                siblings = (shadow(sibling) for sibling in (*args[:place], *args[place + 1 :]))
                yield from _guarded_leaves(arg, all_of((guard, *siblings)))
        case Literal():
            return
        case _:
            if not is_cheap(predicate):
                yield predicate, guard


def parts_of(predicate: Predicate) -> frozenset[str]:
    """Return the texts of the conjuncts of a predicate."""
    if predicate == TRUE:
        return frozenset()
    return frozenset(map(repr, predicate.args if isinstance(predicate, And) else (predicate,)))


def _flat(parts: Iterable[Predicate], node: type[And] | type[Or]) -> list[Predicate]:
    """Return the parts in order, each once, with nested nodes of the same type flattened."""
    # The keys are texts: `Leaf(..., (1,))` equals `Leaf(..., (True,))`.
    found: dict[str, Predicate] = {}
    for part in parts:
        for inner in part.args if isinstance(part, node) else (part,):
            found[repr(inner)] = inner
    return list(found.values())
