"""The bundle of an audit: the names of its files, and its verdicts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.json as pa_json  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet as pq  # pyright: ignore[reportMissingTypeStubs]

from ...rules.labels.missing import MISSING_TYPE
from ...schemas.frames.events import TIME
from ...schemas.records.verdict_record import VerdictRecord, decode_verdict

VERDICTS = "verdicts.jsonl"
TYPED_VERDICTS = "verdicts.parquet"
SUMMARY = "summary.json"
RULES = "rules"
OPEN_SESSIONS = "open.jsonl"
RISK = "risk.jsonl"
SCRATCH = ".scratch"
"""The folder in an unfinished bundle that is deleted at its end."""
IN_EVERY_BUNDLE = frozenset({VERDICTS, SUMMARY})
"""The files that identify a folder as a bundle: its verdicts are not events."""

TYPED_RECORDS = 10_000
"""Records per row group of `verdicts.parquet`."""

_EVENT = {"event_id": pl.String, "seq": pl.UInt32}
_WITNESS = pl.Struct(
    {
        "events": pl.List(pl.Struct({**_EVENT, "true": pl.List(pl.String), "residual": pl.String})),
        "history": pl.List(pl.Struct({**_EVENT, "formula": pl.String, "value": pl.Boolean})),
        "truncated": pl.Boolean,
    }
)
VERDICT_SCHEMA: dict[str, Any] = {
    "id": pl.String,
    "pack": pl.String,
    "rule": pl.String,
    "rule_digest": pl.String,
    "session_id": pl.String,
    "occurrence": TIME,
    "slice": pl.String,
    "seq": pl.UInt32,
    "event_id": pl.String,
    "time": TIME,
    "verdict": pl.String,
    "severity": pl.String,
    "agent": pl.String,
    "late": pl.Boolean,
    "history": pl.Boolean,
    "reason": pl.String,
    "missing": MISSING_TYPE,
    "witness": _WITNESS,
}
"""The columns of `verdicts.parquet`: the fields of the JSON lines in this order, with typed times."""

_SESSION_ID, _SEVERITY = b'"session_id":', b',"severity":'
"""The text before and behind the id of a session in a line; a quote in a text would have a backslash."""

SessionName = tuple[str, str]
"""The id and the occurrence of a session, as the lines of a bundle have them."""


def read_verdicts(path: Path) -> Iterator[VerdictRecord]:
    """Yield the records of a file of verdicts in its order."""
    with path.open("rb") as file:
        for text in file:
            yield decode_verdict(text)


def read_verdicts_of(path: Path, sessions: Collection[SessionName]) -> Iterator[VerdictRecord]:
    """Yield those records of a file of verdicts that are of these sessions, without decoding most others.

    Of the fields of a line, which are in the order of their names, `severity` follows `session_id`.
    """
    wanted = {msgspec.json.encode(session_id) for session_id, _ in sessions}
    with path.open("rb") as file:
        for text in file:
            begin = text.find(_SESSION_ID)
            end = text.find(_SEVERITY, begin)
            if min(begin, end) < 0 or text[begin + len(_SESSION_ID) : end] in wanted:
                record = decode_verdict(text)
                if (record.session_id, record.occurrence) in sessions:
                    yield record


def write_typed(bundle: Path) -> None:
    """Write `verdicts.parquet` from the lines of verdicts of a bundle."""
    parquet: Any = pq
    typed = parquet.ParquetWriter(bundle / TYPED_VERDICTS, _typed_schema(), compression="zstd")
    with (bundle / VERDICTS).open("rb") as lines, typed as writer:
        while block := list(islice(lines, TYPED_RECORDS)):
            writer.write_table(_typed(block))


def is_typed_alike(path: Path, verdicts: Path) -> bool:
    """Return whether a Parquet file of verdicts has the rows of a file of lines."""
    parquet: Any = pq
    with verdicts.open("rb") as file, parquet.ParquetFile(path) as typed:
        for number in range(typed.num_row_groups):
            rows = typed.read_row_group(number)
            if not rows.equals(_typed(list(islice(file, rows.num_rows)))):
                return False
        return not file.read(1)


def _typed(lines: Sequence[bytes]) -> Any:
    """Return the rows of lines as an Arrow table: Arrow parses them six times as fast as Polars."""
    arrow: Any = pa
    json: Any = pa_json
    schema = arrow.schema([(name, _json_type(kind)) for name, kind in VERDICT_SCHEMA.items()])
    parsing = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    text = b"".join(lines)
    # One block for all lines: Arrow must not cut one.
    reading = json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    return json.read_json(BytesIO(text), reading, parsing).cast(_typed_schema())


@cache
def _typed_schema() -> Any:
    empty: Any = pl.DataFrame(schema=VERDICT_SCHEMA)
    return empty.to_arrow().schema


def _json_type(kind: Any) -> Any:
    """Return the Arrow type that parses a value of a verdict's line."""
    arrow: Any = pa
    if isinstance(kind, pl.Struct):
        return arrow.struct([(inner.name, _json_type(inner.dtype)) for inner in kind.fields])
    if isinstance(kind, pl.List):
        return arrow.list_(_json_type(kind.inner))
    if kind == TIME:
        return arrow.timestamp("ns", "UTC")
    return {pl.Boolean: arrow.bool_(), pl.UInt32: arrow.uint32(), pl.String: arrow.string()}[kind]


def write_rules(folder: Path, sources: Mapping[str, str]) -> None:
    """Write the packs, each under its name, and those that they extend to a folder beside them."""

    for name, text in sources.items():
        path = folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
