"""Formulas: one frozen node type, its operators, and queries that every compiler pass uses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Op(Enum):
    """The operators of the rule language; the value is the operator's word in text."""

    TRUE = "true"
    FALSE = "false"
    PROP = "proposition"
    NOT = "not"
    AND = "and"
    OR = "or"
    IMPLIES = "->"
    IFF = "<->"
    NEXT = "next"
    WEAK_NEXT = "weak_next"
    EVENTUALLY = "eventually"
    ALWAYS = "always"
    UNTIL = "until"
    WEAK_UNTIL = "weak_until"
    RELEASE = "release"
    STRONG_RELEASE = "strong_release"
    PREVIOUS = "previous"
    WEAK_PREVIOUS = "weak_previous"
    ONCE = "once"
    HISTORICALLY = "historically"
    SINCE = "since"
    WEAK_SINCE = "weak_since"
    AT_MOST = "at_most"

    # Enum's own hash is a Python call, which would slow every look-up of the compiler.
    __hash__ = object.__hash__


BOOLEAN = frozenset({Op.TRUE, Op.FALSE, Op.PROP, Op.NOT, Op.AND, Op.OR, Op.IMPLIES, Op.IFF})
FUTURE = frozenset(
    {
        Op.NEXT,
        Op.WEAK_NEXT,
        Op.EVENTUALLY,
        Op.ALWAYS,
        Op.UNTIL,
        Op.WEAK_UNTIL,
        Op.RELEASE,
        Op.STRONG_RELEASE,
    }
)
PAST = frozenset(
    {
        Op.PREVIOUS,
        Op.WEAK_PREVIOUS,
        Op.ONCE,
        Op.HISTORICALLY,
        Op.SINCE,
        Op.WEAK_SINCE,
        Op.AT_MOST,
    }
)
STEPPED = frozenset({Op.NEXT, Op.WEAK_NEXT, Op.PREVIOUS, Op.WEAK_PREVIOUS})
BOUNDED = frozenset({Op.EVENTUALLY, Op.ALWAYS, Op.ONCE, Op.HISTORICALLY})


@dataclass(frozen=True, slots=True)
class Formula:
    """One node of a formula, with calls of user-defined operators already expanded.

    `name` is the name of a proposition or transition bit, and empty on other nodes. `bounds` is `(a, b)` on
    `F G O H [a,b]`, `(n, n)` on `X N Y Z [n]` (also for a written `[1]`), `(0, k)` on `at_most[k]`, else
    None. Two formulas are equal when their trees are.
    """

    op: Op
    args: tuple[Formula, ...] = ()
    name: str = ""
    bounds: tuple[int, int] | None = None
    looks_ahead: bool = field(init=False, repr=False, compare=False, default=False)
    """True if the tree has a future operator."""
    size: int = field(init=False, repr=False, compare=False, default=1)
    """The number of nodes in the tree."""
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # Stored: passes query every node, and each answer would be a walk over the tree below.
        looks_ahead = self.op in FUTURE or any(arg.looks_ahead for arg in self.args)
        object.__setattr__(self, "looks_ahead", looks_ahead)
        object.__setattr__(self, "size", 1 + sum(arg.size for arg in self.args))
        object.__setattr__(self, "_hash", hash((self.op, self.args, self.name, self.bounds)))

    def __hash__(self) -> int:
        # Stored: formulas are keys of most tables of the compiler, and hashing a tree is a walk over it.
        return self._hash

    def __str__(self) -> str:
        from .printer import to_text

        return to_text(self)


TRUE = Formula(Op.TRUE)
FALSE = Formula(Op.FALSE)


def prop(name: str) -> Formula:
    """Return the proposition (or transition bit) of that name."""
    return Formula(Op.PROP, name=name)


def walk(formula: Formula) -> Iterator[Formula]:
    """Yield every node, a parent before its children, left before right."""
    todo = [formula]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(node.args))


def names(formula: Formula) -> frozenset[str]:
    """Return the names of the propositions and transition bits in a formula."""
    return frozenset(node.name for node in walk(formula) if node.op is Op.PROP)


def has_future(formula: Formula) -> bool:
    """Return whether a formula has a future operator."""
    return formula.looks_ahead


def has_past(formula: Formula) -> bool:
    """Return whether a formula has a past operator (`at_most` is one)."""
    return any(node.op in PAST for node in walk(formula))


def evaluate_boolean(formula: Formula, true: Collection[str]) -> bool:
    """Return whether a Boolean formula holds if exactly these propositions are true."""
    values = (evaluate_boolean(arg, true) for arg in formula.args)
    match formula.op:
        case Op.TRUE:
            return True
        case Op.FALSE:
            return False
        case Op.PROP:
            return formula.name in true
        case Op.NOT:
            return not next(values)
        case Op.AND:
            return all(values)
        case Op.OR:
            return any(values)
        case Op.IMPLIES:
            return not next(values) or next(values)
        case Op.IFF:
            return next(values) == next(values)
        case _:
            raise AssertionError(f"`{formula.op.value}` is not Boolean")


def evaluate_kleene(formula: Formula, values: Mapping[str, bool | None]) -> bool | None:
    """Return the value of a Boolean formula where those of its propositions may be unknown (None).

    The connectives have the tables of Kleene's strong logic: `p or not p` is unknown where p is.
    """
    if formula.op is Op.PROP:
        return values[formula.name]
    parts = [evaluate_kleene(arg, values) for arg in formula.args]
    match formula.op, parts:
        case Op.NOT, [p]:
            return None if p is None else not p
        case ((Op.AND | Op.OR), _):
            decisive = formula.op is Op.OR
            return decisive if decisive in parts else None if None in parts else not decisive
        case Op.IMPLIES, [p, q]:
            return True if p is False or q is True else None if None in parts else False
        case Op.IFF, [p, q]:
            return None if None in parts else p is q
        case _:
            return evaluate_boolean(formula, ())
