"""JSON of a few rows, decoded once a row: what `json_values` finds at paths, without an expression for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import orjson
import polars as pl

from ..model.predicate import Path
from . import json_values as values
from .guards import CAPTURED_FIELDS
from .numbers import double_text, loaded, written
from .plan import ColumnPlan

DEPTH_MAX = 127
"""Levels of arrays and objects beyond which Polars reads no JSON."""
VAST_MIN = 1e16
"""The smallest double that `slices` takes for an integer whose digits are lost."""

_HAS_DOUBLE = re.compile(rb"[0-9](?:\.|e)")
"""A match in compact JSON with a double, and in some without."""

Decoded: TypeAlias = Any
"""A JSON value; None where there is none, or null."""


def decoded(document: str | None) -> Decoded:
    """Return the value of a JSON text, None where `json_values.at_path` finds nothing in it."""
    if document is None:
        return None
    try:
        value = loaded(document)
    except orjson.JSONDecodeError:
        return None
    is_deep = document.count("[") + document.count("{") > DEPTH_MAX and _depth(value) > DEPTH_MAX
    return None if is_deep else value


def at(value: Decoded, steps: Sequence[str | int]) -> Decoded:
    """Return the value at a path."""
    for step in steps:
        if isinstance(step, str):
            value = cast("dict[str, Any]", value).get(step) if isinstance(value, dict) else None
        else:
            items = cast("list[Any]", value) if isinstance(value, list) else []
            value = items[step] if step < len(items) else None
    return value


def text_of(value: Decoded) -> str | None:
    """Return a value as the text that `json_values.at_path` returns."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return double_text(value)
    data = orjson.dumps(value)
    return written(value) if _HAS_DOUBLE.search(data) else data.decode()


def is_container(value: Decoded) -> bool:
    """Return whether a value is an object or array."""
    return isinstance(value, dict | list)


def is_string(value: Decoded) -> bool:
    """Return whether a value is a string."""
    return isinstance(value, str)


def is_vast(value: Decoded) -> bool:
    """Return whether a value is a number whose digits are lost."""
    return isinstance(value, float) and abs(value) >= VAST_MIN


def _whole(document: str | None, value: Decoded) -> str | None:
    """Return what `json_values.whole` does of a whole field and its value."""
    if document == "null":
        return None
    return value if isinstance(value, str) and document is not None and document[0] == '"' else document


def _depth(value: Decoded) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, cast("dict[str, Any]", value).values()), default=0)
    return 1 + max(map(_depth, cast("list[Any]", value)), default=0) if isinstance(value, list) else 0


_READERS: dict[str, tuple[Callable[[Decoded], Any], Any]] = {
    "found": (text_of, pl.String()),
    "container": (is_container, pl.Boolean()),
    "string": (is_string, pl.Boolean()),
    "vast": (is_vast, pl.Boolean()),
}
"""What a plan asks of a path, with the type of the column."""


@dataclass
class DecodedPlan(ColumnPlan):
    """A column plan for a few rows, of which `inputs` computes the JSON.

    `asked` has the names of its columns by what it asks of which path. The caller gives the columns `opened`:
    where a field is open.
    """

    asked: dict[tuple[str, Path], str] = field(default_factory=dict[tuple[str, Path], str])
    opened: dict[str, str] = field(default_factory=dict[str, str])

    def inputs(self, events: pl.DataFrame) -> list[pl.Series]:
        """Return the columns that the plan asks of JSON."""
        documents = {
            path.field: cast("list[str | None]", events.get_column(path.field).to_list())
            for _, path in self.asked
        }
        known: dict[str | None, Decoded] = {}
        for column in documents.values():
            known |= {document: decoded(document) for document in set(column) - known.keys()}
        columns: list[pl.Series] = []
        for (asked, path), name in self.asked.items():
            column = documents[path.field]
            if asked == "whole":
                texts = [_whole(document, known[document]) for document in column]
                columns.append(pl.Series(name, texts, dtype=pl.String))
            else:
                read, dtype = _READERS[asked]
                found = [read(at(known[document], path.steps)) for document in column]
                columns.append(pl.Series(name, found, dtype=dtype))
        return columns

    def open(self, path: Path) -> pl.Expr | None:
        """Return where the path's field is unknown; None if the field is metadata, which is always known."""
        if path.field not in CAPTURED_FIELDS:
            return None
        self.column(path.field)
        return pl.col(self.opened.setdefault(path.field, f"__open_{path.field}"))

    def document(self, path: Path) -> pl.Expr:
        """Return the scalar or container at a path of JSON as text; null where there is none."""
        return self._ask("found", path)

    def is_container(self, path: Path) -> pl.Expr:
        """Return whether an object or array is at the path."""
        return self._ask("container", path) if path.field in values.JSON_FIELDS else pl.lit(False)

    def is_string(self, path: Path) -> pl.Expr:
        """Return whether a string is at a path of JSON."""
        return self._ask("string", path)

    def is_vast(self, path: Path) -> pl.Expr:
        """Return whether the path leads to a number whose digits are lost."""
        return self._ask("vast", path)

    def whole(self, path: Path) -> pl.Expr:
        """Return the value of a whole field."""
        return self._ask("whole", path) if path.field in values.JSON_FIELDS else super().whole(path)

    def _ask(self, asked: str, path: Path) -> pl.Expr:
        self.column(path.field)
        return pl.col(self.asked.setdefault((asked, path), f"__json_{len(self.asked)}"))
