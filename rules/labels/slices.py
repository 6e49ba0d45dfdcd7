"""The value of an event's slice (`for_each`), as Polars expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import orjson
import polars as pl

from ...schemas.event import Kind, canonical_text
from ..model.predicate import Path
from ..model.rule import SliceKey
from . import json_values as values
from .objects.plain_objects import plain_objects
from .plan import CHEAP, FOUND, VALUES, ColumnPlan
from .scatter import on_rows

_WORDS = frozenset({"kind", "content", "nested", "late", "history"})
"""Fields that are not texts; their values are cast to text."""

FEW_ROWS = 100
"""Up to this number of rows, writing tuples row by row is faster than a Polars plan."""

_ESCAPED = r'["\\\x00-\x1f]'
_SCALAR = r'(?:"(?:[^"\\]|\\.)*"|-?[0-9]{1,15}|true|false|null)'
_AS_IT_IS = rf'^(?:{_SCALAR}|\{{(?:"(?:[^"\\]|\\.)*":{_SCALAR})?\}})$'
"""Compact JSON that is canonical: a plain scalar, or an object with at most one member, a plain scalar."""
_SUBTLE = (
    r"(?:^|[:\[,])-?(?:[0-9]{16}|[0-9]+\.0000|[0-9]+\.[0-9]*0(?:[,\]}]|$)|[0-9]+(?:\.[0-9]+)?[eE])"
    r"|[\x{10000}-\x{10ffff}]"
)
"""A match where orjson may not write canonical JSON: certain numbers, and keys beyond Unicode's plane 0."""
_IS_SUBTLE = re.compile(
    _SUBTLE.replace("$", r"\Z").replace(r"[\x{10000}-\x{10ffff}]", "[\U00010000-\U0010ffff]")
)
"""The same for Python's engine."""
_VAST = r"^-?[0-9](?:\.[0-9]+)?e\+"
_HOLDS_VAST = r'\A(?:[^"\\]|"(?:[^"\\]|\\.)*")*?(?:\A|[:\[,])-?[0-9](?:\.[0-9]+)?e\+'
"""Numbers of 1e16 or more that are read as doubles: alone, and outside of strings in compact JSON.

An integer beyond 64 bits loses digits there, so that two ids would be one slice.
"""


@dataclass(frozen=True, slots=True)
class _TupleMember:
    """A member of a tuple: its text, null where it is absent, and whether that is JSON and not a string.

    `written` is its canonical form where that is known, else null.
    """

    text: pl.Expr
    is_json: pl.Expr
    written: pl.Expr = field(default_factory=lambda: pl.lit(None, dtype=pl.String))


def slice_columns(plan: ColumnPlan, key: SliceKey) -> tuple[pl.Expr, pl.Expr]:
    """Return the slice's value (text, null where the event carries none), and whether it is unknown.

    It is unknown where a field that it is read from was not captured, where it is an array or object outside
    a tuple, and where it is a number so large that its digits are lost.
    """
    return _tuple(plan, key.paths) if key.joint else _first(plan, key.paths)


def _first(plan: ColumnPlan, paths: tuple[Path, ...]) -> tuple[pl.Expr, pl.Expr]:
    """Return the columns of the first path that is present."""
    value, unknown = pl.lit(None, dtype=pl.String), pl.lit(False)
    for path in reversed(paths):
        text = _text(plan, path)
        is_lost = _open(plan, path) | plan.is_container(path) | _is_vast(plan, path)
        unknown = is_lost | (text.is_null() & unknown)
        value = pl.when(~is_lost).then(pl.coalesce(text, value))
    return value, unknown


def _tuple(plan: ColumnPlan, paths: tuple[Path, ...]) -> tuple[pl.Expr, pl.Expr]:
    """Return the columns of all paths as a canonical JSON array, absent if a path is known to be absent."""
    parts = [_member(plan, path) for path in paths]
    opens = [_open(plan, path) | _holds_vast(part) for path, part in zip(paths, parts, strict=True)]
    known = zip(parts, opens, strict=True)
    absent = pl.any_horizontal([part.text.is_null() & ~is_open for part, is_open in known])
    unknown = pl.any_horizontal(opens) & ~absent
    columns = [part.text.alias(f"text{i}") for i, part in enumerate(parts)]
    columns += [part.is_json.alias(f"json{i}") for i, part in enumerate(parts)]
    columns += [part.written.alias(f"written{i}") for i, part in enumerate(parts)]
    value = pl.struct(columns).map_batches(_canonical_tuples, return_dtype=pl.String, is_elementwise=True)
    return pl.when(~unknown).then(value), unknown


def _open(plan: ColumnPlan, path: Path) -> pl.Expr:
    if path.field == "kind":
        return pl.col("kind") == Kind.UNKNOWN.value
    unknown = plan.open(path)
    return pl.lit(False) if unknown is None else unknown


def _is_vast(plan: ColumnPlan, path: Path) -> pl.Expr:
    """Return whether the path leads to a number whose digits are lost; a whole field retains them."""
    if path.field not in values.JSON_FIELDS or not path.steps:
        return pl.lit(False)
    found = plan.found(path)
    looks = found.str.contains(_VAST)
    string = values.string_at_path(pl.when(looks).then(plan.column(path.field)), path.steps)
    return plan.put(VALUES, ("vast", path), (looks & string.ne_missing(found)).fill_null(False))


