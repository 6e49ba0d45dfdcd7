"""The naive design: an interpreter that judges a session event by event, in plain Python.

Propositions are functions of a row; a rule's formula is rewritten by progression at each event (TRAC, Table
1) and restarts after a verdict; past parts use their values one event before. It supports only the
operators and predicates of `retail.yaml`: no slices, no steps, no unknown values.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tracline.rules.model.formula import FALSE, TRUE, Formula, Op, has_future, has_past
from tracline.rules.model.predicate import (
    And,
    Contained,
    Leaf,
    Literal,
    Measured,
    Not,
    Or,
    Predicate,
    Quantified,
    Test,
)
from tracline.rules.model.rule import Rule
from tracline.schemas.verdict import Recover

Row = Mapping[str, Any]
Known = dict[Formula, Any]


def judge(rules: Sequence[Rule], sessions: Iterable[Sequence[Row]]) -> Counter[tuple[str, str]]:
    """Return how often each rule was violated or unmet over the sessions, by rule id and verdict."""
    found: Counter[tuple[str, str]] = Counter()
    for session in sessions:
        runs = [Run(rule) for rule in rules]
        for row in session:
            true: dict[tuple[str, str], bool] = {}
            for run in runs:
                for name, predicate in run.rule.propositions.items():
                    if (run.rule.pack, name) not in true:
                        true[run.rule.pack, name] = holds(predicate, row)
                run.step({name for name in run.rule.propositions if true[run.rule.pack, name]}, found)
        for run in runs:
            if not run.final and not at_end(run.residual):
                found[run.rule.id, "unmet"] += 1
    return found


@dataclass
class Run:
    """One rule in one session."""

    rule: Rule

    def __post_init__(self) -> None:
        formula = self.rule.formula
        body = formula.args[0] if formula.op is Op.ALWAYS else formula
        self.invariant = body if has_past(formula) and not has_future(body) else None
        self.residual = formula
        self.before: Known = {}
        self.final = False

    def step(self, true: set[str], found: Counter[tuple[str, str]]) -> None:
        """Rewrite the formula by one event, and count the verdicts."""
        now: Known = {}
        if self.invariant is not None:
            if not past(self.invariant, true, self.before, now):
                found[self.rule.id, "violated"] += 1
            remember(self.invariant, true, self.before, now)
        elif not self.final:
            self.residual = progress(self.residual, true)
            if self.residual in (TRUE, FALSE):
                found[self.rule.id, "violated"] += self.residual == FALSE
                self.final = self.rule.recover is Recover.NONE
                self.residual = self.rule.formula
        self.before = now


def past(f: Formula, true: set[str], before: Known, now: Known) -> Any:
    """Return the value of a past formula, from the values one event before; counters are numbers."""
    if f in now:
        return now[f]
    args = [past(arg, true, before, now) for arg in f.args]
    match f.op:
        case Op.PROP:
            value = f.name in true
        case Op.TRUE | Op.FALSE:
            value = f.op is Op.TRUE
        case Op.NOT:
            value = not args[0]
        case Op.AND:
            value = all(args)
        case Op.OR:
            value = any(args)
        case Op.IMPLIES:
            value = not args[0] or args[1]
        case Op.PREVIOUS:
            value = before.get(f.args[0], False)
        case Op.ONCE:
            value = args[0] or before.get(f, False)
        case Op.SINCE:
            value = args[1] or (args[0] and before.get(f, False))
        case Op.AT_MOST:
            now[counter(f)] = before.get(counter(f), 0) + args[0]
            value = now[counter(f)] <= (f.bounds or (0, 0))[1]
        case _:
            raise ValueError(f"the naive interpreter has no {f.op.value}")
    now[f] = value
    return value


def remember(f: Formula, true: set[str], before: Known, now: Known) -> None:
    """Store the value of every part: `and` and `or` above may have skipped some."""
    past(f, true, before, now)
    for arg in f.args:
        remember(arg, true, before, now)


@cache
def counter(f: Formula) -> Formula:
    """Return the key of a counter's number."""
    return Formula(Op.PROP, name=f"#{f}")


