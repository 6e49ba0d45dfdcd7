"""The reference's LTL3: progression of a rule and of its negation, completed by a search for a continuation.

Like `rules/reference/semantics.py`, no product module imports it. It is short, slow, and follows the
definitions (TRAC, Table 1; Bauer, Leucker and Schallhart, 2006; Emerson and Lei, 1986).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import NamedTuple

from ...schemas.verdict import Verdict
from ..model.formula import BOOLEAN, PAST, Formula, Op, has_future, names, walk

Label = Collection[str]
Transitions = Mapping[str, Formula]
NO_TRANSITIONS: Transitions = {}
TruthOf = Callable[[Formula], bool]


def steps(f: Formula) -> int:
    """Return the n of `X[n]`, `N[n]`, `Y[n]`, `Z[n]`, and the b of bounds `[a,b]`."""
    return f.bounds[1] if f.bounds else 1


def boolean(f: Formula, true: TruthOf) -> bool:
    """Return a Boolean operator's value from those of its operands."""
    match f.op, f.args:
        case Op.TRUE, _:
            return True
        case Op.FALSE, _:
            return False
        case Op.NOT, (p,):
            return not true(p)
        case Op.AND, args:
            return all(true(p) for p in args)
        case Op.OR, args:
            return any(true(p) for p in args)
        case Op.IMPLIES, (p, q):
            return not true(p) or true(q)
        case Op.IFF, (p, q):
            return true(p) == true(q)
        case _:
            raise AssertionError(f)


# --- History: the memory of past operators ----------------------------------------------------------

PastMemory = tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True)
class PastSummary:
    """The summary of a session's past (its now and pre bits) that a formula's past operators read.

    `parts` are the subformulas without future operators. A memory holds for each part as many of its latest
    values as an operator looks back, newest first, and None before the session's start. The value of
    `at_most[k] p` is the number of p so far, up to k + 1; that of other parts is their truth.
    """

    parts: tuple[Formula, ...]
    depth: tuple[int, ...]
    transitions: Transitions
    alphabet: tuple[frozenset[str], ...]

    @staticmethod
    def of(formula: Formula, transitions: Transitions) -> PastSummary:
        """Return the summary that this formula and the transition bits read."""
        nodes = dict.fromkeys(chain.from_iterable(map(walk, (formula, *transitions.values()))))
        parts = tuple(f for f in nodes if not has_future(f))
        depth = dict.fromkeys(parts, 0)
        for f in parts:
            looks_at_operand = f.op in (Op.PREVIOUS, Op.WEAK_PREVIOUS) or f.bounds is not None
            if f.op in PAST and looks_at_operand and f.op is not Op.AT_MOST:
                depth[f.args[0]] = max(depth[f.args[0]], steps(f))
            elif f.op in PAST:  # its own value one event ago
                depth[f] = max(depth[f], 1)
        used = frozenset[str]().union(*map(names, nodes)) - set(transitions)
        return PastSummary(parts, tuple(depth[f] for f in parts), transitions, tuple(subsets(used)))

    @property
    def start(self) -> PastMemory:
        """Return the memory before the first event."""
        return tuple((None,) * depth for depth in self.depth)

    def now(self, memory: PastMemory, label: Label) -> TruthOf:
        """Return the truth of the parts at the next event, which has that label."""
        value = self._values(memory, label)
        return lambda f: _is_true(f, value(f))

    def after(self, memory: PastMemory, label: Label) -> PastMemory:
        """Return the memory after an event with that label."""
        value = self._values(memory, label)
        return tuple(
            (value(f), *old)[:depth] if depth else ()
            for f, old, depth in zip(self.parts, memory, self.depth, strict=True)
        )

    def reachable(self) -> set[PastMemory]:
        """Return the memories after all sessions, including the empty one."""
        found, todo = {self.start}, [self.start]
        while todo:
            memory = todo.pop()
            fresh = {self.after(memory, label) for label in self.alphabet} - found
            found |= fresh
            todo.extend(fresh)
        return found

    def _values(self, memory: PastMemory, label: Label) -> Callable[[Formula], int]:
        known: dict[Formula, int] = {}

        def value(f: Formula) -> int:
            if f not in known:
                known[f] = self._decide(f, memory, label, value)
            return known[f]

        return value

    def _decide(self, f: Formula, memory: PastMemory, label: Label, value: Callable[[Formula], int]) -> int:
        def true(p: Formula) -> bool:
            return _is_true(p, value(p))

        def ago(p: Formula, a: int, b: int) -> list[bool]:
            """Return the truth of p at the existing events of those a..b ago."""
            back = [value(p) if a == 0 else None, *memory[self.parts.index(p)]]
            return [_is_true(p, v) for v in back[a : b + 1] if v is not None]

        match f.op, f.args:
            case Op.PROP, _:
                return true(self.transitions[f.name]) if f.name in self.transitions else f.name in label
            case Op.PREVIOUS, (p,):
                return any(ago(p, steps(f), steps(f)))
            case Op.WEAK_PREVIOUS, (p,):
                return all(ago(p, steps(f), steps(f)))
            case Op.ONCE, (p,):  # O p  =  p or Y O p
                return any(ago(p, *f.bounds)) if f.bounds else true(p) or any(ago(f, 1, 1))
            case Op.HISTORICALLY, (p,):  # H p  =  p and Z H p
                return all(ago(p, *f.bounds)) if f.bounds else true(p) and all(ago(f, 1, 1))
            case Op.SINCE, (p, q):  # p S q  =  q or (p and Y (p S q))
                return true(q) or (true(p) and any(ago(f, 1, 1)))
            case Op.WEAK_SINCE, (p, q):  # p WS q  =  q or (p and Z (p WS q))
                return true(q) or (true(p) and all(ago(f, 1, 1)))
            case Op.AT_MOST, (p,):
                return min((memory[self.parts.index(f)][0] or 0) + true(p), steps(f) + 1)
            case _:
                return boolean(f, true)


