"""The conditions of predicates, each with the events on which it matters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import NamedTuple

from ...rules.model.predicate import And, Condition, Leaf, Literal, Not, Or, Path, Predicate, Test

TOOL = Path("tool")
KIND = Path("kind")

Allowed = frozenset[str] | None
"""The values that a field may have; None if it may have any."""


@dataclass(frozen=True, slots=True)
class Context:
    """The events on which a condition matters: the tools and the kinds that they may have."""

    tools: Allowed = None
    kinds: Allowed = None

    def narrowed(self, predicate: Predicate, *, truth: bool) -> Context:
        """Return the events among these on which a predicate is true, or on which it is false."""
        return Context(
            _both(self.tools, allowed(predicate, TOOL, truth=truth)),
            _both(self.kinds, allowed(predicate, KIND, truth=truth)),
        )

    def joined(self, more: Context) -> Context:
        """Return the events of both."""
        return Context(_either(self.tools, more.tools), _either(self.kinds, more.kinds))

    def has(self, tool: str | None, kind: str) -> bool:
        """Return whether an event of a tool and a kind is one of them."""
        return (self.tools is None or tool in self.tools) and (self.kinds is None or kind in self.kinds)


class PlacedCondition(NamedTuple):
    """A condition of a predicate, and the events on which it matters.

    `decides` is false if the predicate may be true without it: it is one of several alternatives.
    """

    condition: Condition
    context: Context
    decides: bool


def placed(
    predicate: Predicate, context: Context | None = None, *, wanted: bool = True, decides: bool = True
) -> Iterator[PlacedCondition]:
    """Yield the conditions of a predicate that is to be true, or false if it is not `wanted`."""
    context = context or Context()
    match predicate:
        case Not(arg):
            yield from placed(arg, context, wanted=not wanted, decides=decides)
        case And(args) | Or(args):
            is_all = isinstance(predicate, And)
            for place, arg in enumerate(args):
                # A part of a conjunction matters where the others are true, of a disjunction where they are
                # false.
                siblings = (*args[:place], *args[place + 1 :])
                inner = context
                for sibling in siblings:
                    inner = inner.narrowed(sibling, truth=is_all)
                alone = is_all == wanted or not any(
                    _is_other_way(arg, each, inner, wanted) for each in siblings
                )
                yield from placed(arg, inner, wanted=wanted, decides=decides and alone)
        case Literal():
            return
        case _:
            yield PlacedCondition(predicate, context, decides)


def allowed(predicate: Predicate, path: Path, *, truth: bool) -> Allowed:
    """Return the texts of which a field has one wherever a predicate is true, or wherever it is false."""
    match predicate:
        case Leaf(found, test, operands, None) if found == path:
            equal = (Test.EQ, Test.IN) if truth else (Test.NE,)
            return frozenset(map(str, operands)) if test in equal else None
        case Not(arg):
            return allowed(arg, path, truth=not truth)
        case And(args) | Or(args):
            parts = [allowed(arg, path, truth=truth) for arg in args]
            join = _both if isinstance(predicate, And) == truth else _either
            result = parts[0] if parts else None
            for part in parts[1:]:
                result = join(result, part)
            return result
        case _:
            return None


def _is_other_way(part: Predicate, sibling: Predicate, context: Context, wanted: bool) -> bool:
    """Return whether a predicate may be true by a sibling on the events on which it may be by a part.

    A sibling that only restricts tool or kind is none: `tool != "refund" or ...`.
    """
    if any(allowed(sibling, path, truth=not wanted) is not None for path in (TOOL, KIND)):
        return False
    ways = (context.narrowed(part, truth=wanted), context.narrowed(sibling, truth=wanted))
    return all(_both(*each) != frozenset() for each in zip(*(astuple(way) for way in ways), strict=True))


def _both(left: Allowed, right: Allowed) -> Allowed:
    return right if left is None else left if right is None else left & right


def _either(left: Allowed, right: Allowed) -> Allowed:
    return None if left is None or right is None else left | right