def progress(f: Formula, true: set[str]) -> Formula:
    """Return the residual of a future formula after an event."""
    match f.op:
        case Op.PROP:
            return TRUE if f.name in true else FALSE
        case Op.NOT:
            return negate(progress(f.args[0], true))
        case Op.AND | Op.OR:
            return joined(f.op, [progress(arg, true) for arg in f.args])
        case Op.IMPLIES:
            return joined(Op.OR, [negate(progress(f.args[0], true)), progress(f.args[1], true)])
        case Op.NEXT:
            return f.args[0]
        case Op.EVENTUALLY:
            return joined(Op.OR, [progress(f.args[0], true), f])
        case Op.ALWAYS:
            return joined(Op.AND, [progress(f.args[0], true), f])
        case Op.UNTIL | Op.WEAK_UNTIL:
            left, right = (progress(arg, true) for arg in f.args)
            return joined(Op.OR, [right, joined(Op.AND, [left, f])])
        case Op.TRUE | Op.FALSE:
            return f
        case _:
            raise ValueError(f"the naive interpreter has no {f.op.value}")


def negate(f: Formula) -> Formula:
    """Return the negation, without a double one."""
    if f in (TRUE, FALSE):
        return FALSE if f == TRUE else TRUE
    return f.args[0] if f.op is Op.NOT else Formula(Op.NOT, (f,))


def joined(op: Op, parts: list[Formula]) -> Formula:
    """Return `and` or `or` of the parts, flat and each once."""
    neutral, settling = (TRUE, FALSE) if op is Op.AND else (FALSE, TRUE)
    flat: dict[Formula, None] = {}
    for part in parts:
        flat |= dict.fromkeys(part.args if part.op is op else (part,))
    flat.pop(neutral, None)
    if settling in flat:
        return settling
    return Formula(op, tuple(flat)) if len(flat) > 1 else next(iter(flat), neutral)


def at_end(f: Formula) -> bool:
    """Return the finite-trace value of a residual."""
    match f.op:
        case Op.NOT:
            return not at_end(f.args[0])
        case Op.AND:
            return all(map(at_end, f.args))
        case Op.OR:
            return any(map(at_end, f.args))
        case _:
            return f.op in (Op.TRUE, Op.ALWAYS, Op.WEAK_UNTIL, Op.WEAK_NEXT)


def holds(predicate: Predicate, row: Row) -> bool:
    """Return whether a predicate is true of a row."""
    match predicate:
        case Literal(value):
            return value
        case Not(arg):
            return not holds(arg, row)
        case And(args):
            return all(holds(arg, row) for arg in args)
        case Or(args):
            return any(holds(arg, row) for arg in args)
        case Quantified() | Measured() | Contained():
            raise ValueError("the naive interpreter has no conditions on lists")
        case Leaf():
            return answer(predicate, row)


def answer(leaf: Leaf, row: Row) -> bool:
    """Return the value of one comparison on a row."""
    value = row[leaf.path.field]
    for step in leaf.path.steps:
        try:
            value = json.loads(value)[step]
        except (TypeError, ValueError, KeyError):
            value = None
    if leaf.test is Test.IS_NULL:
        return value is None
    if value is None:
        return False
    match leaf.test:
        case Test.EQ:
            return value == leaf.operands[0]
        case Test.IN:
            return value in leaf.operands
        case Test.GT:
            return float(value) > float(leaf.operands[0])
        case Test.MATCHES:
            return re.search(str(leaf.operands[0]), value) is not None
        case Test.CONTAINS:
            return leaf.operands[0] in value
        case Test.STARTS_WITH:
            return value.startswith(leaf.operands[0])
        case _:
            raise ValueError(f"the naive interpreter has no {leaf.test.value}")
