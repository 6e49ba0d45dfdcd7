"""Formulas as data: one frozen node type, its operators, and the questions every pass asks of a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum


class Op(Enum):
    """The operators of the rule language; the value is the word that stands for it in text."""

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

    # Each is itself alone: an Enum's own hash is a call of Python in every look-up that the compiler makes.
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
    """One node of a formula, calls of user-defined operators already expanded.

    `name` is a proposition's (or a transition bit's) name and empty elsewhere. `bounds` is `(a, b)` on
    `F G O H [a,b]`, `(n, n)` on `X N Y Z [n]` (kept where n is 1 and written), `(0, k)` on `at_most[k]`,
    and None elsewhere.
    Two formulas are equal when their trees are.
    """

    op: Op
    args: tuple[Formula, ...] = ()
    name: str = ""
    bounds: tuple[int, int] | None = None
    looks_ahead: bool = field(init=False, repr=False, compare=False, default=False)
    """Whether a future operator stands anywhere in it."""
    size: int = field(init=False, repr=False, compare=False, default=1)
    """The nodes of its tree."""
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # Kept, since passes ask it of every node, and the answer is otherwise a walk over the tree below.
        looks_ahead = self.op in FUTURE or any(arg.looks_ahead for arg in self.args)
        object.__setattr__(self, "looks_ahead", looks_ahead)
        object.__setattr__(self, "size", 1 + sum(arg.size for arg in self.args))
        object.__setattr__(self, "_hash", hash((self.op, self.args, self.name, self.bounds)))

    def __hash__(self) -> int:
        # Kept, since formulas are keys of most of the compiler's tables and a tree's hash is a walk over it.
        return self._hash

    def __str__(self) -> str:
        from .printer import to_text

        return to_text(self)


TRUE = Formula(Op.TRUE)
FALSE = Formula(Op.FALSE)


def prop(name: str) -> Formula:
    """The proposition (or transition bit) of that name."""
    return Formula(Op.PROP, name=name)


def walk(formula: Formula) -> Iterator[Formula]:
    """Every node, a parent before its children, left before right."""
    todo = [formula]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(node.args))


def names(formula: Formula) -> frozenset[str]:
    """The names of the propositions and transition bits that stand in it."""
    return frozenset(node.name for node in walk(formula) if node.op is Op.PROP)


def has_future(formula: Formula) -> bool:
    """Return whether a future operator stands anywhere in it."""
    return formula.looks_ahead


def has_past(formula: Formula) -> bool:
    """Return whether a past operator (`at_most` counts as one) stands anywhere in it."""
    return any(node.op in PAST for node in walk(formula))
