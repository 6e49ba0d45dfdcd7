"""LTL3 completion: a decision whether a residual is satisfiable after a history.

The obligations of a residual are the states of a tableau (a generalised Büchi automaton with promises on
transitions, after Couvreur, 1999): a transition that postpones `p U q` *promises* it, and a run is accepting
where no `U` is promised for ever. History bits are not free propositions, so the search runs over pairs of
obligations and memory. One tableau serves every residual of the rule and every negation. It decides infinite
words only, on which strong and weak next are the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from .events import Events, ValueOf
from .history import HistoryMemory
from .limits import Work, exceeded
from .normal import NodeKind, Nodes

Obligations = frozenset[int]
"""Normal-form nodes that must all hold from the next event on."""

TableauClause = tuple[Obligations, frozenset[int]]
"""One way to satisfy obligations now: those left for the next event, and the `U` nodes that it promises."""

TableauState = tuple[Obligations, HistoryMemory]
_FULFILLED: tuple[TableauClause, ...] = ((frozenset(), frozenset()),)


class Tableau:
    """The tableau of one rule, with a cache of which of its states have an accepting run."""

    def __init__(self, nodes: Nodes, events: Events, work: Work) -> None:
        self._nodes = nodes
        self._events = events
        self._work = work
        self._nonempty: dict[TableauState, bool] = {}
        self._ways_of: dict[tuple[int, ValueOf], tuple[TableauClause, ...]] = {}
        self._visited = 0

    def satisfiable(self, obligations: Obligations, memory: HistoryMemory) -> bool:
        """Return whether an infinite continuation from that memory satisfies all the obligations."""
        state = (obligations, memory)
        if state not in self._nonempty:
            _CycleSearch(self, state).run()
        return self._nonempty[state]

    def successors(self, state: TableauState) -> Iterator[tuple[TableauState, frozenset[int]]]:
        """Yield the successor states with their promises: first those without new obligations or promises.

        The others follow by the number of promises and obligations. The iterator is lazy, since most
        successful searches need only the first successor.
        """
        self._visited += 1
        limit = self._work.limits.tableau_max
        if self._visited > limit:
            raise exceeded(self._work.rule, "tableau states", limit, "split the rule")
        obligations, memory = state
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

    def known(self, state: TableauState) -> bool | None:
        """Return the decision about a state, None where there is none yet."""
        return self._nonempty.get(state)

    def learn(self, state: TableauState, nonempty: bool) -> None:
        """Cache the decision about a state."""
        self._nonempty[state] = nonempty

    def _all(self, obligations: Obligations, value: ValueOf) -> tuple[TableauClause, ...]:
        clauses = _FULFILLED
        for node in obligations:
            clauses = self._product(clauses, self._ways(node, value))
            if not clauses:
                break
        return clauses

    def _ways(self, node: int, value: ValueOf) -> tuple[TableauClause, ...]:
        known = self._ways_of.get((node, value))
        if known is None:
            known = self._ways_of[node, value] = self._find_ways(node, value)
        return known

    def _find_ways(self, node: int, value: ValueOf) -> tuple[TableauClause, ...]:
        self._work.spend(2)
        nodes = self._nodes
        args = nodes.args[node]
        kind = nodes.kind[node]
        match kind:
            case NodeKind.TRUE:
                return _FULFILLED
            case NodeKind.FALSE:
                return ()
            case NodeKind.LEAF:
                leaf = nodes.leaf[node]
                assert leaf is not None
                return _FULFILLED if value(leaf[0]) is leaf[1] else ()
            case NodeKind.AND:
                return self._all(frozenset(args), value)
            case NodeKind.OR:
                return self._least([clause for arg in args for clause in self._ways(arg, value)])
            case NodeKind.X | NodeKind.N:
                return ((frozenset(args), frozenset()),)
            case NodeKind.U:
                postponed = (frozenset({node}), frozenset({node}))
                wait = self._product(self._ways(args[0], value), (postponed,))
                return self._least([*self._ways(args[1], value), *wait])
            case NodeKind.R:
                postponed = (frozenset({node}), frozenset[int]())
                wait = self._least([*self._ways(args[0], value), postponed])
                return self._product(self._ways(args[1], value), wait)

    def _product(
        self, left: tuple[TableauClause, ...], right: tuple[TableauClause, ...]
    ) -> tuple[TableauClause, ...]:
        if left is _FULFILLED:
            return right
        if right is _FULFILLED:
            return left
        self._work.spend(len(left) * len(right))
        return self._least([(a | c, b | d) for a, b in left for c, d in right])

    def _least(self, clauses: list[TableauClause]) -> tuple[TableauClause, ...]:
        """Return the clauses without those that leave and promise at least what another clause does."""
        self._work.spend(1 + len(clauses))
        ordered = sorted(set(clauses), key=lambda clause: len(clause[0]) + len(clause[1]))
        least: list[TableauClause] = []
        for rest, promised in ordered:
            self._work.spend(len(least) // 4)
            if not any(a <= rest and b <= promised for a, b in least):
                least.append((rest, promised))
        return tuple(least)


class _CycleSearch:
    """A depth-first search for an accepting cycle that merges strongly connected components.

    It is Couvreur's algorithm: `roots` holds, for each component on the current path, its first state and the
    `U` nodes that are promised on *every* edge inside it so far. A component with an edge and no such node
    is accepting, and every state on the path can reach it.
    """

    def __init__(self, tableau: Tableau, start: TableauState) -> None:
        self._tableau = tableau
        self._start = start
        self._order: dict[TableauState, int] = {}
        self._open: list[TableauState] = []
        self._roots: list[tuple[int, frozenset[int], frozenset[int] | None]] = []
        """The number of the first state, the promises on the edge to it, and those on all inner edges.

        The last item is None where the component has no inner edge yet.
        """

    def run(self) -> None:
        path = [(self._start, self._enter(self._start, frozenset()))]
        while path:
            state, edges = path[-1]
            edge = next(edges, None)
            if edge is None:
                path.pop()
                self._leave(state)
                continue
            target, promised = edge
            known = self._tableau.known(target)
            if known is False:
                continue
            if known or self._closes_accepting(target, promised):
                for reaching in self._open:
                    self._tableau.learn(reaching, nonempty=True)
                return
            if target not in self._order:
                path.append((target, self._enter(target, promised)))

    def _enter(
        self, state: TableauState, promised: frozenset[int]
    ) -> Iterator[tuple[TableauState, frozenset[int]]]:
        self._order[state] = len(self._order)
        self._open.append(state)
        self._roots.append((self._order[state], promised, None))
        return self._tableau.successors(state)

    def _closes_accepting(self, target: TableauState, promised: frozenset[int]) -> bool:
        """Merge the components on the path from an open target; return whether the result accepts."""
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

    def _leave(self, state: TableauState) -> None:
        number = self._order[state]
        if self._roots[-1][0] != number:
            return
        self._roots.pop()
        while True:
            popped = self._open.pop()
            self._tableau.learn(popped, nonempty=False)
            if popped == state:
                return
