"""Exploration: every state a rule's machine can reach, with restarts and final states compiled in.

A state is a residual and a memory, whether its instance has seen an event, and whether it began after a
`satisfied` verdict. An invariant has no residual: its body is judged at every event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...schemas.verdict import Recover, Verdict
from .. import machine as table
from ..formula import Formula, Op, has_past, names
from .emptiness import Tableau
from .history import History, Memory
from .letters import Alphabet
from .limits import Limits, exceeded
from .normal import Nodes
from .residual import Progression, Residuals

Value = Callable[[Formula], bool]

INVARIANT = -1
"""In place of a residual: the body is judged at every event."""


@dataclass(frozen=True, slots=True)
class State:
    """One state of the search; `final` is the verdict of a finished instance (0 while it runs)."""

    residual: int
    memory: Memory
    seen: bool = False
    after_satisfied: bool = False
    final: int = 0


@dataclass(frozen=True, slots=True)
class Graph:
    """The reachable states in the order in which they were met, with a row of edges and outputs each."""

    states: list[State] = field(default_factory=list[State])
    next: list[list[int]] = field(default_factory=list[list[int]])
    output: list[list[int]] = field(default_factory=list[list[int]])


class Events:
    """What each letter means to a rule: the leaves' values and the memory after, found once per memory."""

    def __init__(self, alphabet: Alphabet, history: History) -> None:
        self._alphabet = alphabet
        self._history = history
        self._known: dict[Memory, list[tuple[Memory, Value]]] = {}

    def __call__(self, memory: Memory) -> list[tuple[Memory, Value]]:
        """For every letter, in order, the memory after it and the values of future-free formulas at it."""
        events = self._known.get(memory)
        if events is None:
            events = [self._event(memory, letter) for letter in range(len(self._alphabet))]
            self._known[memory] = events
        return events

    def _event(self, memory: Memory, letter: int) -> tuple[Memory, Value]:
        truth = self._alphabet.truth

        def read(formula: Formula) -> bool | None:
            letters = truth.get(formula)
            return None if letters is None else bool(letters >> letter & 1)

        value = self._history.evaluator(memory, read)
        return self._history.after(memory, value), value


@dataclass(frozen=True, slots=True)
class Subject:
    """Everything the search needs to know about one rule."""

    name: str
    body: Formula | None
    """An invariant's body; None for an ordinary rule."""
    start: int
    """The residual of a fresh instance (`INVARIANT` for an invariant)."""
    applies: Formula
    recover: Recover
    leaves: tuple[Formula, ...]
    residuals: Residuals
    tableau: Tableau
    events: Events
    history: History
    limits: Limits


def explore(subject: Subject) -> Graph:
    """The graph of a rule's machine, state 0 first."""
    return _Exploration(subject).run()


class _Exploration:
    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._graph = Graph()
        self._number: dict[State, int] = {}
        self._pairs: set[tuple[int, Memory]] = set()
        self._progressions: dict[tuple[bool, ...], Progression] = {}
        self._verdicts: dict[tuple[int, Memory], int] = {}
        # A final state answers the same for ever; its history matters only where it decides applicability.
        self._final_remembers = has_past(subject.applies) or not names(subject.applies).isdisjoint(
            subject.history.transitions
        )

    def run(self) -> Graph:
        graph = self._graph
        self._visit(State(self._subject.start, self._subject.history.start))
        for state in graph.states:  # grows while it is walked
            events = self._subject.events(state.memory)
            edges = [self._edge(state, after, value) for after, value in events]
            graph.next.append([self._visit(target) for target, _ in edges])
            graph.output.append([output for _, output in edges])
        return graph

    def _visit(self, state: State) -> int:
        number = self._number.get(state)
        if number is None:
            self._pairs.add((state.residual, state.memory))
            if len(self._pairs) > self._subject.limits.states_max:
                hint = "use smaller bounds and counts, or split the rule"
                raise exceeded(self._subject.name, "machine states", self._subject.limits.states_max, hint)
            number = self._number[state] = len(self._graph.states)
            self._graph.states.append(state)
        return number

    def _edge(self, state: State, after: Memory, value: Value) -> tuple[State, int]:
        applies = table.APPLIES if value(self._subject.applies) else 0
        if state.final:
            stays = table.STAYS_VIOLATED if state.final == table.VIOLATED else table.STAYS_SATISFIED
            return State(state.residual, self._kept(after), final=state.final), stays | applies
        if state.residual == INVARIANT:
            residual = INVARIANT
            assert self._subject.body is not None
            verdict = table.PENDING if value(self._subject.body) else table.VIOLATED
        else:
            residual = self._progression(value).residual(state.residual)
            verdict = self._verdict(residual, after)
        if verdict == table.PENDING:
            return State(residual, after, seen=True, after_satisfied=state.after_satisfied), applies
        return self._restart(verdict, after), verdict | applies

    def _restart(self, verdict: int, after: Memory) -> State:
        recover = self._subject.recover
        if recover is Recover.BOTH or (recover is Recover.VIOLATION and verdict == table.VIOLATED):
            satisfied = verdict == table.SATISFIED
            return State(self._subject.start, after, after_satisfied=satisfied)
        return State(self._subject.start, self._kept(after), final=verdict)

    def _kept(self, memory: Memory) -> Memory:
        return memory if self._final_remembers else self._subject.history.start

    def _progression(self, value: Value) -> Progression:
        key = tuple(value(leaf) for leaf in self._subject.leaves)
        known = self._progressions.get(key)
        if known is None:
            known = self._progressions[key] = Progression(self._subject.residuals, value)
        return known

    def _verdict(self, residual: int, memory: Memory) -> int:
        """LTL3: violated when the residual is unsatisfiable, satisfied when its negation is."""
        key = (residual, memory)
        known = self._verdicts.get(key)
        if known is None:
            if not self._can_be(residual, memory, negated=False):
                known = table.VIOLATED
            elif not self._can_be(residual, memory, negated=True):
                known = table.SATISFIED
            else:
                known = table.PENDING
            self._verdicts[key] = known
        return known

    def _can_be(self, residual: int, memory: Memory, *, negated: bool) -> bool:
        residuals, nodes = self._subject.residuals, self._subject.residuals.nodes
        function = residuals.dual(residual) if negated else residual
        for prime in residuals.primes(function):
            asked = (nodes.args[variable][0] for variable in prime)
            obligations = frozenset(nodes.negation(node) if negated else node for node in asked)
            if self._subject.tableau.satisfiable(obligations, memory):
                return True
        return False


def closing(subject: Subject, state: State) -> Verdict | None:
    """The finite-trace reading when the session ends in that state."""
    if state.final or not state.seen:
        return None
    if state.residual == INVARIANT:
        return Verdict.HELD
    residuals = subject.residuals
    untouched = residuals.asked(state.residual) == residuals.asked(subject.start)
    if state.after_satisfied and untouched:
        return Verdict.HELD
    return Verdict.HELD if residuals.at_end(state.residual) else Verdict.UNMET


def leaves_of(nodes: Nodes) -> tuple[Formula, ...]:
    """The distinct formulas that stand as leaves."""
    found = {
        leaf[0]: None for leaf in nodes.leaf if leaf is not None and leaf[0].op not in (Op.TRUE, Op.FALSE)
    }
    return tuple(found)
