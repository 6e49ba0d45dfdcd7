"""The tables by which a rule is followed, which grow with the distinct events that it reads."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...rules.model.arrays import I32, U8
from ..counting.labelled_sessions import DistinctEvents
from ..counting.sequence_loop import NOT_SEEN
from ..counting.sequences import SymbolNumbers, event_columns
from ..counting.step_rows import RowKey, StepRows
from ..counting.symbols import RARE, of_slice
from ..counting.watched_rules import WatchedRules
from .follow_loop import FollowTables
from .followed_risks import NO_RISK, ContextRisk, FollowedRisks


class RuleTables:
    """The tables of one rule over all distinct events that were added, whose codes follow one another.

    `symbols` are those of the rule's pack, and `steps` is the rule's step table, which grows, too. `texts`
    has the symbols of the chain by their numbers in `FollowMemory.symbols`.
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
        self._symbols, self._steps = symbols, steps
        self._columns, self._own_columns = (np.empty(0, dtype=np.int32) for _ in range(2))
        self._marks: U8 = np.empty(0, dtype=np.uint8)
        self.texts: list[str] = []
        self._rows: dict[str, int] = {}
        self._runs: dict[tuple[str | None, str], tuple[int, int]] = {}
        self._names: list[str] = []
        self._built: FollowTables | None = None

    def add(self, events: DistinctEvents) -> list[bool]:
        """Add distinct events; the first one has the code after the last one's.

        Return which of them the rule steps on without a symbol that the chain knows.
        """
        numbers, columns, own_columns, marks = event_columns(
            self._watched, self._rule, events, self._symbols, self._steps
        )
        self._columns = np.append(self._columns, columns)
        self._own_columns = np.append(self._own_columns, own_columns)
        joined = np.zeros(max(len(marks), len(self._marks)), dtype=np.uint8)
        joined[: len(marks)] |= marks
        joined[: len(self._marks)] |= self._marks
        self._marks = joined
        codes: list[int] = numbers.tolist()
        texts = [
            chain_symbol(self.risks, self._rule, self._symbols, number, is_own=is_own)
            for number in codes
            for is_own in (False, True)
        ]
        self.texts += texts
        self._built = None
        is_stepped: list[bool] = (columns != NOT_SEEN).tolist()
        known = [any(map(self.risks.knows, texts[2 * code : 2 * code + 2])) for code in range(len(codes))]
        return [steps and not knows for steps, knows in zip(is_stepped, known, strict=True)]

    def _row(self, name: str) -> int:
        """Return the row with that name, which the table has from now on."""
        found = self._rows.get(name)
        if found is None:
            known = len(self._steps.rows)
            found = self._rows[name] = self._steps.row(RowKey.of_text(name))
            if len(self._steps.rows) > known:
                self._built = None
        return found

    def names(self) -> list[str]:
        """Return by row its name, which does not depend on the order in which the rows were reached."""
        self._names += [row.text for row in self._steps.rows[len(self._names) :]]
        return self._names

    def arrays(self) -> FollowTables:
        """Return the tables as the loop reads them."""
        if self._built is None:
            following, verdicts, _ = self._steps.arrays()
            states, memory = self._steps.names()
            self._built = FollowTables(
                columns=self._columns,
                own_columns=self._own_columns,
                marks=self._marks,
                following=following,
                verdicts=verdicts,
                places=self.risks.places(self.texts, states.tolist(), memory),
                values=self.risks.values,
            )
        return self._built

    @property
    def closings(self) -> U8:
        """Return by row the code of the session's end there."""
        return self._steps.arrays()[2]

    def runs(self, symbols: Iterable[str | None], names: Iterable[str]) -> tuple[list[int], list[int]]:
        """Return the row of each name, and the place of the risk in it after the symbol beside it."""
        known, run = self._runs.get, self.run
        keys = zip(symbols, names, strict=True)
        found = [known(key) or run(*key) for key in keys]
        return [row for row, _ in found], [place for _, place in found]

    def run(self, symbol: str | None, name: str) -> tuple[int, int]:
        """Return the row of that name, and the place of the risk there after a symbol, or `NO_RISK`."""
        found = self._runs.get((symbol, name))
        if found is None:
            row, place = self._row(name), NO_RISK
            if symbol is not None:
                states, memory = self._steps.names()
                places: I32 = self.risks.places([symbol], [int(states[row])], [memory[row]])
                place = int(places[0, 0])
            found = self._runs[symbol, name] = row, place
        return found

    def context(self, symbol: str, name: str) -> ContextRisk | None:
        """Return the risk after an event with that symbol of the chain in the row of that name."""
        return self.risks.at(self.run(symbol, name)[1])


def chain_symbol(
    risks: FollowedRisks, rule: int, symbols: SymbolNumbers, number: int, *, is_own: bool
) -> str:
    """Return the symbol of an event for the chain: that of all rare ones where it knows no other."""
    text = of_slice(symbols.texts[number], is_own)
    letters = symbols.letters[rule].get(number)
    if letters is None or risks.knows(text):
        return text
    return of_slice(RARE + letters.text, is_own)
