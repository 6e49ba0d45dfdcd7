"""Residuals as text: the shortest of several spellings, then the first in the alphabet.

Spellings come from the subformulas of the rule as written, from folding `q or next q` into
`eventually[0,1] q`, and from implications. Past parts are as written.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from ..model.formula import FALSE as FALSE_FORMULA
from ..model.formula import TRUE as TRUE_FORMULA
from ..model.formula import Formula, Op
from ..model.printer import to_text
from .limits import Work
from .normal import FALSE as FALSE_NODE
from .normal import TRUE as TRUE_NODE
from .normal import NodeKind, Nodes
from .residual import FALSE, TRUE, Residuals

CLAUSES_MAX = 64
"""Clauses of a normal form that is written out; above it, only the normal form with fewer clauses is."""


def _length_and_text(formula: Formula) -> tuple[int, str]:
    text = to_text(formula)
    return len(text), text


def _negated(formula: Formula) -> Formula:
    return formula.args[0] if formula.op is Op.NOT else Formula(Op.NOT, (formula,))


def _cost(formula: Formula) -> int:
    """Return the steps of work to write a formula."""
    return 1 + formula.size // 4


class Wording:
    """The texts of one rule's residuals."""

    def __init__(self, residuals: Residuals, rule: Formula, start: int, work: Work) -> None:
        self._work = work
        self._residuals = residuals
        self._nodes: Nodes = residuals.nodes
        self._rule = rule
        self._start = residuals.condition(start)
        self._of_node: dict[int, Formula] = {TRUE_NODE: TRUE_FORMULA, FALSE_NODE: FALSE_FORMULA}
        self._written: dict[int, list[Formula]] = {}
        for (formula, sign), node in self._nodes.of_formula.items():
            self._written.setdefault(node, []).append(formula if sign else _negated(formula))

    def text(self, condition: int) -> str:
        """Return the text of a condition on the next event (`Residuals.condition`)."""
        formula = self._function(condition)
        self._work.spend(_cost(formula))
        return to_text(formula)

    def _function(self, f: int) -> Formula:
        if f in (TRUE, FALSE):
            return TRUE_FORMULA if f == TRUE else FALSE_FORMULA
        candidates = [self._rule] if f == self._start else []
        return self._shortest([*candidates, self._factored(f)])

    def _factored(self, f: int) -> Formula:
        """Return the function, with the variables factored out that all models need or that suffice alone."""
        r = self._residuals
        support = self._support(f)
        self._work.spend(1 + len(support) * len(support) // 4)
        # f is monotone: without x it is false everywhere when it is false with all the others true.
        needed = [x for x in support if not r.holds(f, support - {x})]
        enough = [x for x in support if r.holds(f, frozenset({x}))]
        if needed:
            rest = self._restricted(f, frozenset(needed), value=True)
            return self._join(Op.AND, needed, [] if rest == TRUE else [self._function(rest)])
        if enough:
            rest = self._restricted(f, frozenset(enough), value=False)
            return self._join(Op.OR, enough, [] if rest == FALSE else [self._function(rest)])
        implicants = list(islice(r.primes(f), CLAUSES_MAX + 1))
        implicates = list(islice(r.primes(r.dual(f)), CLAUSES_MAX + 1))
        fewer, more = sorted((len(implicants), len(implicates)))
        clauses_max = more if more <= CLAUSES_MAX else fewer
        spellings: list[Formula] = []
        if len(implicants) <= clauses_max:
            spellings.append(self._joined(Op.OR, [self._join(Op.AND, sorted(c), []) for c in implicants]))
        if len(implicates) <= clauses_max:
            spellings.append(self._joined(Op.AND, [self._join(Op.OR, sorted(c), []) for c in implicates]))
        return self._shortest(spellings)

    def _support(self, f: int) -> frozenset[int]:
        found: set[int] = set()
        seen: set[int] = set()
        todo = [f]
        while todo:
            g = todo.pop()
            if g > TRUE and g not in seen:
                seen.add(g)
                found.add(self._residuals.variable[g])
                todo += [self._residuals.low[g], self._residuals.high[g]]
        return frozenset(found)

    def _restricted(self, f: int, fixed: frozenset[int], *, value: bool) -> int:
        """Return the function with these variables fixed to `value`."""
        r = self._residuals
        known: dict[int, int] = {TRUE: TRUE, FALSE: FALSE}

        def of(g: int) -> int:
            if g not in known:
                if r.variable[g] in fixed:
                    known[g] = of(r.high[g] if value else r.low[g])
                else:
                    known[g] = r.node(r.variable[g], of(r.low[g]), of(r.high[g]))
            return known[g]

        return of(f)

    def _join(self, op: Op, nodes: Iterable[int], more: list[Formula]) -> Formula:
        """Return `and` or `or` of nodes and formulas, with runs of delayed copies folded into step bounds."""
        members = set(nodes)
        # p R q implies q, and q implies p U q: next to them, q is redundant.
        wide = NodeKind.R if op is Op.AND else NodeKind.U
        members -= {self._nodes.args[node][1] for node in members if self._nodes.kind[node] is wide}
        plain, folded = self._folded(op, sorted(members))
        parts = [*(self._node(node) for node in plain), *folded, *more]
        if op is Op.AND:
            return self._joined(Op.AND, parts)
        candidates = [self._joined(Op.OR, parts)]
        negative = [part for part in parts if part.op is Op.NOT]
        rest = [part for part in parts if part.op is not Op.NOT]
        if negative and rest:
            # not p or q  =  p -> q
            antecedent = self._joined(Op.AND, [part.args[0] for part in negative])
            candidates.append(Formula(Op.IMPLIES, (antecedent, self._joined(Op.OR, rest))))
        return self._shortest(candidates)

    def _shortest(self, candidates: Iterable[Formula]) -> Formula:
        found = list(candidates)
        self._work.spend(sum(map(_cost, found)))
        return min(found, key=_length_and_text)

    def _joined(self, op: Op, parts: Iterable[Formula]) -> Formula:
        """Return `and` or `or` of one or more parts, in alphabetical order."""
        found = set(parts)
        self._work.spend(sum(map(_cost, found)))
        ordered = sorted(found, key=to_text)
        result = ordered[0]
        for part in ordered[1:]:
            result = Formula(op, (result, part))
        return result

    def _folded(self, op: Op, members: list[int]) -> tuple[list[int], list[Formula]]:
        """Return the members outside runs of delays, and `F[a,b]` (`or`) or `G[a,b]` (`and`) for each run."""
        kind = NodeKind.X if op is Op.OR else NodeKind.N
        runs: dict[int, dict[int, int]] = {}
        for node in members:
            base, delay = node, 0
            while self._nodes.kind[base] is kind:
                base, delay = self._nodes.args[base][0], delay + 1
            runs.setdefault(base, {})[delay] = node
        plain: list[int] = []
        folded: list[Formula] = []
        for base, delays in runs.items():
            low, high = min(delays), max(delays)
            if len(delays) > 1 and high - low + 1 == len(delays):
                outer = Op.EVENTUALLY if op is Op.OR else Op.ALWAYS
                folded.append(Formula(outer, (self._node(base),), bounds=(low, high)))
            else:
                plain += delays.values()
        return plain, folded

    def _node(self, node: int) -> Formula:
        known = self._of_node.get(node)
        if known is None:
            known = self._shortest([*self._written.get(node, ()), *self._spelled(node)])
            self._of_node[node] = known
        return known

    def _spelled(self, node: int) -> list[Formula]:
        args = self._nodes.args[node]
        match self._nodes.kind[node]:
            case NodeKind.LEAF:
                leaf = self._nodes.leaf[node]
                assert leaf is not None
                return [leaf[0] if leaf[1] else _negated(leaf[0])]
            case NodeKind.AND:
                return [self._join(Op.AND, args, [])]
            case NodeKind.OR:
                return [self._join(Op.OR, args, [])]
            case NodeKind.X | NodeKind.N as kind:
                return self._delayed(node, kind)
            case NodeKind.U:
                return self._until(args[0], args[1])
            case NodeKind.R:
                return self._release(args[0], args[1])
            case _:
                return []

    def _delayed(self, node: int, kind: NodeKind) -> list[Formula]:
        op = Op.NEXT if kind is NodeKind.X else Op.WEAK_NEXT
        steps, base = 0, node
        while self._nodes.kind[base] is kind:
            base, steps = self._nodes.args[base][0], steps + 1
        inner = self._node(base)
        plain = inner
        for _ in range(steps):
            plain = Formula(op, (plain,))
        return [plain, Formula(op, (inner,), bounds=(steps, steps))]

    def _until(self, left: int, right: int) -> list[Formula]:
        if left == TRUE_NODE:
            return [Formula(Op.EVENTUALLY, (self._node(right),))]
        spellings = [Formula(Op.UNTIL, (self._node(left), self._node(right)))]
        member = self._other_member(NodeKind.AND, right, left)
        if member is not None:  # q U (p and q)  =  p M q
            spellings.append(Formula(Op.STRONG_RELEASE, (member, self._node(left))))
        return spellings

    def _release(self, left: int, right: int) -> list[Formula]:
        if left == FALSE_NODE:
            return [Formula(Op.ALWAYS, (self._node(right),))]
        spellings = [Formula(Op.RELEASE, (self._node(left), self._node(right)))]
        member = self._other_member(NodeKind.OR, right, left)
        if member is not None:  # q R (p or q)  =  p W q
            spellings.append(Formula(Op.WEAK_UNTIL, (member, self._node(left))))
        return spellings

    def _other_member(self, kind: NodeKind, joined: int, member: int) -> Formula | None:
        if self._nodes.kind[joined] is not kind or member not in self._nodes.args[joined]:
            return None
        rest = [arg for arg in self._nodes.args[joined] if arg != member]
        return self._join(Op.AND if kind is NodeKind.AND else Op.OR, rest, [])
