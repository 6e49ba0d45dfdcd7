"""The tables by which a rule is followed over an archive, which grow with its distinct events."""

from __future__ import annotations

import numpy as np

from ....rules.model.arrays import I32, I64, U8, Mask
from ...chain.contexts import UNSEEN
from ...chain.steps import CUT_STEP, VIOLATED_STEP
from ...counting.labelled_sessions import DistinctEvents
from ...counting.sequence_loop import NOT_SEEN
from ...counting.sequences import event_columns
from ..follow_loop import DOWN_SHARE
from ..followed_risks import NO_RISK
from ..follower import RuleFollower
from ..rule_tables import chain_symbol
from .session_loop import (
    CUTS,
    HAS_RISK,
    IS_BET,
    IS_HIGH,
    PLACE_SHIFT,
    ROW_SHIFT,
    STAYS_HIGH,
    VIOLATES,
    ArchiveTables,
)


class EntryTables:
    """The tables of one rule over all distinct events that were added, whose codes follow one another.

    Events with the same symbol of the chain and the same step are of one kind. `is_bet` is by risk.
    """

    def __init__(self, follower: RuleFollower, is_bet: Mask) -> None:
        self._follower, self._is_bet = follower, is_bet
        self._numbers: dict[tuple[str, int], int] = {}
        self._marks: list[int] = []
        self._kinds: list[int] = []
        self._own_kinds: list[int] = []
        self._built: ArchiveTables | None = None

    def add(self, events: DistinctEvents) -> None:
        """Add distinct events; the first one has the code after the last one's."""
        of = self._follower
        found = event_columns(of.watched, of.rule, events, of.symbols, of.steps)
        numbers, columns, own_columns, marks = found
        for number, column, own_column in zip(
            numbers.tolist(), columns.tolist(), own_columns.tolist(), strict=True
        ):
            kind = own_kind = NOT_SEEN
            if column != NOT_SEEN:
                kind = own_kind = self._kind(number, column, int(marks[column]), is_own=False)
                if of.key is not None:
                    own_kind = self._kind(number, own_column, 0, is_own=True)
            self._kinds.append(kind)
            self._own_kinds.append(own_kind)
        self._built = None

    def arrays(self) -> ArchiveTables:
        """Return the tables as the loop reads them."""
        if self._built is None:
            entries, closings = self._entries()
            self._built = ArchiveTables(
                kinds=np.array(self._kinds, dtype=np.int32),
                own_kinds=np.array(self._own_kinds, dtype=np.int32),
                marks=np.array(self._marks, dtype=np.uint8),
                entries=entries,
                width=len(self._numbers),
                closings=closings,
            )
        return self._built

    def _kind(self, number: int, column: int, mark: int, *, is_own: bool) -> int:
        """Return the kind of an event with a symbol, whose step has that column."""
        of = self._follower
        text = chain_symbol(of.risks, of.rule, of.symbols, number, is_own=is_own)
        key = text if of.risks.knows(text) else UNSEEN, column
        kind = self._numbers.setdefault(key, len(self._numbers))
        if kind == len(self._marks):
            self._marks.append(0)
        self._marks[kind] |= mark
        return kind

    def _entries(self) -> tuple[I64, U8]:
        """Return the entries by row and kind, and the closing by row."""
        risks, steps = self._follower.risks, self._follower.steps
        following, verdict_codes, closings = steps.arrays()
        states, memory = steps.names()
        columns: I32 = np.array([column for _, column in self._numbers], dtype=np.int32)
        rows, verdicts = following[:, columns], verdict_codes[:, columns]
        by_symbol = risks.places([text for text, _ in self._numbers], states.tolist(), memory)
        found = by_symbol[np.arange(len(columns)), rows]
        # The last value is that of no risk.
        places = np.where(found == NO_RISK, len(risks.values) - 1, found).astype(np.int64)
        values = risks.values[places]
        entries = places << PLACE_SHIFT | rows.astype(np.int64) * len(columns) << ROW_SHIFT
        for bit, is_set in (
            (CUTS, verdicts == CUT_STEP),
            (VIOLATES, verdicts == VIOLATED_STEP),
            (IS_HIGH, values >= risks.threshold),
            (STAYS_HIGH, values >= DOWN_SHARE * risks.threshold),
            (HAS_RISK, ~np.isnan(values)),
            (IS_BET, self._is_bet[places]),
        ):
            entries |= is_set * bit
        return entries.ravel(), closings
