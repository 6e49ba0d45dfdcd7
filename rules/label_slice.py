"""The value that names an event's slice (`for_each`), as Polars expressions."""

from __future__ import annotations

import re
from typing import cast

import orjson
import polars as pl

from ..schemas.event import Kind, canonical_text
from . import label_value as values
from .label_sheet import Sheet
from .predicate import Path
from .rule import SliceKey

_WORDS = frozenset({"kind", "content", "nested", "late", "history"})
"""Fields that hold no text, though their values have one."""

_SUBTLE = re.compile(r"(?:^|[:\[,])-?[0-9]*(?:[0-9][.eE]|[0-9]{16})")
"""In compact JSON: numbers whose canonical form is not simply their digits."""


def slice_columns(sheet: Sheet, key: SliceKey) -> tuple[pl.Expr, pl.Expr]:
    """The slice's value (text, null where the event carries none) and whether it cannot be said.

    It cannot be said where a field that it is read from was not captured, and where an array or object stands
    outside a tuple.
    """
    return _tuple(sheet, key.paths) if key.joint else _first(sheet, key.paths)


def _first(sheet: Sheet, paths: tuple[Path, ...]) -> tuple[pl.Expr, pl.Expr]:
    """The first of the paths that is present."""
    value, unknown = pl.lit(None, dtype=pl.String), pl.lit(False)
    for path in reversed(paths):
        here, unsaid = _text(sheet, path), _open(sheet, path) | sheet.is_container(path)
        unknown = unsaid | (here.is_null() & unknown)
        value = pl.when(~unsaid).then(pl.coalesce(here, value))
    return value, unknown


def _tuple(sheet: Sheet, paths: tuple[Path, ...]) -> tuple[pl.Expr, pl.Expr]:
    """All of the paths as a canonical JSON array; absent if one is known to be."""
    opens = [_open(sheet, path) for path in paths]
    parts = [_part(sheet, path) for path in paths]
    absent = pl.any_horizontal(
        [text.is_null() & ~unsaid for (text, _), unsaid in zip(parts, opens, strict=True)]
    )
    unknown = pl.any_horizontal(opens) & ~absent
    present = ~absent & ~unknown
    columns = [pl.when(present).then(text).alias(f"text{i}") for i, (text, _) in enumerate(parts)]
    columns += [is_json.alias(f"json{i}") for i, (_, is_json) in enumerate(parts)]
    value = pl.struct(columns).map_batches(_canonical_tuples, return_dtype=pl.String, is_elementwise=True)
    return value, unknown


def _open(sheet: Sheet, path: Path) -> pl.Expr:
    if path.field == "kind":
        return pl.col("kind") == Kind.UNKNOWN.value
    unknown = sheet.open(path)
    return pl.lit(False) if unknown is None else unknown


def _text(sheet: Sheet, path: Path) -> pl.Expr:
    value = sheet.value(path)
    return value.cast(pl.String) if path.field in _WORDS else value


def _part(sheet: Sheet, path: Path) -> tuple[pl.Expr, pl.Expr]:
    """A member of a tuple: its text, null where it is absent, and whether that is JSON and not a string."""
    if path.field not in values.JSON_FIELDS:
        return _text(sheet, path), pl.lit(False)
    document = sheet.document(path)
    found = values.at_path(document, path.steps)
    if path.steps:
        return found, (found != values.string_at_path(document, path.steps)).fill_null(True)
    # A whole `result` may be plain text, and so may broken arguments.
    is_json = found.is_not_null() & ~document.str.contains(r'^\s*"')
    return pl.when(sheet.value(path).is_not_null()).then(pl.coalesce(found, document)), is_json


def _canonical_tuples(members: pl.Series) -> pl.Series:
    """One JSON array a row, null where a member is; `members` has the fields `text0`... and `json0`..."""
    count = len(members.struct.fields) // 2
    known: dict[tuple[str, bool], str] = {}
    columns: list[list[str | None]] = []
    for i in range(count):
        texts = cast("list[str | None]", members.struct.field(f"text{i}").to_list())
        jsons = cast("list[bool]", members.struct.field(f"json{i}").to_list())
        columns.append([_member(text, json, known) for text, json in zip(texts, jsons, strict=True)])
    rows = (
        None if None in row else f"[{','.join(cast('tuple[str, ...]', row))}]"
        for row in zip(*columns, strict=True)
    )
    return pl.Series(members.name, list(rows), dtype=pl.String)


def _member(text: str | None, is_json: bool, known: dict[tuple[str, bool], str]) -> str | None:
    """The canonical JSON of one member; `known` remembers, as a result carries the arguments of its call."""
    if text is None:
        return None
    if (text, is_json) not in known:
        known[text, is_json] = _canonical(text) if is_json else orjson.dumps(text).decode()
    return known[text, is_json]


def _canonical(text: str) -> str:
    """Compact JSON text in canonical form (RFC 8785)."""
    if text.isascii() and not _SUBTLE.search(text):
        # Sorting bytes is sorting UTF-16 here, and integers this small are written alike: ten times as fast.
        return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode()
    return canonical_text(text)
