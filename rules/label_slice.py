"""The value that names an event's slice (`for_each`), as Polars expressions."""

from __future__ import annotations

from dataclasses import dataclass

import orjson
import polars as pl

from ..schemas.event import Kind, canonical_text
from . import label_value as values
from .label_sheet import FLAT, FOUND, TUPLES, VALUES, Sheet
from .predicate import Path
from .rule import SliceKey

_WORDS = frozenset({"kind", "content", "nested", "late", "history"})
"""Fields that hold no text, though their values have one."""

_ESCAPED = r'["\\\x00-\x1f]'
_SCALAR = r'(?:"(?:[^"\\]|\\.)*"|-?[0-9]{1,15}(?:\.[0-9]*[1-9])?|true|false|null)'
_PAIR = rf'"[A-Za-z0-9_.-]+":(?:{_SCALAR}|\[(?:{_SCALAR}(?:,{_SCALAR})*)?\])'
"""Parts of compact JSON that are canonical as Polars writes them: no exponents, no integers near 2**53."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A member of a tuple: its text, null where it is absent; where that is JSON (None: it is a string)."""

    text: pl.Expr
    is_json: pl.Expr | None


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
    parts = [_part(sheet, path) for path in paths]
    opens = [_open(sheet, path) for path in paths]
    known = zip(parts, opens, strict=True)
    absent = pl.any_horizontal([part.text.is_null() & ~unsaid for part, unsaid in known])
    unknown = sheet.put(FLAT, ("unknown", paths), pl.any_horizontal(opens) & ~absent)
    simple = [_simple(sheet, part) for part in parts]
    quick = pl.concat_str(pl.lit("["), pl.concat_str(simple, separator=","), pl.lit("]"))
    quick = sheet.put(TUPLES, paths, pl.when(~unknown).then(quick))
    columns = [pl.when(quick.is_null()).then(part.text).alias(f"text{i}") for i, part in enumerate(parts)]
    columns += [
        (pl.lit(False) if part.is_json is None else part.is_json).alias(f"json{i}")
        for i, part in enumerate(parts)
    ]
    slow = pl.struct(columns).map_batches(_canonical_tuples, return_dtype=pl.String, is_elementwise=True)
    return pl.when(~unknown).then(pl.coalesce(quick, slow)), unknown


def _simple(sheet: Sheet, part: _Part) -> pl.Expr:
    """A member's canonical JSON where Polars can write it: strings, numbers, flat objects; else null."""
    text = part.text
    quoted = pl.when(~text.str.contains(_ESCAPED)).then(pl.concat_str(pl.lit('"'), text, pl.lit('"')))
    if part.is_json is None:
        return quoted
    members = pl.when(text.str.starts_with("{")).then(text).str.extract_all(_PAIR).list.sort().list.join(",")
    # The members of a flat object are all of it but braces and commas. A quote sorts before whatever else may
    # stand in a key here, so members sort as their keys do.
    flat = sheet.put(FLAT, text.meta.output_name(), pl.concat_str(pl.lit("{"), members, pl.lit("}")))
    scalar = pl.when(text.str.contains(f"^{_SCALAR}$")).then(text)
    flat = pl.when(flat.str.len_bytes() == text.str.len_bytes()).then(flat)
    return pl.when(part.is_json).then(pl.coalesce(flat, scalar)).otherwise(quoted)


def _open(sheet: Sheet, path: Path) -> pl.Expr:
    if path.field == "kind":
        return pl.col("kind") == Kind.UNKNOWN.value
    unknown = sheet.open(path)
    return pl.lit(False) if unknown is None else unknown


def _text(sheet: Sheet, path: Path) -> pl.Expr:
    value = sheet.value(path)
    return value.cast(pl.String) if path.field in _WORDS else value


def _part(sheet: Sheet, path: Path) -> _Part:
    """What a path gives a tuple. A whole `result` may be plain text, and so may broken arguments."""
    if path.field not in values.JSON_FIELDS:
        return _Part(_text(sheet, path), None)
    document, json = sheet.document(path), ("json", path)
    found = sheet.put(FOUND, json, values.at_path(document, path.steps))
    if path.steps:
        is_string = found == values.string_at_path(document, path.steps)
        return _Part(found, sheet.put(VALUES, json, ~is_string.fill_null(False)))
    is_json = sheet.put(VALUES, json, found.is_not_null() & ~document.str.contains(r'^\s*"'))
    text = pl.when(sheet.value(path).is_not_null()).then(pl.coalesce(found, document))
    return _Part(sheet.put(VALUES, ("text", path), text), is_json)


def _canonical_tuples(members: pl.Series) -> pl.Series:
    """One JSON array a row, null where a member is; `members` has the fields `text0`... and `json0`..."""
    count = len(members.struct.fields) // 2
    texts = [members.struct.field(f"text{i}") for i in range(count)]
    rows = pl.select(
        pl.arg_where(pl.all_horizontal([pl.lit(text).is_not_null() for text in texts]))
    ).to_series()
    jsons = [members.struct.field(f"json{i}").gather(rows) for i in range(count)]
    columns = [
        [_member(text, json) for text, json in zip(text.gather(rows), json, strict=True)]
        for text, json in zip(texts, jsons, strict=True)
    ]
    tuples = [f"[{','.join(row)}]" for row in zip(*columns, strict=True)]
    written = pl.Series(members.name, [None], dtype=pl.String).new_from_index(0, len(members))
    return written.scatter(rows, tuples)


def _member(text: str, is_json: bool) -> str:
    """The canonical JSON (RFC 8785) of a string, or of JSON text."""
    return canonical_text(text) if is_json else orjson.dumps(text).decode()