def _is_true(f: Formula, value: int) -> bool:
    return value <= steps(f) if f.op is Op.AT_MOST else bool(value)


def subsets(items: Collection[str]) -> Iterable[frozenset[str]]:
    """Return all subsets, smaller ones first, in a fixed order."""
    ordered = sorted(items)
    return map(frozenset, chain.from_iterable(combinations(ordered, n) for n in range(len(ordered) + 1)))


# --- Progression (TRAC, Table 1), as a disjunction of conjunctions ----------------------------------


class Demand(NamedTuple):
    """A demand that a formula be true (or, with `wanted` false, be false) at the next event.

    A `strong` demand fails where no event follows, a weak one does not.
    """

    formula: Formula
    wanted: bool
    strong: bool


Clause = frozenset[Demand]
"""Demands that must all hold. A residual is a set of clauses, of which one must hold."""

Choice = tuple[Clause, Clause]
"""One way to satisfy demands here: the demands left for the next event, and the promises postponed."""

NO_DEMAND: Clause = frozenset()
DONE: frozenset[Choice] = frozenset({(NO_DEMAND, NO_DEMAND)})
NEVER: frozenset[Choice] = frozenset()


def _both(left: frozenset[Choice], right: frozenset[Choice]) -> frozenset[Choice]:
    return _least(frozenset((a | c, b | d) for (a, b), (c, d) in product(left, right)))


def _either(left: frozenset[Choice], right: frozenset[Choice]) -> frozenset[Choice]:
    return _least(left | right)


def _least(choices: frozenset[Choice]) -> frozenset[Choice]:
    """Return the choices without those that leave and postpone at least what another choice does."""
    return frozenset(
        (a, b) for a, b in choices if not any((c, d) != (a, b) and c <= a and d <= b for c, d in choices)
    )


def progress(f: Formula, wanted: bool, now: TruthOf) -> frozenset[Choice]:
    """Return the ways in which `f` can be true (or false) here, given the truth of future-free subformulas.

    Falsity follows from truth by duality: it exchanges `and` and `or`, strong and weak.
    """
    if not has_future(f):
        return DONE if now(f) == wanted else NEVER
    return _connective(f, wanted, now) if f.op in BOOLEAN else _temporal(f, wanted, now)


