"""History: the memory of past operators and transition bits.

It is the summary monitor of past-time LTL (Havelund and Rosu, 2002; Cohen and Peled, sec. 5): the value of a
past formula *now* follows from the event and from the values *before* it, so one memory cell per operator
suffices. Bounded operators and `at_most` count instead of storing one bit for each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..model.formula import PAST, Formula, Op, walk

HistoryMemory = tuple[int, ...]
"""One cell per remembering node: a bit, a saturating counter, or a shift register."""

Now = dict[Formula, bool]
"""The values at the current event that have been computed so far."""


@dataclass(frozen=True, slots=True)
class History:
    """The past nodes of a rule and the memory cells that hold their past.

    `nodes` are the distinct past subformulas, in any order; cell `i` of a memory belongs to `nodes[i]`.
    `transitions` maps each transition bit to its right side.
    """

    nodes: tuple[Formula, ...]
    transitions: Mapping[str, Formula]
    place: Mapping[Formula, int]

    @property
    def start(self) -> HistoryMemory:
        """Return the memory before a session's first event."""
        return tuple(_start(node) for node in self.nodes)

    def evaluator(
        self, memory: HistoryMemory, truth: Callable[[Formula], bool | None]
    ) -> Callable[[Formula], bool]:
        """Return a function from future-free formulas to their values at an event.

        `truth` returns the values of the formulas that the event alone decides (at least of every proposition
        outside those formulas), and None for the others.
        """
        now: Now = {}

        def value(formula: Formula) -> bool:
            known = now.get(formula)
            if known is None:
                known = truth(formula)
                if known is None:
                    known = self._now(formula, memory, value)
                now[formula] = known
            return known

        return value

    def after(self, memory: HistoryMemory, value: Callable[[Formula], bool]) -> HistoryMemory:
        """Return the memory after the event whose values `value` returns."""
        return tuple(_remember(node, cell, value) for node, cell in zip(self.nodes, memory, strict=True))

    def _now(self, formula: Formula, memory: HistoryMemory, value: Callable[[Formula], bool]) -> bool:
        if formula.op in PAST:
            return _past_now(formula, memory[self.place[formula]], value)
        match formula.op:
            case Op.PROP:
                return value(self.transitions[formula.name])
            case Op.TRUE:
                return True
            case Op.FALSE:
                return False
            case Op.NOT:
                return not value(formula.args[0])
            case Op.AND:
                return value(formula.args[0]) and value(formula.args[1])
            case Op.OR:
                return value(formula.args[0]) or value(formula.args[1])
            case Op.IMPLIES:
                return not value(formula.args[0]) or value(formula.args[1])
            case Op.IFF:
                return value(formula.args[0]) == value(formula.args[1])
            case _:
                raise AssertionError(formula.op)


def history(formulas: Iterable[Formula], transitions: Mapping[str, Formula]) -> History:
    """Return the history that `formulas` and the transition bits read."""
    nodes: dict[Formula, None] = {}
    for formula in (*formulas, *transitions.values()):
        for node in walk(formula):
            if node.op in PAST:
                nodes[node] = None
    ordered = tuple(nodes)
    return History(ordered, transitions, {node: i for i, node in enumerate(ordered)})


def _span(node: Formula) -> tuple[int, int]:
    """Return a bounded operator's delay and width: `O[a,b] p` covers `b - a` steps before `a` steps ago."""
    assert node.bounds is not None
    return node.bounds[0], node.bounds[1] - node.bounds[0]


def _start(node: Formula) -> int:
    match node.op:
        case Op.PREVIOUS:
            return 0
        case Op.WEAK_PREVIOUS:
            return (1 << _steps(node)) - 1
        case Op.SINCE | Op.AT_MOST:
            return 0
        case Op.WEAK_SINCE:
            return 1
        case Op.ONCE:
            return 0 if node.bounds is None else _pack(_span(node)[1] + 1, 0, _span(node))
        case Op.HISTORICALLY:
            if node.bounds is None:
                return 1
            delay, width = _span(node)
            return _pack(width + 1, (1 << delay) - 1, (delay, width))
        case _:
            raise AssertionError(node.op)


def _steps(node: Formula) -> int:
    return 1 if node.bounds is None else node.bounds[0]


def _pack(distance: int, register: int, span: tuple[int, int]) -> int:
    """Return a bounded operator's cell: a delay line of `span[0]` bits above the distance to a change."""
    return register * (span[1] + 2) + distance


def _past_now(node: Formula, cell: int, value: Callable[[Formula], bool]) -> bool:
    match node.op:
        case Op.PREVIOUS | Op.WEAK_PREVIOUS:
            steps = _steps(node)
            return bool(cell >> (steps - 1) & 1) if steps else value(node.args[0])
        case Op.SINCE | Op.WEAK_SINCE:
            # p S q  =  q or (p and previous (p S q))
            return value(node.args[1]) or (bool(cell) and value(node.args[0]))
        case Op.AT_MOST:
            assert node.bounds is not None
            return cell + value(node.args[0]) <= node.bounds[1]
        case Op.ONCE if node.bounds is None:
            return bool(cell) or value(node.args[0])
        case Op.HISTORICALLY if node.bounds is None:
            return bool(cell) and value(node.args[0])
        case Op.ONCE | Op.HISTORICALLY:
            delay, width = _span(node)
            if delay:
                return bool(cell // (width + 2) >> (delay - 1) & 1)
            return _window(node, cell, value)
        case _:
            raise AssertionError(node.op)


def _window(node: Formula, cell: int, value: Callable[[Formula], bool]) -> bool:
    """Return `O[0,w] p` (or `H[0,w] p`) now, from the distance to the last p (or not p) in the cell."""
    width = _span(node)[1]
    distance = cell % (width + 2)
    if node.op is Op.ONCE:
        return value(node.args[0]) or distance <= width
    return value(node.args[0]) and distance > width


def _remember(node: Formula, cell: int, value: Callable[[Formula], bool]) -> int:
    match node.op:
        case Op.PREVIOUS | Op.WEAK_PREVIOUS:
            steps = _steps(node)
            return (cell << 1 | value(node.args[0])) & ((1 << steps) - 1) if steps else 0
        case Op.AT_MOST:
            assert node.bounds is not None
            return min(cell + value(node.args[0]), node.bounds[1] + 1)
        case Op.ONCE | Op.HISTORICALLY if node.bounds is not None:
            delay, width = _span(node)
            distance, register = cell % (width + 2), cell // (width + 2)
            changed = value(node.args[0]) is (node.op is Op.ONCE)
            register = (register << 1 | _window(node, cell, value)) & ((1 << delay) - 1)
            return _pack(1 if changed else min(distance + 1, width + 1), register, (delay, width))
        case _:
            return int(value(node))
