"""Patterns over the coming verdicts of a rule: one more machine in the product of chain and rule.

The word of a pattern has for each coming event the name of its verdict, and at the close that of the close,
with which it ends; else it ends after the horizon (TRAC, Definition 4.6). A pending event has no name.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...rules.compiler.compile import compile_formula
from ...rules.compiler.limits import Work
from ...rules.language.parse import parse_formula
from ...rules.lint.finite_trace import finite_trace_disagrees
from ...rules.lint.rewrites import past_form
from ...rules.model.arrays import F64, I64, Mask
from ...rules.model.machine import STAYS_SATISFIED, STAYS_VIOLATED, VERDICT_MASK
from ...rules.model.problem import RuleError, Snippet
from ...schemas.verdict import Recover, Verdict
from ..chain.contexts import NODES_MAX
from ..chain.learned import Counted
from ..chain.steps import HELD_CLOSING, SATISFIED_STEP, UNMET_CLOSING, VIOLATED_STEP
from ..error import PredictError
from ..estimation.expectation import NextSymbolChain

_NAMES = ("", "violated", "satisfied", "unmet", "held")
"""The names that each column of `Pattern.next` stands for."""

_NO_NAME = 0
_EVENT_COLUMNS = {VIOLATED_STEP: 1, SATISFIED_STEP: 2}
_CLOSE_COLUMNS = {UNMET_CLOSING: 3, HELD_CLOSING: 4}


@dataclass(frozen=True, slots=True)
class Pattern:
    """The machine of a pattern, which never restarts; state 0 is the start.

    `next[state, column]` is the state after the verdict that a column stands for. `holds[state]` is the
    finite-trace reading of a word that ends there, and in a final state it is decided.
    """

    next: I64
    holds: Mask
    is_final: Mask

    def quiet(self, events: int) -> bool:
        """Return whether the pattern holds after so many events without a verdict."""
        state = 0
        for _ in range(events):
            state = int(self.next[state, _NO_NAME])
        return bool(self.holds[state])


def read_pattern(text: str) -> Pattern:
    """Return the pattern of a formula over `violated`, `satisfied`, `unmet` and `held`.

    Raises RuleError for the text, and where a verdict of the formula would be the opposite if the word ended
    there (TRL507): the definition knows no verdict before the end.
    """
    snippet = Snippet(text, source="<pattern>")
    formula = parse_formula(text, source=snippet.source, known=_NAMES[1:])
    if finite_trace_disagrees(formula, {}, Work("pattern")):
        what = "the pattern gets a verdict that would be the opposite if the word ended there"
        raise RuleError([snippet.problem("TRL507", what, past_form(formula), 0, len(text))])
    machine = compile_formula(formula, recover=Recover.NONE, name="pattern")
    columns = [machine.letters[machine.word((name,))] for name in _NAMES]
    outputs = [row[0] & VERDICT_MASK for row in machine.output]
    return Pattern(
        next=np.array(machine.next, dtype=np.int64)[:, columns],
        holds=np.array(
            [
                output == STAYS_SATISFIED or closing is Verdict.HELD
                for output, closing in zip(outputs, machine.closing, strict=True)
            ]
        ),
        is_final=np.array([output in (STAYS_SATISFIED, STAYS_VIOLATED) for output in outputs]),
    )


class PatternSolver:
    """The probabilities of a pattern within any horizon, by agent, symbol and row.

    The rule steps on through its verdicts, and restarts as its `recover` asks. A context that nothing follows
    stays where it is, without a verdict.
    """

    def __init__(self, counted: Counted, chain: NextSymbolChain, pattern: Pattern) -> None:
        size = len(pattern.holds) * chain.agents * chain.width * chain.rows
        if size > NODES_MAX:
            what = f"the pattern makes {size:,} states of {counted.pack}/{counted.rule}"
            raise PredictError("TRL810", "chain", what, f"it may make {NODES_MAX:,}: use a simpler pattern")
        self._counted, self._chain, self._pattern = counted, chain, pattern
        self._shape = chain.agents, chain.width, chain.rows
        self._stays = chain.expectations(np.ones(self._shape)) == 0
        steps = counted.steps
        self._events = _columns(_EVENT_COLUMNS)[steps.verdicts].T
        self._closes = _columns(_CLOSE_COLUMNS)[steps.closings]

    def within(self, events: int) -> tuple[F64, F64]:
        """Return the probabilities, and those by [agent, next, row] that they are the mean of."""
        pattern = self._pattern
        values = np.empty((len(pattern.holds), *self._shape))
        values[:] = pattern.holds[:, None, None, None]
        before = values
        for _ in range(events):
            before, values = values, values.copy()
            for state in np.flatnonzero(~pattern.is_final).tolist():
                found = self._chain.expectations(self._gains(state, before))
                quiet = before[pattern.next[state, _NO_NAME]]
                values[state] = np.where(self._stays, quiet, found)
        return values[0], self._gains(0, before)

    def _gains(self, state: int, values: F64) -> F64:
        """Return by [agent, next, row] the probability after each symbol, from a state of the pattern."""
        steps, following = self._counted.steps, self._pattern.next[state]
        found = np.empty(self._shape)
        agents = np.arange(self._shape[0])[:, None, None]
        symbols = np.arange(self._shape[1] - 1)[:, None]
        found[:, :-1, :] = values[following[self._events], agents, symbols, steps.next.T]
        found[:, -1, :] = self._pattern.holds[following[self._closes]]
        return found


def _columns(columns: dict[int, int]) -> I64:
    """Return the column of each code of an event or a close."""
    found = np.full(4, _NO_NAME, dtype=np.int64)
    found[list(columns)] = list(columns.values())
    return found