def _connective(f: Formula, wanted: bool, now: TruthOf) -> frozenset[Choice]:
    """Return the ways of a Boolean operator."""
    all_of, any_of = (_both, _either) if wanted else (_either, _both)

    def here(p: Formula) -> frozenset[Choice]:
        return progress(p, wanted, now)

    match f.op, f.args:
        case Op.NOT, (p,):
            return progress(p, not wanted, now)
        case Op.AND, (p, q):
            return all_of(here(p), here(q))
        case Op.OR, (p, q):
            return any_of(here(p), here(q))
        case Op.IMPLIES, (p, q):
            return any_of(progress(p, not wanted, now), here(q))
        case Op.IFF, (p, q):
            same = _both(progress(p, True, now), here(q))
            return _either(same, _both(progress(p, False, now), progress(q, not wanted, now)))
        case _:
            raise AssertionError(f)


def _temporal(f: Formula, wanted: bool, now: TruthOf) -> frozenset[Choice]:
    """Return the ways of a future operator."""
    all_of, any_of = (_both, _either) if wanted else (_either, _both)
    strong = wanted == (f.op in (Op.NEXT, Op.EVENTUALLY, Op.UNTIL, Op.STRONG_RELEASE))

    def here(p: Formula) -> frozenset[Choice]:
        return progress(p, wanted, now)

    def ahead(p: Formula) -> frozenset[Choice]:
        """Leave p for the next event, and postpone a promise if p is `f` itself and must become true."""
        demand = frozenset({Demand(p, wanted, strong)})
        return frozenset({(demand, demand if strong and p is f else NO_DEMAND)})

    match f.op, f.args:
        case ((Op.NEXT | Op.WEAK_NEXT), (p,)):  # X[n] p  =  X X[n-1] p
            n = steps(f)
            return here(p) if n == 0 else ahead(p if n == 1 else Formula(f.op, (p,), bounds=(n - 1, n - 1)))
        case ((Op.EVENTUALLY | Op.ALWAYS), (p,)):
            join = any_of if f.op is Op.EVENTUALLY else all_of
            if f.bounds is None:  # F p  =  p or X F p        G p  =  p and N G p
                return join(here(p), ahead(f))
            a, b = f.bounds
            if b == 0:
                return here(p)
            rest = ahead(Formula(f.op, (p,), bounds=(max(a - 1, 0), b - 1)))
            return rest if a else join(here(p), rest)
        case ((Op.UNTIL | Op.WEAK_UNTIL), (p, q)):  # p U q  =  q or (p and X (p U q)); W has N
            return any_of(here(q), all_of(here(p), ahead(f)))
        case ((Op.RELEASE | Op.STRONG_RELEASE), (p, q)):  # p R q  =  q and (p or N (p R q)); M has X
            return all_of(here(q), any_of(here(p), ahead(f)))
        case _:
            raise AssertionError(f)


def _meet(clause: Clause, now: TruthOf) -> frozenset[Choice]:
    """Return the ways to satisfy all demands of a clause here."""
    result = DONE
    for demand in clause:
        result = _both(result, progress(demand.formula, demand.wanted, now))
    return result


def _only(f: Formula, wanted: bool) -> frozenset[Clause]:
    return frozenset({frozenset({Demand(f, wanted, True)})})


# --- LTL3 -------------------------------------------------------------------------------------------

Node = tuple[Clause, PastMemory]
Graph = dict[Node, list[tuple[Clause, Node]]]
"""The edges of each node: the promises postponed, and the node after one more event."""


class InstanceState(NamedTuple):
    """An instance after some events: the residual of the rule, that of its negation, and the history."""

    residual: frozenset[Clause]
    negation: frozenset[Clause]
    memory: PastMemory


