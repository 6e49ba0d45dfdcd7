"""The tables by which all rules of a chain are followed at once, laid end to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...rules.model.arrays import I32, I64
from ..counting.labelled_sessions import DistinctEvents
from ..drift.event_bets import BetTables
from .follow_loop import NO_TEXT, FollowTables
from .followed_risks import NO_RISK, ContextRisk
from .follower import RuleFollower
from .rule_tables import RuleTables

NO_KEY = -1
"""The key of a rule without a `for_each`."""


class JoinedTables:
    """The tables of rules over all distinct events that were added, whose codes follow one another.

    `keys` are the places of the `for_each` of rules among the slices of events. `texts` are the symbols of
    the chain by their numbers, the same ones for all rules, and `bets` the bets by place of a context.
    """

    def __init__(self, followers: Sequence[RuleFollower], keys: Sequence[int | None]) -> None:
        self.rules: list[RuleTables] = [follower.tables() for follower in followers]
        risks = [each.risks for each in self.rules]
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._symbol_numbers: list[list[int]] = []
        self._symbols: list[list[int]] = [[] for _ in risks]
        self._built: FollowTables | None = None
        self._rows = 0
        # A rule's last value is that of no risk.
        self._value_bases = _bases([len(each.contexts) for each in risks])
        places = [
            np.where(each.table == NO_RISK, NO_RISK, each.table + base).astype(np.int32).ravel()
            for each, base in zip(risks, self._value_bases.tolist(), strict=False)
        ]
        self._fixed: dict[str, Any] = {
            "place_bases": _bases([len(each) for each in places]),
            "place_widths": np.array([each.table.shape[1] for each in risks], dtype=np.int64),
            "places": np.concatenate(places),
            "values": np.concatenate([*(each.values[:-1] for each in risks), [np.nan]]),
            "thresholds": np.array([each.threshold for each in risks], dtype=np.float64),
            "keys": np.array([NO_KEY if key is None else key for key in keys], dtype=np.int32),
        }
        highs = np.concatenate([each.next_highs[:-1] for each in risks])
        self.bets = BetTables(highs, [key is not None for key in keys])

    def add(self, events: DistinctEvents) -> list[bool]:
        """Add distinct events; the first one has the code after the last one's.

        Return which of them a rule steps on without a symbol that the chain knows.
        """
        unseen = [False] * len(events.kinds)
        for tables, numbers in zip(self.rules, self._symbols, strict=True):
            unseen = [before or lacks for before, lacks in zip(unseen, tables.add(events), strict=True)]
            numbers += [self.number(text) for text in tables.texts[len(numbers) :]]
        self._built = None
        return unseen

    def number(self, text: str | None) -> int:
        """Return the number of a symbol of the chain, which the tables have from now on."""
        if text is None:
            return NO_TEXT
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
            self._symbol_numbers.append([each.risks.symbol_number(text) for each in self.rules])
            self._built = None
        return found

    def context(self, rule: int, place: int) -> ContextRisk | None:
        """Return the context of a rule at a place in the values of all rules, None where there is no risk."""
        return None if place == NO_RISK else self.rules[rule].risks.at(place - int(self._value_bases[rule]))

    def arrays(self) -> FollowTables:
        """Return the tables as the loop reads them."""
        rows = sum(len(each.steps.rows) for each in self.rules)
        if self._built is None or rows != self._rows:
            self._rows, self._built = rows, self._joined()
        return self._built

    def _joined(self) -> FollowTables:
        following, verdicts, closings = zip(*(each.steps.arrays() for each in self.rules), strict=True)
        marks = [each.marks for each in self.rules]
        return FollowTables(
            columns=np.array([each.columns for each in self.rules], dtype=np.int32),
            own_columns=np.array([each.own_columns for each in self.rules], dtype=np.int32),
            symbols=np.array(self._symbols, dtype=np.int32),
            mark_bases=_bases(list(map(len, marks))),
            marks=np.concatenate(marks),
            step_bases=_bases([each.size for each in following]),
            widths=np.array([each.shape[1] for each in following], dtype=np.int64),
            following=np.concatenate([each.ravel() for each in following]),
            verdicts=np.concatenate([each.ravel() for each in verdicts]),
            row_bases=_bases(list(map(len, closings))),
            row_numbers=_joined_numbers([each.row_numbers() for each in self.rules]),
            closings=np.concatenate(closings),
            symbol_numbers=np.array(self._symbol_numbers, dtype=np.int32)
            .reshape(-1, len(self.rules))
            .T.copy(),
            **self._fixed,
        )


def _bases(sizes: Sequence[int]) -> I64:
    """Return the first index of each part of a flat array, and the end of the last one."""
    return np.cumsum([0, *sizes], dtype=np.int64)


def _joined_numbers(parts: Sequence[Sequence[int]]) -> I32:
    return np.array([number for part in parts for number in part], dtype=np.int32)
