"""Witnesses: the events that explain a verdict (TRAC, Alg. 1, line 11), found by replaying its session.

The paper records every event that changed the formula since the start. A thousand answered calls explain
nothing, so a witness here begins after the residual last equalled the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ...schemas.verdict import Verdict
from ..compiler.history import History, history
from ..compiler.shape import invariant_body
from ..model.formula import PAST, Formula, Op, has_future, names
from ..model.machine import Machine
from ..model.printer import to_text
from ..model.rule import Rule
from .stepper import MachineRun

WITNESS_EVENTS_MAX = 20
"""Events of one witness: the earliest ones, and the event of the verdict."""


@dataclass(frozen=True, slots=True)
class RunWitnessEvent:
    """An event that changed the residual: its index in `labels`, its true propositions, the new residual."""

    index: int
    true: tuple[str, ...]
    residual: str


@dataclass(frozen=True, slots=True)
class HistoryBit:
    """A past formula that decided a verdict, its value, and the index of the event that last changed it.

    `index` is None where no event changed the value. Before the first event `once p` is false and
    `historically p` true, so the first event can change either.
    """

    formula: str
    value: bool
    index: int | None


@dataclass(frozen=True, slots=True)
class RunWitness:
    """The explanation of a verdict: events in order, the verdict's event last, and the deciding history."""

    events: tuple[RunWitnessEvent, ...]
    history: tuple[HistoryBit, ...] = ()
    truncated: bool = False


@dataclass(slots=True)
class _Trail:
    """The changes since the residual last equalled the rule, and each history bit's value and last change."""

    values: dict[Formula, bool]
    changes: list[RunWitnessEvent] = field(default_factory=list[RunWitnessEvent])
    changed_at: dict[Formula, int] = field(default_factory=dict[Formula, int])


def witnesses(
    rule: Rule, machine: Machine, labels: Sequence[Collection[str]], at: Collection[int]
) -> Mapping[int, RunWitness]:
    """Return the witness of each verdict at the indices `at`, from one replay.

    `labels` are the propositions true at each event that the rule's instance (in its slice) has stepped on,
    from the session's first. For an event without a verdict the witness explains the pending instance, as a
    closing verdict needs it.
    """
    indices = frozenset(at)
    roots = tuple(_future_free(rule.formula, rule.transitions))
    past = history(roots, rule.transitions)
    watched = (*past.nodes, *(Formula(Op.PROP, name=name) for name in rule.transitions))
    used = frozenset(machine.propositions)
    found: dict[int, RunWitness] = {}
    trail = _Trail({node: _value_before(node) for node in watched})
    memory = past.start
    run = MachineRun(machine)
    for index in range(max(indices, default=-1) + 1):
        true = tuple(sorted(used.intersection(labels[index])))
        step = run.step(true)
        value = past.evaluator(memory, _reader(true, rule.transitions))
        if watched:
            memory = _watch(trail, watched, past, memory, value, index)
        event = RunWitnessEvent(index, true, step.residual)
        if index in indices:
            found[index] = _witness(trail, event, _deciding(rule, roots, step.verdict, value))
        if step.verdict is not Verdict.PENDING or step.residual == machine.residual[0]:
            trail.changes.clear()
        elif step.is_changed:
            trail.changes.append(event)
    return found


def _witness(trail: _Trail, event: RunWitnessEvent, deciding: Collection[Formula]) -> RunWitness:
    room = WITNESS_EVENTS_MAX - 1
    bits = (
        HistoryBit(to_text(node), trail.values[node], trail.changed_at.get(node))
        for node in dict.fromkeys(deciding)
    )
    return RunWitness((*trail.changes[:room], event), tuple(bits), truncated=len(trail.changes) > room)


def _watch(
    trail: _Trail,
    watched: Sequence[Formula],
    past: History,
    memory: tuple[int, ...],
    value: Callable[[Formula], bool],
    index: int,
) -> tuple[int, ...]:
    """Record which history bits this event changed, and return the memory after it."""
    for node in watched:
        now = value(node)
        if trail.values[node] is not now:
            trail.changed_at[node] = index - _delay(node)
        trail.values[node] = now
    return past.after(memory, value)


def _value_before(node: Formula) -> bool:
    """Return the value that a history bit has before the session's first event."""
    return node.op in (Op.WEAK_PREVIOUS, Op.HISTORICALLY, Op.WEAK_SINCE, Op.AT_MOST)


def _delay(node: Formula) -> int:
    """Return the number of events between a change of a bit and the event that caused it.

    `previous p` changes one event after `p`, and so does `once[1,3] p`, which is `previous once[0,2] p`.
    """
    if node.op in (Op.PREVIOUS, Op.WEAK_PREVIOUS):
        return 1 if node.bounds is None else node.bounds[0]
    return node.bounds[0] if node.op in (Op.ONCE, Op.HISTORICALLY) and node.bounds is not None else 0


def _reader(true: Collection[str], bits: Collection[str]) -> Callable[[Formula], bool | None]:
    def read(formula: Formula) -> bool | None:
        return formula.name in true if formula.op is Op.PROP and formula.name not in bits else None

    return read


def _future_free(formula: Formula, bits: Collection[str]) -> list[Formula]:
    """Return the maximal future-free subformulas that depend on past events."""
    if has_future(formula):
        return [part for arg in formula.args for part in _future_free(arg, bits)]
    return [formula] if _remembers(formula, bits) else []


def _remembers(formula: Formula, bits: Collection[str]) -> bool:
    return (
        formula.op in PAST
        or not names(formula).isdisjoint(bits)
        or any(_remembers(arg, bits) for arg in formula.args)
    )


def _deciding(
    rule: Rule, roots: Sequence[Formula], verdict: Verdict, value: Callable[[Formula], bool]
) -> list[Formula]:
    """Return the history bits that decide the values of the rule's past parts at the verdict's event."""
    body = invariant_body(rule.formula, rule.transitions)
    if body is not None and verdict is Verdict.PENDING:
        return []
    parts = roots if body is None else (body,)
    return [bit for part in parts for bit in _reasons(part, value, rule.transitions)]


def _reasons(formula: Formula, value: Callable[[Formula], bool], bits: Collection[str]) -> list[Formula]:
    """Return the outermost history bits that give a future-free formula its value."""
    if formula.op in PAST or (formula.op is Op.PROP and formula.name in bits):
        return [formula]
    if not formula.args:
        return []
    values = [value(arg) for arg in formula.args]
    match formula.op:
        case Op.AND | Op.OR:
            # One false operand decides `and`, one true operand `or`; otherwise all of them do.
            decisive = formula.op is Op.OR
            chosen = [a for a, v in zip(formula.args, values, strict=True) if v is decisive] or formula.args
        case Op.IMPLIES:
            left, right = formula.args
            holds = ([left] if not values[0] else []) + ([right] if values[1] else [])
            chosen = holds or [left, right]
        case _:
            chosen = formula.args
    return [bit for arg in chosen for bit in _reasons(arg, value, bits)]