def _holds_vast(part: _TupleMember) -> pl.Expr:
    """Return whether a member is such a number, or JSON that holds one."""
    looks = part.is_json & part.text.str.contains("e+", literal=True)
    return pl.when(looks).then(part.text).str.contains(_HOLDS_VAST).fill_null(False)


def _text(plan: ColumnPlan, path: Path) -> pl.Expr:
    value = plan.value(path)
    return value.cast(pl.String) if path.field in _WORDS else value


def _member(plan: ColumnPlan, path: Path) -> _TupleMember:
    """Return a path's member of a tuple. A whole `result` may be plain text, and so may invalid arguments."""
    if path.field not in values.JSON_FIELDS:
        return _TupleMember(_text(plan, path), pl.lit(False))
    document, json = plan.column(path.field), ("json", path)
    if path.steps:
        found = plan.put(FOUND, json, values.at_path(document, path.steps))
        is_string = found == values.string_at_path(document, path.steps)
        return _TupleMember(found, plan.put(VALUES, json, ~is_string.fill_null(False)))
    plain = document.map_batches(plain_objects, return_dtype=pl.String, is_elementwise=True)
    written = plan.put(CHEAP, ("plain", path), plain)
    both = pl.struct(document.alias("document"), written.alias("written"))
    rest = both.map_batches(_compact_rest, return_dtype=pl.String, is_elementwise=True)
    found = plan.put(FOUND, json, rest)
    is_read = found.is_not_null() & ~document.str.contains(r'^\s*"')
    is_json = plan.put(VALUES, json, written.is_not_null() | is_read)
    text = pl.when(plan.value(path).is_not_null()).then(pl.coalesce(written, found, document))
    return _TupleMember(plan.put(VALUES, ("text", path), text), is_json, written)


def _compact_rest(documents: pl.Series) -> pl.Series:
    """Return the compact JSON of those documents that are not written, null where there is none."""
    frame = documents.struct.unnest()
    is_rest = frame["written"].is_null() & frame["document"].is_not_null()
    found = values.at_path(pl.col("document"), ())
    return on_rows(is_rest, frame, lambda rest: rest.select_seq(found)).to_series().alias(documents.name)


def _canonical_tuples(members: pl.Series) -> pl.Series:
    """Return a JSON array for each row, null where a member is null.

    `members` has the fields `text0`..., `json0`... and `written0`...
    """
    frame = members.struct.unnest()
    count = frame.width // 3
    if len(frame) <= FEW_ROWS:
        rows = frame[:, : 2 * count].iter_rows()
        return pl.Series(members.name, list(map(tuple_text, rows)), dtype=pl.String)
    texts = [f"text{i}" for i in range(count)]
    is_whole = not any(frame[name].has_nulls() for name in texts)
    places = frame.select(pl.arg_where(pl.all_horizontal(pl.col(texts).is_not_null()))).to_series()
    rows = frame if is_whole else frame[places]
    columns = [_all_written(rows[f"written{i}"], rows[f"text{i}"], rows[f"json{i}"]) for i in range(count)]
    # One call: a separator and brackets around its result would copy every text once more.
    parts = [part for column in columns for part in (pl.lit(","), pl.lit(column))][1:]
    tuples = pl.select(pl.concat_str(pl.lit("["), *parts, pl.lit("]"))).to_series()
    if is_whole:
        return tuples.alias(members.name)
    return (
        pl.Series(members.name, [None], dtype=pl.String)
        .new_from_index(0, len(members))
        .scatter(places, tuples)
    )


def tuple_text(row: tuple[Any, ...]) -> str | None:
    """Return the array of one row, which has the texts and then whether each of them is JSON."""
    texts, jsons = row[: len(row) // 2], row[len(row) // 2 :]
    if None in texts:
        return None
    return f"[{','.join(map(member_text, texts, jsons))}]"


def member_text(text: str, is_json: bool) -> str:
    """Return the canonical JSON of a member: of a string, or of a compact JSON text."""
    return _written(text, is_json, is_json and _is_subtle(text))


def _is_subtle(text: str) -> bool:
    """Return whether orjson may not write the canonical form of compact JSON."""
    return _IS_SUBTLE.search(text) is not None


def _all_written(written: pl.Series, texts: pl.Series, jsons: pl.Series) -> pl.Series:
    """Return the canonical JSON of members, of which some is written already."""
    left = written.is_null().arg_true()
    if left.is_empty():
        return written
    if len(left) == len(written):
        return _canonical(texts, jsons)
    return written.scatter(left, _canonical(texts.gather(left), jsons.gather(left)))


def _canonical(texts: pl.Series, jsons: pl.Series) -> pl.Series:
    """Return the canonical JSON (RFC 8785) of strings and of compact JSON texts."""
    text = pl.lit(texts)
    quoted = pl.when(~text.str.contains(_ESCAPED)).then(pl.concat_str(pl.lit('"'), text, pl.lit('"')))
    as_it_is = pl.when(text.str.contains(_AS_IT_IS)).then(text)
    written = pl.select(pl.when(pl.lit(jsons)).then(as_it_is).otherwise(quoted)).to_series()
    left = written.is_null().arg_true()
    if left.is_empty():
        return written
    rest = texts.gather(left)
    rows = zip(rest, jsons.gather(left), rest.str.contains(_SUBTLE), strict=True)
    return written.scatter(left, [_written(*row) for row in rows])


def _written(text: str, is_json: bool, is_subtle: bool) -> str:
    """Return the canonical JSON of a string, or of a compact JSON text."""
    if not is_json:
        return orjson.dumps(text).decode()
    if is_subtle:
        return canonical_text(text)
    return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode()
