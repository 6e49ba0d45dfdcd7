"""Guards: on which rows a costly question matters, so that regular expressions and JSON run only there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ..model.formula import Formula, Op
from ..model.predicate import And, Leaf, Literal, Not, Or, Predicate, Test

CONTENT_FIELDS = frozenset({"text", "args", "result"})
"""The fields that hold what was said or done, which may not, or not wholly, have been captured."""

CAPTURED_FIELDS = CONTENT_FIELDS | {"tool"}
"""The fields that may not have been captured: every call is of some tool. All others are metadata."""

_CHEAP_TESTS = frozenset({Test.EQ, Test.NE, Test.IN, Test.IS_NULL, Test.IS_TRUE, Test.STARTS_WITH})

TRUE = Literal(True)


def is_cheap(leaf: Leaf) -> bool:
    """Return whether the leaf costs next to nothing: a comparison of a plain field, no search, no JSON."""
    return leaf.test in _CHEAP_TESTS and leaf.path.field not in CONTENT_FIELDS and not leaf.path.steps


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """Every leaf of a predicate, left before right."""
    match predicate:
        case Leaf():
            yield predicate
        case Not(arg):
            yield from leaves(arg)
        case And(args) | Or(args):
            for arg in args:
                yield from leaves(arg)
        case Literal():
            return


def shadow(predicate: Predicate) -> Predicate:
    """A predicate of cheap leaves that is false only where the given one is; `true` where none is at hand."""
    match predicate:
        case Leaf():
            return predicate if is_cheap(predicate) else TRUE
        case Literal():
            return predicate
        case Not(arg):
            return predicate if all(is_cheap(leaf) for leaf in leaves(arg)) else TRUE
        case And(args):
            return all_of(shadow(arg) for arg in args)
        case Or(args):
            return any_of(shadow(arg) for arg in args)


def guards(predicates: Iterable[Predicate]) -> dict[Leaf, Predicate]:
    """For each costly leaf, a predicate of cheap leaves that is false only where no answer depends on it.

    A leaf under `and` matters only where its siblings are not false; a leaf that stands in several places
    matters where one of them does.
    """
    around: dict[Leaf, list[Predicate]] = {}
    for predicate in predicates:
        for leaf, guard in _surroundings(predicate, TRUE):
            around.setdefault(leaf, []).append(guard)
    return {leaf: any_of(found) for leaf, found in around.items()}


def all_of(parts: Iterable[Predicate]) -> Predicate:
    """The conjunction, flat, without repetition, `true` left out."""
    found = [part for part in _flat(parts, And) if part != TRUE]
    return TRUE if not found else found[0] if len(found) == 1 else And(tuple(found))


def any_of(parts: Iterable[Predicate]) -> Predicate:
    """The disjunction, flat, without parts that imply another; `true` if one part is."""
    found = _flat(parts, Or)
    if TRUE in found or not found:
        return TRUE
    weakest = _weakest(found)
    return weakest[0] if len(weakest) == 1 else Or(tuple(weakest))


def _weakest(predicates: list[Predicate]) -> list[Predicate]:
    """Return the predicates without those that imply another one; of equal ones the first stays."""
    # p or (p and q)  =  p
    parts = [parts_of(predicate) for predicate in predicates]
    uses = Counter(part for some in parts for part in some)
    # What a predicate implies has its rarest part among the predicate's own: few are compared.
    by_rarest: dict[str, list[int]] = {}
    for place, some in enumerate(parts):
        by_rarest.setdefault(min(some, key=lambda part: (uses[part], part)), []).append(place)

    def stays(place: int) -> bool:
        strong = parts[place]
        weaker = (other for part in strong for other in by_rarest.get(part, ()))
        return not any(
            parts[other] < strong or (parts[other] == strong and other < place) for other in weaker
        )

    return [predicate for place, predicate in enumerate(predicates) if stays(place)]


def steps_shadow(steps: Formula | None, propositions: Mapping[str, Predicate]) -> Predicate:
    """A predicate of cheap leaves that is false only on events which a rule's `steps` leave out."""
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


def _surroundings(predicate: Predicate, guard: Predicate) -> Iterator[tuple[Leaf, Predicate]]:
    """Every costly leaf with what must not be false around it."""
    match predicate:
        case Leaf():
            if not is_cheap(predicate):
                yield predicate, guard
        case Not(arg):
            yield from _surroundings(arg, guard)
        case Or(args):
            for arg in args:
                yield from _surroundings(arg, guard)
        case And(args):
            for place, arg in enumerate(args):
                siblings = (shadow(other) for other in (*args[:place], *args[place + 1 :]))
                yield from _surroundings(arg, all_of((guard, *siblings)))
        case Literal():
            return


def parts_of(predicate: Predicate) -> frozenset[str]:
    """Return what a conjunction is of, by its text."""
    if predicate == TRUE:
        return frozenset()
    return frozenset(map(repr, predicate.args if isinstance(predicate, And) else (predicate,)))


def _flat(parts: Iterable[Predicate], node: type[And] | type[Or]) -> list[Predicate]:
    """The parts in order, each once, nested nodes of the same sort opened."""
    # By their text: as keys, `Leaf(..., (1,))` and `Leaf(..., (True,))` are equal.
    found: dict[str, Predicate] = {}
    for part in parts:
        for inner in part.args if isinstance(part, node) else (part,):
            found[repr(inner)] = inner
    return list(found.values())
