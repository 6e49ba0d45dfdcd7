"""The bundle of an audit: its files, written whole or not at all."""

from __future__ import annotations

import heapq
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet as pq  # pyright: ignore[reportMissingTypeStubs]
import rfc8785

from ..rules.record import Record, line, place
from .error import SourceError

VERDICTS = "verdicts.jsonl"
TYPED_VERDICTS = "verdicts.parquet"
SUMMARY = "summary.json"
RULES = "rules"

RUNS_OPEN_MAX = 200
"""Sorted runs that are merged at a time, each an open file."""

_TIME = pl.Datetime("ns", "UTC")
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
    "occurrence": _TIME,
    "slice": pl.String,
    "seq": pl.UInt32,
    "event_id": pl.String,
    "time": _TIME,
    "verdict": pl.String,
    "severity": pl.String,
    "agent": pl.String,
    "late": pl.Boolean,
    "history": pl.Boolean,
    "reason": pl.String,
    "witness": _WITNESS,
}
"""The columns of `verdicts.parquet`: those of the JSON lines, in this order, times as times."""


@contextmanager
def writing(out: Path) -> Generator[Path]:
    """A folder to write a bundle into, which becomes `out` at the end, replacing an earlier bundle there.

    Raises SourceError (TRL406) where `out` holds anything else. After an exception `out` is as it was.
    """
    if out.exists() and not _is_replaceable(out):
        hint = "name a folder that is not there yet, is empty, or holds an earlier bundle"
        raise SourceError("TRL406", str(out), "is in the way: it is no bundle", hint)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        yield work
        work.chmod(0o755)
        if out.exists():
            former = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
            out.replace(former)
            work.replace(out)
            shutil.rmtree(former)
        else:
            work.replace(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _is_replaceable(out: Path) -> bool:
    if not out.is_dir():
        return False
    names = {path.name for path in out.iterdir()}
    return not names or {VERDICTS, SUMMARY} <= names


def write_run(path: Path, records: Iterable[Record]) -> None:
    """Write records as a sorted run of lines, one of those that `merge` puts together."""
    with path.open("wb") as file:
        file.writelines(line(record) for record in sorted(records, key=place))


def merge(runs: Sequence[Path], out: Path) -> Iterator[Record]:
    """Write the runs' records to `out` as one sorted file, yielding each when it is written.

    Nothing is written of what is not asked for: exhaust it. Runs that are too many to be open at once are
    first put together, and taken away.
    """
    while len(runs) > RUNS_OPEN_MAX:
        first, rest = runs[:RUNS_OPEN_MAX], runs[RUNS_OPEN_MAX:]
        joined = first[0].with_name(f"{first[0].name}+")
        for _ in merge(first, joined):
            pass
        for run in first:
            run.unlink()
        runs = [*rest, joined]
    with out.open("wb") as file:
        for record, text in heapq.merge(*map(_read_run, runs), key=lambda told: place(told[0])):
            file.write(text)
            yield record


def read_verdicts(path: Path) -> Iterator[Record]:
    """The records of a file of verdicts, one at a time, in its order."""
    return (record for record, _ in _read_run(path))


def _read_run(path: Path) -> Iterator[tuple[Record, bytes]]:
    """The records of a file, each with its line."""
    with path.open("rb") as file:
        for text in file:
            yield orjson.loads(text), text


@contextmanager
def typed_writer(out: Path) -> Generator[Callable[[Sequence[Record]], None]]:
    """Write records as Parquet, typed, a bounded number at a time: call it with each piece in turn.

    Made of the records by Arrow, which takes a fifth of the time of reading their JSON lines by Polars.
    """
    empty: Any = pl.DataFrame(schema=VERDICT_SCHEMA)
    texts = {name: pl.String if kind == _TIME else kind for name, kind in VERDICT_SCHEMA.items()}
    told: Any = pl.DataFrame(schema=texts)
    arrow, final = told.to_arrow().schema, empty.to_arrow().schema
    times = [
        pl.col(name).str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="ns", time_zone="UTC")
        for name, kind in VERDICT_SCHEMA.items()
        if kind == _TIME
    ]
    arrow_room: Any = pa
    polars: Any = pl
    parquet: Any = pq
    with parquet.ParquetWriter(out, final, compression="zstd") as writer:

        def write(records: Sequence[Record]) -> None:
            frame = polars.from_arrow(arrow_room.Table.from_pylist(records, schema=arrow))
            writer.write_table(frame.with_columns(times).to_arrow().cast(final))

        yield write


def write_summary(path: Path, content: Any) -> None:
    """Write a summary as canonical JSON."""
    path.write_bytes(rfc8785.dumps(content) + b"\n")


def write_rules(folder: Path, sources: Mapping[str, str]) -> None:
    """Write the packs as they were used, each under its pack's name."""
    folder.mkdir()
    for pack, text in sources.items():
        (folder / f"{pack}.yaml").write_text(text, encoding="utf-8")
