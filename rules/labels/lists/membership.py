"""Membership of an element of one list in another list of the same event, without comparing all pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from ...model.predicate import ELEMENT, NUMBER
from .elements import LIST, OWNER, element_documents

VALUE = "value"
"""The input column with the text that is looked up; null where there is no value."""

_SAME = (("text", "text"), ("integer", "integer"), ("double", "rounded"), ("rounded", "double"))
"""The keys of two values, one pair of which is equal where `compare_values` finds the values equal."""


def looked_up(
    lists: pl.Expr, value: pl.Expr, steps: Sequence[str | int], values: Callable[[pl.DataFrame], pl.Series]
) -> pl.Expr:
    """Return whether a value equals what is at the steps in an element of its row's list; never null.

    Rows of the same `OWNER` have the same list, whose text is at one of them. `values` returns the texts of
    the elements in a frame with the column `ELEMENT`.
    """

    def evaluate(rows: pl.Series) -> pl.Series:
        frame = rows.struct.unnest()
        holders = frame.filter(pl.col(LIST).is_not_null())
        documents = [element_documents(text, steps) for text in holders[LIST]]
        owners = np.repeat(holders[OWNER].to_numpy(), [len(found) for found in documents])
        elements = pl.Series(ELEMENT, [each for found in documents for each in found], dtype=pl.String)
        if not len(elements):
            return pl.repeat(False, len(frame), dtype=pl.Boolean, eager=True)
        members = _keys(pl.Series(OWNER, owners), values(elements.to_frame()))
        asked = _keys(frame[OWNER], frame[VALUE]).with_row_index("row")
        found = np.zeros(len(frame), dtype=np.bool_)
        for left, right in _SAME:
            there = members.select(OWNER, pl.col(right).alias(left))
            hits = asked.join(there, on=[OWNER, left], how="semi")
            found[hits["row"].to_numpy()] = True
        return pl.Series(found)

    inputs = [pl.col(OWNER), lists.alias(LIST), value.alias(VALUE)]
    return pl.struct(inputs).map_batches(evaluate, return_dtype=pl.Boolean())


def _keys(owner: pl.Series, value: pl.Series) -> pl.DataFrame:
    """Return the keys by which texts are equal: of texts, of integers, and of all and of other numbers."""
    is_number = value.str.contains(f"^{NUMBER}$")
    number = value.set(~is_number, None)
    integer = number.cast(pl.Int128, strict=False)
    double = number.cast(pl.Float64, strict=False) + 0.0  # -0.0 is 0.0
    return pl.DataFrame(
        {
            OWNER: owner,
            "text": value.set(is_number, None),
            "integer": integer.cast(pl.String),
            "double": double,
            "rounded": double.set(integer.is_not_null(), None),
        }
    )
