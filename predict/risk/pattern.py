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
from .certified import GAP_MAX

_NAMES = ("", "violated", "satisfied", "unmet", "held")
"""The names that each column of `Pattern.next` stands for."""

NO_NAME = 0
"""The column of a pending event."""


def _columns(columns: dict[int, int]) -> I64:
    """Return the column of each code of an event or a close."""
    found = np.full(4, NO_NAME, dtype=np.int64)
    found[list(columns)] = list(columns.values())
    return found


EVENT_COLUMNS = _columns({VIOLATED_STEP: 1, SATISFIED_STEP: 2})
CLOSE_COLUMNS = _columns({UNMET_CLOSING: 3, HELD_CLOSING: 4})
"""Columns by the codes of `StepTable.verdicts`, and by those of `StepTable.closings`."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The machine of a pattern, which never restarts; state 0 is the start.

    `next[state, column]` is the state after the verdict that a column stands for. `holds[state]` is the
    finite-trace reading of a word that ends there, and in a final state it is decided. `is_decided` are all
    states in which further verdicts change nothing: a formula of the past has no final state where it holds.
    """

    next: I64
    holds: Mask
    is_final: Mask
    is_decided: Mask

    @property
    def lasting(self) -> Mask:
        """Return by state whether the pattern holds from some number of further events without a verdict on.

        Formulas do not count modulo a number, so that it holds from there on, or does not.
        """
        states = np.arange(len(self.holds))
        for _ in range(len(self.holds)):
            states = self.next[states, NO_NAME]
        return self.holds[states]

    def quiet(self, events: int | None) -> bool:
        """Return whether the pattern holds after so many events without a verdict, or from some number on."""
        state = 0
        for _ in range(len(self.holds) if events is None else events):
            state = int(self.next[state, NO_NAME])
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
    following = np.array(machine.next, dtype=np.int64)[:, columns]
    holds = np.array(
        [
            output == STAYS_SATISFIED or closing is Verdict.HELD
            for output, closing in zip(outputs, machine.closing, strict=True)
        ]
    )
    return Pattern(
        next=following,
        holds=holds,
        is_decided=_decided(following, holds),
        is_final=np.array([output in (STAYS_SATISFIED, STAYS_VIOLATED) for output in outputs]),
    )


def _decided(following: I64, holds: Mask) -> Mask:
    """Return by state whether the pattern holds, or does not, whatever follows."""
    always, never = holds, ~holds
    for _ in range(len(holds)):
        always, never = always & always[following].all(axis=1), never & never[following].all(axis=1)
    return always | never


EVER_EVENTS_MAX = 20_000
"""Events after which the word of a pattern must have ended."""


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
        self._events, self._closes = EVENT_COLUMNS[steps.verdicts].T, CLOSE_COLUMNS[steps.closings]

    def within(self, events: int | None) -> tuple[F64, F64]:
        """Return the probabilities, and those by [agent, next, row] that they are the mean of.

        None stands for the word up to the session's close. Raises PredictError (TRL810) where hardly any
        session closes, so that this probability cannot be stated.
        """
        values, before = self.by_state(events)
        return values[0], self.gains(0, before)

    def by_state(self, events: int | None) -> tuple[F64, F64]:
        """Return the probabilities by state of the pattern, and those within one event less.

        Those of ever are the same. Raises PredictError as `within`.
        """
        if events is None:
            values = self._ever()
            return values, values
        values = np.empty((len(self._pattern.holds), *self._shape))
        values[:] = self._pattern.holds[:, None, None, None]
        before = values
        for _ in range(events):
            before, values = values, self._stepped(values)
        return values, before

    def _ever(self) -> F64:
        """Return those for the word up to the close, from both sides: what is open holds, or does not."""
        pattern = self._pattern
        low = np.zeros((len(pattern.holds), *self._shape))
        low[pattern.is_final & pattern.holds] = 1.0
        high = np.ones_like(low)
        high[pattern.is_final & ~pattern.holds] = 0.0
        lasting = pattern.lasting
        for bound in (low, high):
            bound[:, self._stays] = lasting[:, None]
        for _ in range(EVER_EVENTS_MAX):
            if (high - low).max() <= GAP_MAX:
                return (low + high) / 2
            low, high = self._stepped(low), self._stepped(high)
        name = f"{self._counted.pack}/{self._counted.rule}"
        what = f"{name}: sessions end too rarely, after {EVER_EVENTS_MAX:,} events the pattern is open"
        hint = "give a number of events, or learn from sessions that close"
        raise PredictError("TRL810", "chain", what, hint)

    def _stepped(self, before: F64) -> F64:
        """Return by state of the pattern the probabilities one event earlier."""
        pattern, values = self._pattern, before.copy()
        for state in np.flatnonzero(~pattern.is_final).tolist():
            found = self._chain.expectations(self.gains(state, before))
            quiet = before[pattern.next[state, NO_NAME]]
            values[state] = np.where(self._stays, quiet, found)
        return values

    def gains(self, state: int, values: F64) -> F64:
        """Return by [agent, next, row] the probability after each symbol, from a state of the pattern."""
        steps, following = self._counted.steps, self._pattern.next[state]
        found = np.empty(self._shape)
        agents = np.arange(self._shape[0])[:, None, None]
        symbols = np.arange(self._shape[1] - 1)[:, None]
        found[:, :-1, :] = values[following[self._events], agents, symbols, steps.next.T]
        found[:, -1, :] = self._pattern.holds[following[self._closes]]
        return found