class Meaning:
    """The LTL3 verdicts of one formula, with a cache of decisions."""

    def __init__(self, formula: Formula, transitions: Transitions = NO_TRANSITIONS) -> None:
        self.formula = formula
        self.history = PastSummary.of(formula, transitions)
        self._continues: dict[Node, bool] = {}
        self._whole: dict[tuple[frozenset[Clause], frozenset[Clause]], bool] = {}

    def begin(self, memory: PastMemory) -> InstanceState:
        """Return an instance that begins at the next event after this memory."""
        return InstanceState(_only(self.formula, True), _only(self.formula, False), memory)

    def step(self, state: InstanceState, label: Label) -> InstanceState:
        """Return the instance after an event, with both residuals progressed and a new memory."""
        now = self.history.now(state.memory, label)

        def progressed(clauses: frozenset[Clause]) -> frozenset[Clause]:
            left = {leaves for clause in clauses for leaves, _ in _meet(clause, now)}
            return frozenset(clause for clause in left if not any(weaker < clause for weaker in left))

        residual, negation = progressed(state.residual), progressed(state.negation)
        return InstanceState(residual, negation, self.history.after(state.memory, label))

    def verdict(self, state: InstanceState) -> Verdict:
        """Return `violated` if no infinite continuation satisfies the formula, `satisfied` if all do."""
        if not any(self.continues((clause, state.memory)) for clause in state.residual):
            return Verdict.VIOLATED
        if not any(self.continues((clause, state.memory)) for clause in state.negation):
            return Verdict.SATISFIED
        return Verdict.PENDING

    def is_whole(self, state: InstanceState) -> bool:
        """Return whether the residual is equivalent to the whole formula.

        It is where the residual and the formula agree on every non-empty word, finite or infinite, after
        every history (both have the same past parts, which read that history).
        """
        key = state.residual, state.negation
        if key not in self._whole:
            (rule,), (negation,) = _only(self.formula, True), _only(self.formula, False)
            apart = {clause | negation for clause in state.residual} | {c | rule for c in state.negation}
            nodes = [(clause, memory) for clause in apart for memory in self.history.reachable()]
            self._whole[key] = not any(self.continues(node) or self._can_end(node) for node in nodes)
        return self._whole[key]

    def continues(self, node: Node) -> bool:
        """Return whether an infinite word, after this history, satisfies the demands.

        It does where an infinite path exists on which no promise is postponed for ever: the node is in the
        greatest set whose members can, for every promise and inside the set, reach an edge that does
        not postpone it (Emerson and Lei, 1986).
        """
        if node not in self._continues:
            graph = self._graph(node)
            promises = {p for edges in graph.values() for put_off, _ in edges for p in put_off}
            live, before = set(graph), -1
            while len(live) != before:
                before = len(live)
                for promise in promises or {None}:
                    fulfilling = {
                        source
                        for source in live
                        if any(promise not in put_off and target in live for put_off, target in graph[source])
                    }
                    live = _reaching(fulfilling, live, graph)
            self._continues |= {source: source in live for source in graph}
        return self._continues[node]

    def _can_end(self, node: Node) -> bool:
        """Return whether a finite, non-empty word, after this history, satisfies the demands."""
        left = (clause for edges in self._graph(node).values() for _, (clause, _) in edges)
        return any(not any(demand.strong for demand in clause) for clause in left)

    def _graph(self, node: Node) -> Graph:
        graph: Graph = {}
        todo = [node]
        while todo:
            source = todo.pop()
            if source not in graph:
                graph[source] = self._edges(*source)
                todo.extend(target for _, target in graph[source])
        return graph

    def _edges(self, clause: Clause, memory: PastMemory) -> list[tuple[Clause, Node]]:
        return [
            (put_off, (leaves, after))
            for label in self.history.alphabet
            for after in [self.history.after(memory, label)]
            for leaves, put_off in _meet(clause, self.history.now(memory, label))
        ]


def _reaching(goal: set[Node], inside: set[Node], graph: Graph) -> set[Node]:
    """Return the nodes that reach the goal inside a set."""
    found = set(goal)
    while True:
        more = {n for n in inside - found if any(target in found for _, target in graph[n])}
        if not more:
            return found
        found |= more
