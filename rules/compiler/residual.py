"""Residuals: the rest of a rule after some events, in canonical form, and their progression.

A residual is a monotone Boolean function of *obligations*, the `X` and `N` nodes of the normal form: what
must (or, weakly, would have to) hold from the next event on. It is a reduced ordered decision diagram, so
that equal functions are one number: `F[0,15] q and F[0,14] q` becomes the latter by absorption. Node `f` with
variable `x` is `low or (x and high)`, where `low` implies `high`. The latest variable is at the root: the
residuals of `F[0,n] q`, each one step shorter than the one before, then share all but one node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..model.formula import Formula
from .limits import Work, exceeded
from .normal import TRUE as TRUE_NODE
from .normal import NodeKind, Nodes

FALSE = 0
TRUE = 1


class Residuals:
    """The residuals of one rule, hash-consed, over the obligations of one `Nodes` table."""

    def __init__(self, nodes: Nodes, work: Work) -> None:
        self.nodes = nodes
        self._rule = work.rule
        self._limits = work.limits
        self._work = work
        self._number: dict[tuple[int, int, int], int] = {}
        self.variable: list[int] = [-1, -1]
        self._depth: list[int] = [0, 0]
        self.low: list[int] = [FALSE, TRUE]
        self.high: list[int] = [FALSE, TRUE]
        self._and: dict[tuple[int, int], int] = {}
        self._or: dict[tuple[int, int], int] = {}
        self._dual: dict[int, int] = {FALSE: TRUE, TRUE: FALSE}
        self._conditions: dict[int, int] = {FALSE: FALSE, TRUE: TRUE}
        self._ends: dict[int, bool] = {FALSE: False, TRUE: True}

    def node(self, variable: int, low: int, high: int) -> int:
        """Return `low or (variable and high)`, for parts whose variables are all smaller."""
        if low == high:
            return low
        key = (variable, low, high)
        number = self._number.get(key)
        if number is None:
            number = len(self.variable)
            if number >= self._limits.nodes_max:
                raise exceeded(self._rule, "residual nodes", self._limits.nodes_max, "split the rule")
            self._number[key] = number
            self.variable.append(variable)
            self.low.append(low)
            self.high.append(high)
            self._depth.append(1 + max(self._depth[low], self._depth[high]))
            if self._depth[number] > self._limits.pending_max:
                hint = "use smaller bounds, or split the rule"
                raise exceeded(self._rule, "pending obligations", self._limits.pending_max, hint)
        return number

    def single(self, variable: int) -> int:
        """Return the function of just this variable: the residual with this obligation only."""
        return self.node(variable, FALSE, TRUE)

    def both(self, f: int, g: int) -> int:
        """Return the conjunction of two residuals."""
        if f in (g, FALSE) or g == TRUE:
            return f
        if f == TRUE or g == FALSE:
            return g
        key = (f, g) if f < g else (g, f)
        known = self._and.get(key)
        if known is None:
            x, f_low, f_high, g_low, g_high = self._split(f, g)
            known = self._and[key] = self.node(x, self.both(f_low, g_low), self.both(f_high, g_high))
        return known

    def either(self, f: int, g: int) -> int:
        """Return the disjunction of two residuals."""
        if f in (g, TRUE) or g == FALSE:
            return f
        if f == FALSE or g == TRUE:
            return g
        key = (f, g) if f < g else (g, f)
        known = self._or.get(key)
        if known is None:
            x, f_low, f_high, g_low, g_high = self._split(f, g)
            known = self._or[key] = self.node(x, self.either(f_low, g_low), self.either(f_high, g_high))
        return known

    def _split(self, f: int, g: int) -> tuple[int, int, int, int, int]:
        """Return the first variable of the two, and both cofactors of each for it."""
        self._work.spend(2)
        x = max(self.variable[f], self.variable[g])
        f_low, f_high = (self.low[f], self.high[f]) if self.variable[f] == x else (f, f)
        g_low, g_high = (self.low[g], self.high[g]) if self.variable[g] == x else (g, g)
        return x, f_low, f_high, g_low, g_high

    def dual(self, f: int) -> int:
        """Return `f` with `and` and `or` exchanged; its prime implicants are the prime implicates of `f`."""
        known = self._dual.get(f)
        if known is None:
            # the dual of  low or (x and high)  is  dual(high) or (x and dual(low))
            known = self.node(self.variable[f], self.dual(self.high[f]), self.dual(self.low[f]))
            self._dual[f] = known
            self._dual[known] = f
        return known

    def condition(self, f: int) -> int:
        """Return the condition on the next event, without the difference of strong and weak obligations.

        The result's variables are the nodes *under* the `X` and `N`; it is only compared and printed.
        """
        known = self._conditions.get(f)
        if known is None:
            inner = self.nodes.args[self.variable[f]][0]
            kind = self.nodes.kind[inner]
            part = {NodeKind.TRUE: TRUE, NodeKind.FALSE: FALSE}.get(kind)
            part = self.single(inner) if part is None else part
            known = self.either(self.condition(self.low[f]), self.both(part, self.condition(self.high[f])))
            self._conditions[f] = known
        return known

    def at_end(self, f: int) -> bool:
        """Return the finite-trace reading at the end: weak obligations hold, strong ones do not."""
        known = self._ends.get(f)
        if known is None:
            weak = self.nodes.kind[self.variable[f]] is NodeKind.N
            known = self.at_end(self.high[f]) if weak else self.at_end(self.low[f])
            self._ends[f] = known
        return known

    def primes(self, f: int) -> Iterator[frozenset[int]]:
        """Yield the prime implicants: the least sets of variables that make `f` true."""
        if f == TRUE:
            yield frozenset()
            return
        if f == FALSE:
            return
        self._work.spend(1)
        yield from self.primes(self.low[f])
        x, low = self.variable[f], self.low[f]
        for rest in self.primes(self.high[f]):
            self._work.spend(1 + self._depth[low] // 16)
            if not self.holds(low, rest):
                yield rest | {x}

    def holds(self, f: int, true: frozenset[int]) -> bool:
        """Return the value of `f` where exactly the variables in `true` are true."""
        while f > TRUE:
            f = self.high[f] if self.variable[f] in true else self.low[f]
        return f == TRUE


class Progression:
    """TRAC's Table 1 for one event: residuals to residuals, under fixed values of the leaves."""

    def __init__(self, residuals: Residuals, value: Callable[[Formula], bool]) -> None:
        self._residuals = residuals
        self._value = value
        self._of_node: dict[int, int] = {}
        self._of_residual: dict[int, int] = {FALSE: FALSE, TRUE: TRUE}

    def residual(self, f: int) -> int:
        """Return prg(f): each obligation of `f` replaced by the progression of its node."""
        known = self._of_residual.get(f)
        if known is None:
            r = self._residuals
            part = self.node(r.nodes.args[r.variable[f]][0])
            known = r.either(self.residual(r.low[f]), r.both(part, self.residual(r.high[f])))
            self._of_residual[f] = known
        return known

    def node(self, node: int) -> int:
        """Return the residual of a normal-form node after the event."""
        known = self._of_node.get(node)
        if known is None:
            known = self._of_node[node] = self._progress(node)
        return known

    def _progress(self, node: int) -> int:
        r, nodes = self._residuals, self._residuals.nodes
        args = nodes.args[node]
        kind = nodes.kind[node]
        match kind:
            case NodeKind.TRUE:
                return TRUE
            case NodeKind.FALSE:
                return FALSE
            case NodeKind.LEAF:
                leaf = nodes.leaf[node]
                assert leaf is not None
                return TRUE if self._value(leaf[0]) is leaf[1] else FALSE
            case NodeKind.AND:
                result = TRUE
                for arg in args:
                    result = r.both(result, self.node(arg))
                return result
            case NodeKind.OR:
                result = FALSE
                for arg in args:
                    result = r.either(result, self.node(arg))
                return result
            case NodeKind.X | NodeKind.N:
                return r.single(node)
            case NodeKind.U:  # p U q  =  q or (p and X (p U q))
                again = r.single(nodes.following(node, strong=True))
                return r.either(self.node(args[1]), r.both(self.node(args[0]), again))
            case NodeKind.R:  # p R q  =  q and (p or N (p R q))
                again = r.single(nodes.following(node, strong=False))
                return r.both(self.node(args[1]), r.either(self.node(args[0]), again))


def initial(residuals: Residuals, node: int) -> int:
    """Return the residual of an instance before its first event: the whole rule is an obligation."""
    nodes = residuals.nodes
    match nodes.kind[node]:
        case NodeKind.TRUE if node == TRUE_NODE:
            return residuals.single(nodes.following(node, strong=True))
        case NodeKind.FALSE:
            return FALSE
        case NodeKind.AND:
            result = TRUE
            for arg in nodes.args[node]:
                result = residuals.both(result, initial(residuals, arg))
            return result
        case NodeKind.OR:
            result = FALSE
            for arg in nodes.args[node]:
                result = residuals.either(result, initial(residuals, arg))
            return result
        case _:
            return residuals.single(nodes.following(node, strong=True))
