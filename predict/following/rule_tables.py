"""The tables by which a rule is followed, which grow with the distinct events that it reads."""

from __future__ import annotations

import numpy as np

from ...rules.model.arrays import I32, U8
from ..counting.labelled_sessions import DistinctEvents
from ..counting.sequence_loop import NOT_SEEN
from ..counting.sequences import SymbolNumbers, event_columns
from ..counting.step_rows import RowKey, StepRows
from ..counting.symbols import RARE, of_slice
from ..counting.watched_rules import WatchedRules
from .followed_risks import ContextRisk, FollowedRisks


class RuleTables:
    """The tables of one rule over all distinct events that were added, whose codes follow one another.

    `symbols` are those of the rule's pack, and `steps` is the rule's step table, which grows, too. `columns`
    and `own_columns` are by code, `marks` by column; `texts` has the symbols of the chain by twice the code,
    plus one where the event carries the slice's value. `row_numbers` are those of the chain by row.
    """

    def __init__(
        self,
        watched: WatchedRules,
        rule: int,
        risks: FollowedRisks,
        symbols: SymbolNumbers,
        steps: StepRows,
    ) -> None:
        self._watched, self._rule, self.risks = watched, rule, risks
        self._symbols, self.steps = symbols, steps
        self.columns, self.own_columns = (np.empty(0, dtype=np.int32) for _ in range(2))
        self.marks: U8 = np.empty(0, dtype=np.uint8)
        self.texts: list[str] = []
        self._rows: dict[str, int] = {}
        self._names: list[str] = []
        self._row_numbers: list[int] = []

    def add(self, events: DistinctEvents) -> list[bool]:
        """Add distinct events; the first one has the code after the last one's.

        Return which of them the rule steps on without a symbol that the chain knows.
        """
        numbers, columns, own_columns, marks = event_columns(
            self._watched, self._rule, events, self._symbols, self.steps
        )
        self.columns = np.append(self.columns, columns)
        self.own_columns = np.append(self.own_columns, own_columns)
        joined = np.zeros(max(len(marks), len(self.marks)), dtype=np.uint8)
        joined[: len(marks)] |= marks
        joined[: len(self.marks)] |= self.marks
        self.marks = joined
        codes: list[int] = numbers.tolist()
        texts = [
            chain_symbol(self.risks, self._rule, self._symbols, number, is_own=is_own)
            for number in codes
            for is_own in (False, True)
        ]
        self.texts += texts
        is_stepped: list[bool] = (columns != NOT_SEEN).tolist()
        known = [any(map(self.risks.knows, texts[2 * code : 2 * code + 2])) for code in range(len(codes))]
        return [steps and not knows for steps, knows in zip(is_stepped, known, strict=True)]

    def row(self, name: str) -> int:
        """Return the row with that name, which the table has from now on."""
        found = self._rows.get(name)
        if found is None:
            found = self._rows[name] = self.steps.row(RowKey.of_text(name))
        return found

    def names(self) -> list[str]:
        """Return by row its name, which does not depend on the order in which the rows were reached."""
        self._names += [row.text for row in self.steps.rows[len(self._names) :]]
        return self._names

    def row_numbers(self) -> list[int]:
        """Return by row its number in the table of risks."""
        states, memory = self.steps.names()
        known = len(self._row_numbers)
        new = zip(states[known:].tolist(), memory[known:], strict=True)
        self._row_numbers += [self.risks.row_number(*each) for each in new]
        return self._row_numbers

    def context(self, symbol: str, name: str) -> ContextRisk | None:
        """Return the risk after an event with that symbol of the chain in the row of that name."""
        row = self.row(name)
        places: I32 = self.risks.table[self.risks.symbol_number(symbol)]
        return self.risks.at(int(places[self.row_numbers()[row]]))


def chain_symbol(
    risks: FollowedRisks, rule: int, symbols: SymbolNumbers, number: int, *, is_own: bool
) -> str:
    """Return the symbol of an event for the chain: that of all rare ones where it knows no other."""
    text = of_slice(symbols.texts[number], is_own)
    letters = symbols.letters[rule].get(number)
    if letters is None or risks.knows(text):
        return text
    return of_slice(RARE + letters.text, is_own)
