"""Rule Status Assessment (Brindise and Langbort, Definition 8, Tables II and III).

For a start t0 and a later step t, a part of a rule is active, satisfied, inactive or violated at t on the
trace from t0 on. The paper computes each module for each pair of steps. Here each part has one number for
each start: its last active step. Its active steps are those from t0 up to that one, so every status follows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ...schemas.display import shortened
from ..compiler.history import history
from ..language.parse import parse_formula
from ..model.arrays import I32, Mask
from ..model.formula import PAST, Formula, Op, names, walk
from ..model.printer import to_text
from ..model.problem import Problem, RuleError
from ..model.rule import ExampleSession

VIOLATED_END = -1
"""The end of a part that is violated; every other end is at least 0."""
PARTS_MAX = 2_000
"""Parts of a formula that is explained."""
STATUSES_MAX = 5_000_000
"""Parts of a formula times steps of the trace on which it is explained."""


class Status(StrEnum):
    """The status of a part of a rule at a step; a satisfied part is active at that step, too."""

    ACTIVE = "active"
    SATISFIED = "satisfied"
    INACTIVE = "inactive"
    VIOLATED = "violated"
    OPEN = "open"
    """The session goes on, and its coming events decide whether the part is violated."""


@dataclass(frozen=True)
class PartStatus:
    """A part of a rule on every suffix of a trace of n steps; steps count from 1.

    `node` is `0` for the rule, `0.1` for its first operand, and so on; `parent` is empty for the rule.
    `ends[t0 - 1]` is `VIOLATED_END` where the part is violated from t0, t0 - 1 where it is never active, else
    its last active step, at which it is satisfied. `is_open[t0 - 1]` is true where the session is open and
    its coming events decide.
    """

    node: str
    parent: str
    formula: Formula
    ends: I32
    is_open: Mask

    def status(self, t0: int, t: int) -> Status:
        """Return the status at step t on the trace from t0 on; 1 <= t0 <= t <= n."""
        assert 1 <= t0 <= t <= len(self.ends)
        if self.is_open[t0 - 1]:
            return Status.OPEN
        end = int(self.ends[t0 - 1])
        if end == VIOLATED_END:
            return Status.VIOLATED
        if t == end:
            return Status.SATISFIED
        return Status.ACTIVE if t < end else Status.INACTIVE


@dataclass(frozen=True)
class RuleStatus:
    """The parts of a rule, each before its operands, on every suffix of a trace."""

    parts: tuple[PartStatus, ...]

    def part(self, node: str) -> PartStatus:
        """Return the part with that node number."""
        return next(part for part in self.parts if part.node == node)

    def worth(self) -> list[int]:
        """Return the starts that are worth a look (the query heuristic of the paper's section V).

        At these the status of some part, at the start itself, becomes active or violated: it was not so from
        the start before.
        """
        found: set[int] = set()
        for part in self.parts:
            starts = np.arange(1, len(part.ends) + 1)
            violated = part.ends == VIOLATED_END
            for now in (violated, ~violated & (part.ends >= starts)):
                found.update((np.flatnonzero(now[1:] & ~now[:-1]) + 2).tolist())
        return sorted(found)


def explain(
    formula: str | Formula, trace: Iterable[Collection[str]], *, is_closed: bool = True
) -> RuleStatus:
    """Return the status of a formula and of all its parts at each step of a trace, from every start.

    A step of the trace has the propositions that are true at it; every name in the formula is a proposition.
    With `is_closed` false the trace may go on, and what its coming steps decide is open.

    Raises:
        RuleError: the text is no formula, or the formula is too large to explain.
    """
    parsed = parse_formula(formula) if isinstance(formula, str) else formula
    return assess(parsed, tuple(map(frozenset, trace)), is_closed=is_closed)


def assess(
    formula: Formula,
    trace: ExampleSession,
    transitions: Mapping[str, Formula] | None = None,
    *,
    is_closed: bool = True,
) -> RuleStatus:
    """Return the status of a formula and of all its parts, at every step of a trace, from every start.

    A past operator looks at the whole trace before the start; its part is active and satisfied, or violated,
    at the start alone. The costs are proportional to the parts times the steps.

    Raises RuleError (TRL303) where these are too many.
    """
    check_size(formula, len(trace))
    past = past_truth(formula, trace, transitions or {})
    reading = _Reading(past, len(trace))
    parts: list[PartStatus] = []
    todo = [("0", "", formula)]
    while todo:
        node, parent, part = todo.pop()
        weak, strong = reading.weak_and_strong(part)
        is_open = np.zeros(len(trace), dtype=bool) if is_closed else weak[:-1] & ~strong[:-1]
        parts.append(PartStatus(node, parent, part, reading.ends(part), is_open))
        todo.extend(
            (f"{node}.{place}", node, arg) for place, arg in reversed([*enumerate(part.args, start=1)])
        )
    return RuleStatus(tuple(parts))


def check_size(formula: Formula, steps: int) -> None:
    """Raise RuleError (TRL303) where a formula has too many parts, or too many for so many steps."""
    if formula.size <= PARTS_MAX and formula.size * steps <= STATUSES_MAX:
        return
    message = (
        f"{shortened(to_text(formula))} is too large to explain: {formula.size:,} parts on {steps:,} steps, "
        f"more than {PARTS_MAX:,} parts or {STATUSES_MAX:,} statuses"
    )
    raise RuleError([Problem("TRL303", message, "leave the rule out, or split it")])


def past_truth(
    formula: Formula, trace: ExampleSession, transitions: Mapping[str, Formula]
) -> dict[Formula, Mask]:
    """Return at which steps the propositions, transition bits and past operators of a formula are true."""
    nodes = {node: None for node in walk(formula) if node.op in PAST or node.op is Op.PROP}
    asked = tuple(node for node in nodes if node.op in PAST or node.name in transitions)
    found = {
        node: np.fromiter((node.name in true for true in trace), dtype=bool, count=len(trace))
        for node in nodes
        if node not in asked
    }
    if not asked:
        return found
    summary = history([formula], transitions)
    memory, rows = summary.start, np.zeros((len(trace), len(asked)), dtype=bool)
    known = names(formula).union(*map(names, transitions.values())) - transitions.keys()
    for step, true in enumerate(trace):
        value = summary.evaluator(memory, lambda f, true=true: f.name in true if f.name in known else None)
        rows[step] = [value(node) for node in asked]
        memory = summary.after(memory, value)
    return found | {node: rows[:, place] for place, node in enumerate(asked)}


class _Reading:
    """The readings of formulas over one trace of `count` steps; arrays have a place for each step, from 0."""

    def __init__(self, past: Mapping[Formula, Mask], count: int) -> None:
        self._past, self._count = past, count
        self._at = np.arange(count, dtype=np.int32)
        self._ends: dict[Formula, I32] = {}
        self._readings: dict[Formula, tuple[Mask, Mask]] = {}

    def ends(self, formula: Formula) -> I32:
        """Return the last active step of a formula for each start, as `PartStatus.ends` has them."""
        if formula not in self._ends:
            self._ends[formula] = self._last_active(formula)
        return self._ends[formula]

    def _last_active(self, formula: Formula) -> I32:
        here = self._at + 1
        if formula.op in PAST or formula.op is Op.PROP:
            return self._where(self._past[formula], here)
        args = [self.ends(arg) != VIOLATED_END for arg in formula.args]
        match formula.op:
            case Op.TRUE | Op.FALSE:
                return self._where(np.full(self._count, formula.op is Op.TRUE), here)
            case Op.NOT:
                return self._where(~args[0], here)
            case Op.AND:
                return self._where(np.logical_and.reduce(args), here)
            case Op.OR:
                return self._where(np.logical_or.reduce(args), here)
            case Op.IFF:
                return self._where(args[0] == args[1], here)
            case Op.IMPLIES:
                # Where the precondition is false, the rule asks for nothing.
                return np.where(args[0], self._where(args[1], here), self._at).astype(np.int32)
            case Op.UNTIL | Op.WEAK_UNTIL | Op.RELEASE | Op.STRONG_RELEASE:
                return self._binary_end(formula.op, *args)
            case _:
                return self._unary_end(formula, args[0])

    def _unary_end(self, formula: Formula, arg: Mask) -> I32:
        """Return the ends of a temporal operator with one operand."""
        count, last = self._count, self._count - 1
        a, b = formula.bounds or ((1, 1) if formula.op in (Op.NEXT, Op.WEAK_NEXT) else (0, last))
        begin, end = np.minimum(self._at + a, count), np.minimum(self._at + b, last)
        if formula.op in (Op.NEXT, Op.EVENTUALLY):
            first = np.append(_next(arg), np.int32(count))[begin]
            return self._where(first <= end, first + 1)
        # The first violation is the end of the window, or comes behind it.
        first = np.append(_next(~arg), np.int32(count))[begin]
        return self._where(first > end, end + 1)

    def _binary_end(self, op: Op, left: Mask, right: Mask) -> I32:
        """Return the ends of an operator of the family of `until`."""
        done, is_done, is_whole = _race(op, left, right)
        if op in (Op.UNTIL, Op.STRONG_RELEASE):
            return self._where(is_done, done + 1)
        return self._where(is_done | is_whole, np.where(is_done, done + 1, self._count))

    def _where(self, true: Mask, ends: NDArray[np.signedinteger]) -> I32:
        return np.where(true, ends, VIOLATED_END).astype(np.int32)

    def weak_and_strong(self, formula: Formula) -> tuple[Mask, Mask]:
        """Return where the weak and the strong reading of a formula are true, for each start and behind all.

        In the weak reading every formula is true behind the last step, in the strong one none is; `not`
        exchanges them. Where they agree, no further step changes the truth of the formula.
        """
        if formula not in self._readings:
            if formula.op in PAST or formula.op is Op.PROP:
                true = self._past[formula]
                self._readings[formula] = np.append(true, True), np.append(true, False)
            else:
                readings = [self.weak_and_strong(arg) for arg in formula.args]
                weak, strong = [each[0] for each in readings], [each[1] for each in readings]
                self._readings[formula] = (
                    self._read(formula, weak, strong, beyond=True),
                    self._read(formula, strong, weak, beyond=False),
                )
        return self._readings[formula]

    def _read(self, formula: Formula, same: Sequence[Mask], dual: Sequence[Mask], *, beyond: bool) -> Mask:
        """Return one reading of a formula, from that of its operands and their dual reading."""
        behind = np.array([beyond])
        match formula.op:
            case Op.TRUE | Op.FALSE:
                return np.append(np.full(self._count, formula.op is Op.TRUE), behind)
            case Op.NOT:
                read = ~dual[0]
            case Op.AND:
                read = np.logical_and.reduce(same)
            case Op.OR:
                read = np.logical_or.reduce(same)
            case Op.IMPLIES:
                read = ~dual[0] | same[1]
            case Op.IFF:
                read = (~dual[0] | same[1]) & (~dual[1] | same[0])
            case Op.UNTIL | Op.WEAK_UNTIL | Op.RELEASE | Op.STRONG_RELEASE:
                _, is_done, is_whole = _race(formula.op, same[0][:-1], same[1][:-1])
                return np.append(is_done | (is_whole & beyond), behind)
            case _:
                return np.append(self._windowed(formula, same[0][:-1], beyond=beyond), behind)
        return np.append(read[:-1], behind)

    def _windowed(self, formula: Formula, arg: Mask, *, beyond: bool) -> Mask:
        """Return a reading of a temporal operator with one operand."""
        count = self._count
        a, b = formula.bounds or ((1, 1) if formula.op in (Op.NEXT, Op.WEAK_NEXT) else (0, count))
        begin, end = np.minimum(self._at + a, count), self._at + b
        if formula.op in (Op.NEXT, Op.EVENTUALLY):
            found = np.append(_next(arg), np.int32(count))[begin] <= np.minimum(end, count - 1)
            return found | ((end >= count) & beyond)
        whole = np.append(_next(~arg), np.int32(count))[begin] > np.minimum(end, count - 1)
        return whole & ((end < count) | beyond)


def _next(true: Mask) -> I32:
    """Return for each place the first one from there on that is true; the count where there is none."""
    places = np.where(true, np.arange(len(true), dtype=np.int32), np.int32(len(true)))
    return np.minimum.accumulate(places[::-1])[::-1]


def _race(op: Op, left: Mask, right: Mask) -> tuple[I32, Mask, Mask]:
    """Return how an operator of the family of `until` goes on from each place.

    These are the first place at which the operand that ends it is true, where it comes in time, and where the
    operand that lasts does so to the end without it.
    """
    is_release = op in (Op.RELEASE, Op.STRONG_RELEASE)
    ending, lasting = (left, right) if is_release else (right, left)
    done, broken = _next(ending), _next(~lasting)
    count = len(ending)
    is_done = (done < broken) | ((done == broken) & (done < count) & (not is_release))
    return done, is_done, (done == count) & (broken == count)
