"""The runs of sessions and of slices as numbers of a process's tables, and as the texts of stored states.

Numbers depend on the events that a process has read. Sessions come to few combinations of rows and symbols,
so each combination is translated once, both ways.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....rules.labels.few import REMEMBERED_MAX
from ..follow_loop import NO_TEXT
from ..joined_tables import JoinedTables
from .followed_session import BETWEEN, NO_SYMBOL, FollowedSession
from .slice_runs import StoredRun, StoredRuns, decoded_runs, encoded_runs

NO_ROW = -1
"""The row of a rule of which a slice has not begun."""


class RunTexts:
    """The runs of rules by number and by text; `keys` has the places of the rules of each `for_each`.

    The numbers of a session's runs, and those of a slice, are the bytes of an array of 32-bit numbers: rows,
    or symbols, in the order of rules; and row, symbol and flags of each rule with the `for_each`.
    """

    def __init__(self, tables: JoinedTables, keys: Sequence[Sequence[int]]) -> None:
        self._tables, self._keys = tables, keys
        self._row_numbers: dict[str, bytes] = {}
        self._row_texts: dict[bytes, str] = {}
        self._symbol_numbers: dict[tuple[tuple[int, ...], tuple[str, ...]], bytes] = {}
        self._symbol_texts: dict[bytes, tuple[list[int], list[str]]] = {}
        self._slice_numbers: list[dict[bytes, bytes]] = [{} for _ in keys]
        self._slice_texts: list[dict[bytes, bytes]] = [{} for _ in keys]

    def forget(self) -> None:
        """Forget the translations where they are many."""
        tables = self._row_numbers, self._row_texts, self._symbol_numbers, self._symbol_texts
        for table in (*tables, *self._slice_numbers, *self._slice_texts):
            if len(table) > REMEMBERED_MAX:
                table.clear()

    def rows(self, state: FollowedSession) -> bytes:
        """Return the rows of a session's own runs."""
        found = self._row_numbers.get(state.rows)
        if found is None:
            names = zip(self._tables.rules, state.rows.split(BETWEEN), strict=True)
            found = _numbers([tables.row(name) for tables, name in names])
            self._row_numbers[state.rows] = found
        return found

    def symbols(self, state: FollowedSession) -> bytes:
        """Return the last symbols of a session's own runs."""
        key = tuple(state.lasts), tuple(state.symbols)
        found = self._symbol_numbers.get(key)
        if found is None:
            texts = [None if place == NO_SYMBOL else state.symbols[place] for place in state.lasts]
            found = self._symbol_numbers[key] = _numbers([*map(self._tables.number, texts)])
        return found

    def row_text(self, numbers: bytes) -> str:
        """Return the names of rows, as a state has them."""
        found = self._row_texts.get(numbers)
        if found is None:
            rows: list[int] = np.frombuffer(numbers, dtype=np.int32).tolist()
            names = [tables.names()[row] for tables, row in zip(self._tables.rules, rows, strict=True)]
            found = self._row_texts[numbers] = BETWEEN.join(names)
        return found

    def symbol_texts(self, numbers: bytes) -> tuple[list[int], list[str]]:
        """Return the places of the last symbols, and the symbols, as a state has them."""
        found = self._symbol_texts.get(numbers)
        if found is None:
            # The first one has the place `NO_SYMBOL`.
            places: dict[int, int] = {NO_TEXT: NO_SYMBOL}
            lasts = [
                places.setdefault(number, len(places) - 1)
                for number in np.frombuffer(numbers, dtype=np.int32).tolist()
            ]
            symbols = [self._tables.texts[number] for number in places if number != NO_TEXT]
            found = self._symbol_texts[numbers] = lasts, symbols
        return found

    def slice_runs(self, key: int, stored: bytes | None) -> bytes:
        """Return the runs of a slice; without `stored` runs, none has begun."""
        table = self._slice_numbers[key]
        found = table.get(stored or b"")
        if found is None:
            count = len(self._keys[key])
            runs: StoredRuns = (None,) * count if stored is None else decoded_runs(stored)
            pairs = zip(self._keys[key], runs, strict=True)
            found = _numbers([number for place, run in pairs for number in self._run(place, run)])
            table[stored or b""] = found
        return found

    def stored_runs(self, key: int, numbers: bytes) -> bytes:
        """Return the runs of a slice as a state has them; no bytes where none has begun."""
        table = self._slice_texts[key]
        found = table.get(numbers)
        if found is None:
            rows: list[list[int]] = np.frombuffer(numbers, dtype=np.int32).reshape(-1, 3).tolist()
            runs = tuple(
                [self._stored(place, *row) for place, row in zip(self._keys[key], rows, strict=True)]
            )
            found = table[numbers] = encoded_runs(runs) if any(runs) else b""
        return found

    def _run(self, place: int, run: StoredRun | None) -> tuple[int, int, int]:
        if run is None:
            return NO_ROW, NO_TEXT, 0
        return self._tables.rules[place].row(run.row), self._tables.number(run.symbol), run.flags

    def _stored(self, place: int, row: int, symbol: int, flags: int) -> StoredRun | None:
        if row == NO_ROW:
            return None
        text = None if symbol == NO_TEXT else self._tables.texts[symbol]
        return StoredRun(self._tables.rules[place].names()[row], text, flags)


def _numbers(values: Sequence[int]) -> bytes:
    return np.array(values, dtype=np.int32).tobytes()
