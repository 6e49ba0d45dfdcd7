"""The compiled walk over Parquet footers: the facts that Arrow finds, or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from tracline.archive.error import SourceError
from tracline.batch.sources import footer_loop, parquet_footer
from tracline.batch.sources.discover import SourceFile
from tracline.batch.sources.event_files import footer
from tracline.batch.sources.file_format import FileFormat
from tracline.schemas.frames.events import EVENT_SCHEMA

from ...support.event_rows import call, session, user, write

pytestmark = pytest.mark.slow

FLIPS = 3_000


def events(folder: Path) -> pl.DataFrame:
    """Return some events with nulls, in the schema of archives."""
    path = folder / "events.parquet"
    write(path, [row for number in range(9) for row in session(f"s{number}", user("hi"), call("pay"))])
    rows = pl.read_parquet(path)
    path.unlink()
    return rows


def frames(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield frames with the columns that footers are read for, in many forms."""
    yield rows
    yield rows.head(0)
    yield rows.with_columns(pl.lit(None, EVENT_SCHEMA["time"]).alias("time"))
    gaps = pl.int_range(pl.len()) % 3 == 0
    yield rows.with_columns(pl.when(gaps).then("time").alias("time"), pl.when(gaps).then("seq").alias("seq"))
    yield rows.with_columns(pl.lit(4_294_967_295, pl.UInt32).alias("seq"))
    yield rows.with_columns(pl.lit(-(10**18)).cast(EVENT_SCHEMA["time"]).alias("occurrence"))
    yield rows.with_columns(pl.col("time").dt.cast_time_unit("us"), pl.col("kind").cast(pl.String))
    yield rows.drop("seq", "event_id")
    yield rows.with_columns(pl.lit(3.5).alias("more"), pl.col("seq").cast(pl.Int64))


def written(rows: pl.DataFrame, path: Path) -> Iterator[bool]:
    """Write a frame in several ways, and yield whether the footer has all statistics."""
    for groups in (None, 1, 7):
        rows.write_parquet(path, row_group_size=groups, compression="uncompressed")
        yield True
    rows.write_parquet(path, statistics=False)
    yield False
    plain: Any = rows.with_columns(pl.col(pl.Enum).cast(pl.String)).to_arrow()
    for version in ("1.0", "2.6"):
        pq.write_table(plain, path, version=version, row_group_size=5)
        yield True
        pq.write_table(plain, path, version=version, store_schema=False, write_page_index=True)
        yield True
    pq.write_table(plain, path, write_statistics=["session_id"])
    yield False


def test_the_walk_finds_what_arrow_finds(tmp_path: Path) -> None:
    """Of files of two writers, in many forms; without statistics it finds nothing."""
    path = tmp_path / "a.parquet"
    walked = 0
    for rows in frames(events(tmp_path)):
        for has_all in written(rows, path):
            found = walk(path)
            expected = parquet_footer._by_arrow(str(path))
            if found is None:
                assert not has_all or not len(rows)
                continue
            walked += 1
            assert found.footer(expected.schema).facts == expected.facts
    assert walked > 50


def walk(path: Path) -> Any:
    """Return what the walk finds in the footer of a file."""
    text = parquet_footer._footer_bytes(str(path), path.stat().st_size)
    return None if text is None else parquet_footer._walked(text)


def test_a_damaged_footer_ends_the_walk(tmp_path: Path) -> None:
    """With changed bytes the walk reads within the footer, and finds numbers or nothing.

    It is not compared with Arrow, which ends the process at some of these footers.
    """
    path = tmp_path / "a.parquet"
    events(tmp_path).write_parquet(path, row_group_size=7)
    text = parquet_footer._footer_bytes(str(path), path.stat().st_size)
    assert text is not None
    random = Random(1)
    walked = 0
    for _ in range(FLIPS):
        changed = bytearray(text)
        for _ in range(random.choice([1, 1, 3])):
            changed[random.randrange(len(text))] = random.randrange(256)
        # What follows the footer would continue it.
        found = parquet_footer._walked(bytes(changed))
        walked += found is not None
        assert found is None or len(found.columns) <= len(text)
    assert FLIPS / 10 < walked < FLIPS * 0.95


