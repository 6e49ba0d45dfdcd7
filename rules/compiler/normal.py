"""Negation normal form over four temporal nodes, hash-consed, `next` pushed to the leaves.

Nodes are small integers of one `Nodes` table. A leaf is a maximal future-free subformula: the event and the
history decide its value, so nothing inside it is ever postponed. `X` and `N` are the strong and the weak
next, which differ only at the end of a finite trace; `U` is until and `R` release. Every rewrite preserves
the meaning on infinite words *and* on non-empty finite ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ..model.formula import Formula, Op, has_future
from .limits import Work, exceeded


class NodeKind(Enum):
    """The kind of a node of the normal form."""

    TRUE = "true"
    FALSE = "false"
    LEAF = "leaf"
    AND = "and"
    OR = "or"
    X = "next"
    N = "weak_next"
    U = "until"
    R = "release"


NodeKey = tuple[NodeKind, tuple[int, ...], Formula | None, bool]
TRUE = 0
FALSE = 1

_DUAL = {
    NodeKind.TRUE: NodeKind.FALSE,
    NodeKind.FALSE: NodeKind.TRUE,
    NodeKind.AND: NodeKind.OR,
    NodeKind.OR: NodeKind.AND,
    NodeKind.X: NodeKind.N,
    NodeKind.N: NodeKind.X,
    NodeKind.U: NodeKind.R,
    NodeKind.R: NodeKind.U,
}


class Nodes:
    """The hash-consed nodes of one rule: equal nodes have equal numbers."""

    def __init__(self, work: Work) -> None:
        self._rule = work.rule
        self._limits = work.limits
        self._work = work
        self._number: dict[NodeKey, int] = {}
        self.kind: list[NodeKind] = []
        self.args: list[tuple[int, ...]] = []
        self.leaf: list[tuple[Formula, bool] | None] = []
        self._delay: list[int] = []
        self._negation: dict[int, int] = {}
        self.of_formula: dict[tuple[Formula, bool], int] = {}
        """The node of each formula (and sign) in normal form."""
        self._make(NodeKind.TRUE)
        self._make(NodeKind.FALSE)

    def _make(
        self, kind: NodeKind, args: tuple[int, ...] = (), leaf: Formula | None = None, sign: bool = True
    ) -> int:
        key = (kind, args, leaf, sign)
        number = self._number.get(key)
        if number is None:
            number = len(self.kind)
            if number >= self._limits.nodes_max:
                hint = "use smaller bounds, or split the rule"
                raise exceeded(self._rule, "formula nodes", self._limits.nodes_max, hint)
            self._number[key] = number
            self.kind.append(kind)
            self.args.append(args)
            self.leaf.append(None if leaf is None else (leaf, sign))
            self._delay.append(self._delay[args[0]] + 1 if kind in (NodeKind.X, NodeKind.N) else 0)
            # A start obligation adds a step: `initial` asks the whole rule of the next event.
            if self._delay[number] > self._limits.delay_max + 1:
                hint = "an exact or very late step is seldom what is meant; use smaller bounds"
                raise exceeded(self._rule, "steps of delay", self._limits.delay_max, hint)
        return number

    @property
    def leaves(self) -> tuple[Formula, ...]:
        """Return the distinct formulas of leaves."""
        return tuple({leaf[0]: None for leaf in self.leaf if leaf is not None})

    def literal(self, formula: Formula, sign: bool) -> int:
        """Return the node of a future-free formula, or of its negation."""
        if formula.op in (Op.TRUE, Op.FALSE):
            return TRUE if (formula.op is Op.TRUE) is sign else FALSE
        return self._make(NodeKind.LEAF, leaf=formula, sign=sign)

    def all_of(self, args: Iterable[int]) -> int:
        """Return the node of the conjunction."""
        return self._join(NodeKind.AND, FALSE, TRUE, args)

    def any_of(self, args: Iterable[int]) -> int:
        """Return the node of the disjunction."""
        return self._join(NodeKind.OR, TRUE, FALSE, args)

    def _join(self, kind: NodeKind, zero: int, unit: int, args: Iterable[int]) -> int:
        flat: set[int] = set()
        for arg in args:
            if arg == zero:
                return zero
            if self.kind[arg] is kind:
                flat.update(self.args[arg])
            elif arg != unit:
                flat.add(arg)
        self._work.spend(1 + len(flat))
        if not flat:
            return unit
        return flat.pop() if len(flat) == 1 else self._make(kind, tuple(sorted(flat)))

    def following(self, node: int, strong: bool) -> int:
        """Return `next` (or `weak_next`) of a node, pushed through `and` and `or` to the leaves."""
        if node == (FALSE if strong else TRUE):
            return node
        match self.kind[node]:
            case NodeKind.AND:
                return self.all_of(self.following(arg, strong) for arg in self.args[node])
            case NodeKind.OR:
                return self.any_of(self.following(arg, strong) for arg in self.args[node])
            case _:
                return self._make(NodeKind.X if strong else NodeKind.N, (node,))

    def until(self, left: int, right: int) -> int:
        """Return the node of `left until right`."""
        if right in (TRUE, FALSE) or left == FALSE:
            return right
        if self.kind[right] is NodeKind.U and self.args[right][0] == left:
            return right  # p U (p U q)  =  p U q
        return self._make(NodeKind.U, (left, right))

    def release(self, left: int, right: int) -> int:
        """Return the node of `left release right`."""
        if right in (TRUE, FALSE) or left == TRUE:
            return right
        if self.kind[right] is NodeKind.R and self.args[right][0] == left:
            return right  # p R (p R q)  =  p R q
        return self._make(NodeKind.R, (left, right))

    def negation(self, node: int) -> int:
        """Return the node of the negation, by the dualities."""
        known = self._negation.get(node)
        if known is not None:
            return known
        kind = self.kind[node]
        if kind is NodeKind.LEAF:
            leaf = self.leaf[node]
            assert leaf is not None
            negated = self.literal(leaf[0], not leaf[1])
        else:
            args = [self.negation(arg) for arg in self.args[node]]
            negated = self._rebuild(_DUAL[kind], args)
        self._negation[node] = negated
        self._negation[negated] = node
        return negated

    def _rebuild(self, kind: NodeKind, args: list[int]) -> int:
        match kind:
            case NodeKind.TRUE:
                return TRUE
            case NodeKind.FALSE:
                return FALSE
            case NodeKind.AND:
                return self.all_of(args)
            case NodeKind.OR:
                return self.any_of(args)
            case NodeKind.X | NodeKind.N:
                return self.following(args[0], strong=kind is NodeKind.X)
            case NodeKind.U:
                return self.until(args[0], args[1])
            case NodeKind.R:
                return self.release(args[0], args[1])
            case NodeKind.LEAF:
                raise AssertionError(kind)


def normal_form(formula: Formula, nodes: Nodes, sign: bool = True) -> int:
    """Return the node of a formula, or of its negation where `sign` is false."""
    known = nodes.of_formula.get((formula, sign))
    if known is None:
        known = _form(formula, nodes, sign) if has_future(formula) else nodes.literal(formula, sign)
        nodes.of_formula[formula, sign] = known
    return known


def _form(formula: Formula, nodes: Nodes, sign: bool) -> int:
    def of(arg: Formula, same: bool = True) -> int:
        return normal_form(arg, nodes, sign if same else not sign)

    args = formula.args
    match formula.op:
        case Op.NOT:
            return of(args[0], same=False)
        case Op.AND:
            join = nodes.all_of if sign else nodes.any_of
            return join((of(args[0]), of(args[1])))
        case Op.OR:
            join = nodes.any_of if sign else nodes.all_of
            return join((of(args[0]), of(args[1])))
        case Op.IMPLIES:
            join = nodes.any_of if sign else nodes.all_of
            return join((of(args[0], same=False), of(args[1])))
        case Op.IFF:
            both = nodes.all_of((of(args[0]), normal_form(args[1], nodes)))
            neither = nodes.all_of((of(args[0], same=False), normal_form(args[1], nodes, sign=False)))
            return nodes.any_of((both, neither))
        case _:
            return _temporal(formula, nodes, sign)


def _temporal(formula: Formula, nodes: Nodes, sign: bool) -> int:
    args = [normal_form(arg, nodes, sign) for arg in formula.args]
    op = formula.op
    match op:
        case Op.NEXT | Op.WEAK_NEXT:
            steps = 1 if formula.bounds is None else formula.bounds[0]
            return _delayed(args[0], steps, (op is Op.NEXT) is sign, nodes)
        case Op.EVENTUALLY | Op.ALWAYS:
            eventually = (op is Op.EVENTUALLY) is sign
            if formula.bounds is not None:
                return _within(args[0], formula.bounds, eventually, nodes)
            return nodes.until(TRUE, args[0]) if eventually else nodes.release(FALSE, args[0])
        case _:
            return _binary(op, args[0], args[1], sign, nodes)


def _binary(op: Op, left: int, right: int, sign: bool, nodes: Nodes) -> int:
    """Return the node of a binary operator; where `sign` is false, its arguments are negated already."""
    if not sign:
        op = _DUAL_OP[op]  # not (p U q)  =  (not p) R (not q);  not (p W q)  =  (not p) M (not q)
    match op:
        case Op.UNTIL:
            return nodes.until(left, right)
        case Op.RELEASE:
            return nodes.release(left, right)
        case Op.WEAK_UNTIL:  # p W q  =  q R (p or q)
            return nodes.release(right, nodes.any_of((left, right)))
        case Op.STRONG_RELEASE:  # p M q  =  q U (p and q)
            return nodes.until(right, nodes.all_of((left, right)))
        case _:
            raise AssertionError(op)


_DUAL_OP = {
    Op.UNTIL: Op.RELEASE,
    Op.RELEASE: Op.UNTIL,
    Op.WEAK_UNTIL: Op.STRONG_RELEASE,
    Op.STRONG_RELEASE: Op.WEAK_UNTIL,
}


def _delayed(node: int, steps: int, strong: bool, nodes: Nodes) -> int:
    for _ in range(steps):
        node = nodes.following(node, strong)
    return node


def _within(node: int, bounds: tuple[int, int], eventually: bool, nodes: Nodes) -> int:
    """Return `F[a,b]` as nested `next`, or `G[a,b]` as nested `weak_next`, one part for each distance."""
    low, high = bounds
    node = _delayed(node, low, eventually, nodes)
    parts = [node]
    for _ in range(high - low):
        node = nodes.following(node, eventually)
        parts.append(node)
    return nodes.any_of(parts) if eventually else nodes.all_of(parts)
