"""Events in memory as columns that are made where something asks for them, and their labels without a frame.

A Polars column of a few events costs as much as all that is computed from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import polars as pl

from ...schemas.event import Event, Kind
from ...schemas.frames.events import event_frame
from ..model.arrays import I64, U64, Mask
from .missing import MISSING, missing_in

Column: TypeAlias = list[Any]
Slices: TypeAlias = tuple[Sequence[str | None], Sequence[bool]]
"""The values of the slices of a `for_each`, and which are unknown: these have no value."""

_CODES = {kind: code for code, kind in enumerate(Kind)}
_END = _CODES[Kind.END]


@dataclass(frozen=True, slots=True)
class RowLabels:
    """The labels of rows: the words of true propositions and then those of unknown ones, and the slices.

    `slices` are by the number of the `for_each`.
    """

    words: U64
    slices: Sequence[Slices]

    @classmethod
    def of_frame(cls, labelled: pl.DataFrame, words: int, keys: int) -> RowLabels:
        """Return the labels that a frame has in the columns of `Labeler.label`."""
        names = [f"{letter}{word}" for letter in "tu" for word in range(words)]
        found: U64 = np.empty((len(labelled), len(names)), dtype=np.uint64)
        for place, name in enumerate(names):
            found[:, place] = labelled[name].to_numpy()
        slices = [(labelled[f"s{key}"].to_list(), labelled[f"su{key}"].to_list()) for key in range(keys)]
        return cls(found, slices)

    @property
    def series(self) -> list[pl.Series]:
        """Return the columns of `Labeler.label`."""
        count = self.words.shape[1] // 2
        names = [f"{letter}{word}" for letter in "tu" for word in range(count)]
        found = [pl.Series(name, self.words[:, place]) for place, name in enumerate(names)]
        for key, (values, unknown) in enumerate(self.slices):
            found.append(pl.Series(f"s{key}", values, dtype=pl.String))
            found.append(pl.Series(f"su{key}", unknown, dtype=pl.Boolean))
        return found


def label_type(name: str) -> pl.DataType:
    """Return the type of a column of `Labeler.label`."""
    types = {"t": pl.UInt64(), "u": pl.UInt64(), "s": pl.String(), "su": pl.Boolean()}
    return types[name.rstrip("0123456789")]


class EventColumns(Protocol):
    """The columns of events in memory; times are nanoseconds since the epoch."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def column(self, name: str) -> Column:
        """Return the values of a column; the caller leaves the list as it is."""
        ...

    def frame(self, names: Sequence[str], rows: Sequence[int]) -> pl.DataFrame:
        """Return the columns of these names at these rows, which ascend."""
        ...

    def missing(self, row: int) -> dict[str, Any] | None:
        """Return a row's value of the column `MISSING`."""
        ...


class FrameColumns:
    """The columns of a frame; without `MISSING`, nothing is missing."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self._frame)

    def column(self, name: str) -> Column:
        """Return the values of a column."""
        if name not in self._columns:
            column = self._frame.get_column(name)
            is_time = name in ("occurrence", "time")
            self._columns[name] = (column.to_physical() if is_time else column).to_list()
        return self._columns[name]

    def frame(self, names: Sequence[str], rows: Sequence[int]) -> pl.DataFrame:
        """Return the columns of these names at these rows."""
        chosen = pl.DataFrame([self._frame.get_column(name) for name in names])
        return chosen if len(rows) == len(self) else chosen[list(rows)]

    def missing(self, row: int) -> dict[str, Any] | None:
        """Return a row's value of the column `MISSING`."""
        return self._frame[MISSING][row] if MISSING in self._frame.columns else None


class ListedEvents:
    """The columns of a list of events."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self._events)

    def column(self, name: str) -> Column:
        """Return the values of a column."""
        if name not in self._columns:
            self._columns[name] = [*map(attrgetter(name), self._events)]
        return self._columns[name]

    def frame(self, names: Sequence[str], rows: Sequence[int]) -> pl.DataFrame:
        """Return the columns of these names at these rows."""
        return event_frame([self._events[row] for row in rows], names)

    def missing(self, row: int) -> dict[str, Any] | None:
        """Return a row's value of the column `MISSING`."""
        return missing_in(self._events[row])


class RowArrays:
    """The columns of events in memory as arrays, each of which is made where something asks for it."""

    def __init__(self, columns: EventColumns) -> None:
        self._columns = columns

    @cached_property
    def sessions(self) -> tuple[I64, list[str]]:
        """Return the number of each row's session, and the ids of sessions by number."""
        numbers: dict[str, int] = {}
        names = self._columns.column("session_id")
        codes = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
        return codes, list(numbers)

    @cached_property
    def occurrences(self) -> I64:
        """Return the occurrences, in nanoseconds since the epoch."""
        return np.array(self._columns.column("occurrence"), dtype=np.int64)

    @cached_property
    def seqs(self) -> I64:
        """Return the places of events in their occurrences."""
        return np.array(self._columns.column("seq"), dtype=np.int64)

    @cached_property
    def kinds(self) -> I64:
        """Return the numbers of the kinds, in their order."""
        return np.array([*map(_CODES.__getitem__, self._columns.column("kind"))], dtype=np.int64)

    @cached_property
    def ends(self) -> Mask:
        """Return which rows are `end` rows."""
        return cast("Mask", self.kinds == _END)

    @cached_property
    def history(self) -> Mask:
        """Return which events are history."""
        return np.array(self._columns.column("history"), dtype=np.bool_)


class LabelledRows:
    """New events and `end` rows of sessions with their labels, in the order of their columns."""

    def __init__(self, columns: EventColumns, labels: RowLabels, arrays: RowArrays | None = None) -> None:
        self.columns, self.labels = columns, labels
        self._arrays = arrays or RowArrays(columns)

    def relabelled(self, labels: RowLabels) -> LabelledRows:
        """Return the same rows with other labels; their arrays are made once for both."""
        return LabelledRows(self.columns, labels, self._arrays)

    @classmethod
    def of_frame(cls, labelled: pl.DataFrame, words: int, keys: int) -> LabelledRows:
        """Return the rows of a frame with the columns of `Labeler.label`, given how many these are."""
        return cls(FrameColumns(labelled), RowLabels.of_frame(labelled, words, keys))

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def session_ids(self) -> list[str]:
        """Return the ids of the sessions."""
        return self.columns.column("session_id")

    @property
    def sessions(self) -> tuple[I64, list[str]]:
        """Return the number of each row's session, and the ids of sessions by number."""
        return self._arrays.sessions

    @property
    def occurrences(self) -> I64:
        """Return the occurrences, in nanoseconds since the epoch."""
        return self._arrays.occurrences

    @property
    def seqs(self) -> I64:
        """Return the places of events in their occurrences."""
        return self._arrays.seqs

    @property
    def kinds(self) -> I64:
        """Return the numbers of the kinds, in their order."""
        return self._arrays.kinds

    @property
    def ends(self) -> Mask:
        """Return which rows are `end` rows."""
        return self._arrays.ends

    @property
    def history(self) -> Mask:
        """Return which events are history."""
        return self._arrays.history