def test_a_cut_footer_is_odd(tmp_path: Path) -> None:
    """No beginning of a footer is a whole one."""
    path = tmp_path / "a.parquet"
    events(tmp_path).write_parquet(path, row_group_size=20)
    text = parquet_footer._footer_bytes(str(path), path.stat().st_size)
    assert text is not None
    assert parquet_footer._walked(text) is not None
    assert [length for length in range(len(text)) if parquet_footer._walked(text[:length])] == []


def test_statistics_of_96_bits_end_the_walk(tmp_path: Path) -> None:
    """Arrow does not know their order, so that times would seem to have no least and no greatest value."""
    path = tmp_path / "a.parquet"
    events(tmp_path).write_parquet(path)
    text = parquet_footer._footer_bytes(str(path), path.stat().st_size)
    assert text is not None
    schema = parquet_footer._by_arrow(str(path)).schema
    for place in (place for place, byte in enumerate(text) if byte == 4):
        # Types of columns are among these bytes: 64 bits become 96.
        changed = parquet_footer._walked(text[:place] + b"\x06" + text[place + 1 :])
        if changed is not None:
            assert all(changed.footer(schema).least[name] for name in parquet_footer.TIMES)


def test_a_footer_with_fewer_columns_than_its_schema_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a file that was written alike was read before."""
    monkeypatch.setattr(parquet_footer, "ARROW_FILES", -1)
    frame = events(tmp_path).select(pl.exclude("occurrence"), "occurrence")
    whole, fewer, spliced = (tmp_path / f"{name}.parquet" for name in "abc")
    frame.write_parquet(whole)
    frame.drop("occurrence").write_parquet(fewer)
    (begin, _, end), (_, groups, _) = parts_of(whole), parts_of(fewer)
    text = begin + groups + end
    rows = fewer.read_bytes()[: -8 - len(b"".join(parts_of(fewer)))]
    spliced.write_bytes(rows + text + len(text).to_bytes(4, "little") + b"PAR1")
    assert footer(SourceFile(whole, "a", FileFormat.PARQUET)).rows == len(frame)
    with pytest.raises(SourceError, match="TRL401"):
        footer(SourceFile(spliced, "c", FileFormat.PARQUET))


def parts_of(path: Path) -> tuple[bytes, bytes, bytes]:
    """Return the schema of a footer, its row groups, and what follows them."""
    text = parquet_footer._footer_bytes(str(path), path.stat().st_size)
    assert text is not None
    facts, columns, group = footer_loop.arrays()
    footer_loop.read_footer(np.frombuffer(text, np.uint8), facts, columns, group)
    schema, tail = facts[footer_loop.SCHEMA_END], facts[footer_loop.TAIL]
    return text[:schema], text[schema:tail], text[tail:]


def test_arrow_reads_few_footers_of_files_that_were_written_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones, and one of each way of writing; the others are walked."""
    rows = events(tmp_path)
    for number in range(20):
        rows[number:].write_parquet(tmp_path / f"{number:02d}.parquet")
        rows[number:].drop("late").write_parquet(tmp_path / f"x{number:02d}.parquet")
    read: list[str] = []
    by_arrow = parquet_footer._by_arrow

    def counted(path: str) -> parquet_footer.Footer:
        read.append(path)
        return by_arrow(path)

    monkeypatch.setattr(parquet_footer, "_by_arrow", counted)
    monkeypatch.setattr(parquet_footer, "ARROW_FILES", 3)
    monkeypatch.setattr(parquet_footer, "_walked_schemas", {})
    parquet_footer.footer_of.cache_clear()
    for path in sorted(tmp_path.iterdir()):
        found = footer(SourceFile(path, path.name, FileFormat.PARQUET))
        expected = by_arrow(str(path))
        assert (found.schema, found.facts) == (expected.schema, expected.facts)
    assert [Path(path).name for path in read] == [f"{number:02d}.parquet" for number in range(4)] + [
        "x00.parquet"
    ]
