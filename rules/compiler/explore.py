"""Exploration: every state a rule's machine can reach, with restarts and final states compiled in.

A state is a residual and a memory, whether its instance has seen an event, and whether it began after a
`satisfied` verdict. An invariant has no residual: its body is judged at every event.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...schemas.verdict import Recover, Verdict
from ..model import machine as table
from ..model.formula import Formula, has_past, names
from .decide import Decider
from .events import Events, ValueOf
from .history import History, HistoryMemory
from .limits import Work, exceeded
from .residual import Residuals

INVARIANT = -1
"""The residual of an invariant, whose body is judged at every event."""


@dataclass(frozen=True, slots=True)
class MachineState:
    """One state of the search; `final` is the verdict of a finished instance (0 while it runs)."""

    residual: int
    memory: HistoryMemory
    seen: bool = False
    after_satisfied: bool = False
    final: int = 0


@dataclass(frozen=True, slots=True)
class MachineGraph:
    """The reachable states in the order of discovery, each with a row of edges and a row of outputs."""

    states: list[MachineState] = field(default_factory=list[MachineState])
    next: list[list[int]] = field(default_factory=list[list[int]])
    output: list[list[int]] = field(default_factory=list[list[int]])


@dataclass(frozen=True, slots=True)
class Subject:
    """The input of the exploration of one rule."""

    body: Formula | None
    """An invariant's body; None for an ordinary rule."""
    start: int
    """The residual of a fresh instance (`INVARIANT` for an invariant)."""
    applies: Formula
    recover: Recover
    residuals: Residuals
    decider: Decider
    events: Events
    history: History
    work: Work


def explore(subject: Subject) -> MachineGraph:
    """Return the graph of a rule's machine, state 0 first."""
    return _Exploration(subject).run()


class _Exploration:
    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._graph = MachineGraph()
        self._number: dict[MachineState, int] = {}
        self._pairs: set[tuple[int, HistoryMemory]] = set()
        # A final state always has the same verdict; its history matters only where it decides applicability.
        self._final_remembers = has_past(subject.applies) or not names(subject.applies).isdisjoint(
            subject.history.transitions
        )

    def run(self) -> MachineGraph:
        graph = self._graph
        self._visit(MachineState(self._subject.start, self._subject.history.start))
        work = self._subject.work
        for state in graph.states:  # the loop appends states
            events = self._subject.events(state.memory)
            if len(events) * len(graph.states) > work.limits.edges_max:
                hint = "split the rule, or put propositions that only stand together into one"
                raise exceeded(work.rule, "machine edges", work.limits.edges_max, hint)
            work.spend(2 * len(events))
            edges = [self._edge(state, after, value) for after, value in events]
            graph.next.append([self._visit(target) for target, _ in edges])
            graph.output.append([output for _, output in edges])
        return graph

    def _visit(self, state: MachineState) -> int:
        number = self._number.get(state)
        if number is None:
            self._pairs.add((state.residual, state.memory))
            limit = self._subject.work.limits.states_max
            if len(self._pairs) > limit:
                hint = "use smaller bounds and counts, or split the rule"
                raise exceeded(self._subject.work.rule, "machine states", limit, hint)
            number = self._number[state] = len(self._graph.states)
            self._graph.states.append(state)
        return number

    def _edge(self, state: MachineState, after: HistoryMemory, value: ValueOf) -> tuple[MachineState, int]:
        applies = table.APPLIES if value(self._subject.applies) else 0
        if state.final:
            stays = table.STAYS_VIOLATED if state.final == table.VIOLATED else table.STAYS_SATISFIED
            still = MachineState(state.residual, self._final_history(after), final=state.final)
            return still, stays | applies
        if state.residual == INVARIANT:
            residual = INVARIANT
            assert self._subject.body is not None
            verdict = table.PENDING if value(self._subject.body) else table.VIOLATED
        else:
            residual = self._subject.decider.progressed(state.residual, value)
            verdict = self._subject.decider.verdict(residual, after)
        if verdict == table.PENDING:
            return MachineState(residual, after, seen=True, after_satisfied=state.after_satisfied), applies
        return self._restart(verdict, after), verdict | applies

    def _restart(self, verdict: int, after: HistoryMemory) -> MachineState:
        recover = self._subject.recover
        if recover is Recover.BOTH or (recover is Recover.VIOLATION and verdict == table.VIOLATED):
            satisfied = verdict == table.SATISFIED
            return MachineState(self._subject.start, after, after_satisfied=satisfied)
        return MachineState(self._subject.start, self._final_history(after), final=verdict)

    def _final_history(self, memory: HistoryMemory) -> HistoryMemory:
        return memory if self._final_remembers else self._subject.history.start


def closing(subject: Subject, state: MachineState) -> Verdict | None:
    """Return the finite-trace reading of a session that ends in that state."""
    if state.final or not state.seen:
        return None
    if state.residual == INVARIANT:
        return Verdict.HELD
    if subject.residuals.at_end(state.residual):
        return Verdict.HELD
    is_unchanged = state.after_satisfied and subject.decider.same(state.residual, subject.start)
    return Verdict.HELD if is_unchanged else Verdict.UNMET
