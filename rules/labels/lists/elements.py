"""The elements of JSON lists as rows, on which a plan of columns answers a condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import polars as pl
from numpy.typing import NDArray

from ...model.predicate import ELEMENT

LIST = "list"
"""The input column with the JSON text of the list; null where there is no list."""

OWNER = "owner"
"""The column with the row of each element's list."""

ROWS_MAX = 10_000
"""Rows whose elements are in memory together."""


@dataclass(frozen=True, slots=True)
class ElementAnswers:
    """The answers of a condition on the elements of a chunk of rows.

    `owners` has the row of each element, and `answers` its answer, null where that is unknown. `is_list` is
    where a row has a list.
    """

    owners: NDArray[np.int64]
    answers: pl.Series
    is_list: NDArray[np.bool_]

    def count(self, answers: pl.Series) -> NDArray[np.int64]:
        """Return for each row the number of its elements at which this Boolean is true."""
        return np.bincount(self.owners[answers.to_numpy()], minlength=len(self.is_list))


@dataclass(frozen=True, slots=True)
class ElementQuestion:
    """A condition on what is at `steps` in the elements of lists.

    `lists` is the JSON text of each row's list. `carried` are the other columns of the rows that the
    condition reads, and `answer` returns its answers for a frame with them and the columns `ELEMENT` and
    `OWNER`. The columns of `looked_up` are lists, which only the first element of a row carries.
    """

    lists: pl.Expr
    steps: Sequence[str | int]
    carried: Mapping[str, pl.Expr]
    looked_up: Mapping[str, pl.Expr]
    answer: Callable[[pl.DataFrame], pl.Series]

    def folded(self, fold: Callable[[ElementAnswers], pl.Series], dtype: Any) -> pl.Expr:
        """Return the column that `fold` makes of the elements' answers; it may be given no rows."""
        inputs = [self.lists.alias(LIST), *self.carried.values(), *self.looked_up.values()]

        def evaluate(rows: pl.Series) -> pl.Series:
            frame = rows.struct.unnest()
            chunks = [fold(self._answers(chunk)) for chunk in frame.iter_slices(ROWS_MAX)]
            return pl.concat(chunks) if chunks else pl.Series(dtype=dtype)

        return pl.struct(inputs).map_batches(evaluate, return_dtype=dtype, is_elementwise=True)

    def _answers(self, rows: pl.DataFrame) -> ElementAnswers:
        is_list = rows[LIST].is_not_null().to_numpy()
        places = np.flatnonzero(is_list)
        documents = [element_documents(text, self.steps) for text in rows[LIST].gather(places)]
        owners = np.repeat(places, [len(found) for found in documents])
        if not len(owners):
            return ElementAnswers(owners, pl.Series(dtype=pl.Boolean), is_list)
        elements = pl.Series(ELEMENT, [document for found in documents for document in found])
        frame = rows.drop(LIST)[owners].with_columns(elements, pl.Series(OWNER, owners))
        first = pl.lit(pl.Series(np.diff(owners, prepend=-1) != 0))
        carriers = [expr.meta.output_name() for expr in self.looked_up.values()]
        frame = frame.with_columns(pl.when(first).then(name).alias(name) for name in carriers)
        return ElementAnswers(owners, self.answer(frame), is_list)


def element_documents(text: str, steps: Sequence[str | int]) -> list[str]:
    """Return what is at the steps in each element of a list, each as a JSON array with this one value.

    It is null where an element has nothing there.
    """
    return [orjson.dumps([at_steps(element, steps)]).decode() for element in orjson.loads(text)]


def at_steps(value: Any, steps: Sequence[str | int]) -> Any:
    """Return what is at the steps in a JSON value, or None; the characters of a string are no elements."""
    for step in steps:
        if isinstance(value, str):
            return None
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value
