"""The step table of one rule over the symbols of its chain: the effect of each symbol in each state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...rules.model.arrays import I32, U8

PENDING_STEP, VIOLATED_STEP, SATISFIED_STEP, CUT_STEP = range(4)
"""Codes of `StepTable.verdicts`; at the last the rule becomes unjudged, and the sequence is cut."""

OPEN_CLOSING, HELD_CLOSING, UNMET_CLOSING, CUT_CLOSING = range(4)
"""Codes of `StepTable.closings`: no instance is pending, held, unmet, and undecided by what is unknown."""


@dataclass(frozen=True, slots=True)
class StepTable:
    """The rule's machine and the memory formulas stepped together; row 0 is the state before any event.

    `next[row, symbol]` is the row after an event with that symbol (columns as in `SymbolSet`, without
    `start` and `end`), `verdicts[row, symbol]` the code of the verdict at it, and `closings[row]` that of the
    session's end there. `states[row]` is the state of the rule's machine; where something unknown left
    several, the number is at least that of the machine's states. `memory[row]` is the text of what the memory
    formulas remember, "" without any, and `residuals[row]` the formula that the coming events must satisfy.
    `finals[row]` is true where no verdict against the agent can come any more, because the rule stopped.
    """

    next: I32
    verdicts: U8
    closings: U8
    finals: NDArray[np.bool_]
    states: I32
    memory: tuple[str, ...]
    residuals: tuple[str, ...]

    def violates_at_end(self) -> NDArray[np.bool_]:
        """Return for each row whether the session's end there is a verdict against the agent."""
        return self.closings == UNMET_CLOSING
