"""LTL3 completion: whether a residual can still be satisfied, decided with the history's own transitions.

The obligations of a residual are the states of a tableau (a generalised Büchi automaton with promises on
transitions, after Couvreur, 1999): a transition that keeps `p U q` for later *promises* it, and a run is
accepting when no `U` is promised for ever. History bits are no free propositions, so the search runs over
pairs of obligations and memory. One tableau serves every residual of the rule and every negation.
Infinite words only: strong and weak next are the same here.
"""

from __future__ import annotations

from collections.abc import Iterator

from .events import Events, Value
from .history import HistoryMemory
from .limits import Work, exceeded
from .normal import NodeKind, Nodes

Obligations = frozenset[int]
"""Normal-form nodes that must all hold from the next event on."""

TableauClause = tuple[Obligations, frozenset[int]]
"""One way to meet something now: what is left for the next event, and which `U` nodes are promised."""

TableauState = tuple[Obligations, HistoryMemory]
_MET: tuple[TableauClause, ...] = ((frozenset(), frozenset()),)


class Tableau:
    """Decides emptiness for places of one rule's tableau, remembering every answer."""

    def __init__(self, nodes: Nodes, events: Events, work: Work) -> None:
        self._nodes = nodes
        self._events = events
        self._work = work
        self._nonempty: dict[TableauState, bool] = {}
        self._memo: dict[tuple[int, Value], tuple[TableauClause, ...]] = {}
        self._visited = 0

    def satisfiable(self, obligations: Obligations, memory: HistoryMemory) -> bool:
        """Return whether some infinite continuation from that memory meets all the obligations."""
        place = (obligations, memory)
        if place not in self._nonempty:
            _CycleSearch(self, place).run()
        return self._nonempty[place]

    def successors(self, place: TableauState) -> Iterator[tuple[TableauState, frozenset[int]]]:
        """The next places with their promises: what asks nothing new first, the rest by what it asks.

        Lazily, since a search that succeeds mostly does with the first.
        """
        self._visited += 1
        limit = self._work.limits.tableau_max
        if self._visited > limit:
            raise exceeded(self._work.rule, "tableau states", limit, "split the rule")
        obligations, memory = place
        later: dict[tuple[TableauState, frozenset[int]], None] = {}
        for after, value in self._events(memory):
            ways = self._all(obligations, value)
            self._work.spend(1 + len(obligations) + len(ways))
            for rest, promised in ways:
                if not promised and rest <= obligations:
                    yield (rest, after), promised
                else:
                    later[(rest, after), promised] = None
        yield from sorted(later, key=lambda edge: (len(edge[1]), len(edge[0][0])))

    def known(self, place: TableauState) -> bool | None:
        """The answer for a place, if it was found before."""
        return self._nonempty.get(place)

    def learn(self, place: TableauState, nonempty: bool) -> None:
        """Remember an answer."""
        self._nonempty[place] = nonempty

    def _all(self, obligations: Obligations, value: Value) -> tuple[TableauClause, ...]:
        clauses = _MET
        for node in obligations:
            clauses = self._product(clauses, self._ways(node, value))
            if not clauses:
                break
        return clauses

    def _ways(self, node: int, value: Value) -> tuple[TableauClause, ...]:
        known = self._memo.get((node, value))
        if known is None:
            known = self._memo[node, value] = self._find_ways(node, value)
        return known

    def _find_ways(self, node: int, value: Value) -> tuple[TableauClause, ...]:
        self._work.spend(2)
        nodes = self._nodes
        args = nodes.args[node]
        match nodes.kind[node]:
            case NodeKind.TRUE:
                return _MET
            case NodeKind.FALSE:
                return ()
            case NodeKind.LEAF:
                leaf = nodes.leaf[node]
                assert leaf is not None
                return _MET if value(leaf[0]) is leaf[1] else ()
            case NodeKind.AND:
                return self._all(frozenset(args), value)
            case NodeKind.OR:
                return self._least([clause for arg in args for clause in self._ways(arg, value)])
            case NodeKind.X | NodeKind.N:
                return ((frozenset(args), frozenset()),)
            case NodeKind.U:
                own = (frozenset({node}), frozenset({node}))
                wait = self._product(self._ways(args[0], value), (own,))
                return self._least([*self._ways(args[1], value), *wait])
            case NodeKind.R:
                own = (frozenset({node}), frozenset[int]())
                wait = self._least([*self._ways(args[0], value), own])
                return self._product(self._ways(args[1], value), wait)

    def _product(
        self, left: tuple[TableauClause, ...], right: tuple[TableauClause, ...]
    ) -> tuple[TableauClause, ...]:
        if left is _MET:
            return right
        if right is _MET:
            return left
        self._work.spend(len(left) * len(right))
        return self._least([(a | c, b | d) for a, b in left for c, d in right])

    def _least(self, clauses: list[TableauClause]) -> tuple[TableauClause, ...]:
        """Return the clauses without those that ask and promise at least what another does."""
        self._work.spend(1 + len(clauses))
        ordered = sorted(set(clauses), key=lambda clause: len(clause[0]) + len(clause[1]))
        kept: list[TableauClause] = []
        for rest, promised in ordered:
            self._work.spend(len(kept) // 4)
            if not any(a <= rest and b <= promised for a, b in kept):
                kept.append((rest, promised))
        return tuple(kept)


class _CycleSearch:
    """One depth-first search for an accepting cycle, strongly connected components merged on the way.

    Couvreur's algorithm: `roots` holds, for each component on the current path, its first place and the
    `U` nodes that are promised on *every* edge inside it so far. A component with an edge and no such node
    is accepting, and everything on the path can reach it.
    """

    def __init__(self, tableau: Tableau, start: TableauState) -> None:
        self._tableau = tableau
        self._start = start
        self._order: dict[TableauState, int] = {}
        self._open: list[TableauState] = []
        self._roots: list[tuple[int, frozenset[int], frozenset[int] | None]] = []
        """(number of the first place, promises on the edge into it, promises on all its inner edges or None
        where it has no inner edge yet)."""

    def run(self) -> None:
        path = [(self._start, self._enter(self._start, frozenset()))]
        while path:
            place, edges = path[-1]
            edge = next(edges, None)
            if edge is None:
                path.pop()
                self._leave(place)
                continue
            target, promised = edge
            known = self._tableau.known(target)
            if known is False:
                continue
            if known or self._closes_accepting(target, promised):
                for other in self._open:
                    self._tableau.learn(other, nonempty=True)
                return
            if target not in self._order:
                path.append((target, self._enter(target, promised)))

    def _enter(
        self, place: TableauState, promised: frozenset[int]
    ) -> Iterator[tuple[TableauState, frozenset[int]]]:
        self._order[place] = len(self._order)
        self._open.append(place)
        self._roots.append((self._order[place], promised, None))
        return self._tableau.successors(place)

    def _closes_accepting(self, target: TableauState, promised: frozenset[int]) -> bool:
        """Merge the components on the path from an open target to here; whether the result accepts."""
        number = self._order.get(target)
        if number is None:
            return False
        common = promised
        while True:
            first, into, inside = self._roots.pop()
            if inside is not None:
                common &= inside
            if first <= number:
                break
            common &= into
        self._roots.append((first, into, common))
        return not common

    def _leave(self, place: TableauState) -> None:
        number = self._order[place]
        if self._roots[-1][0] != number:
            return
        self._roots.pop()
        while True:
            other = self._open.pop()
            self._tableau.learn(other, nonempty=False)
            if other == place:
                return
