"""Small Parquet files that are joined in memory have the rows that they have one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from tracline.archive.error import SourceError
from tracline.batch.sources import event_files, footer_loop
from tracline.batch.sources.discover import SourceFile
from tracline.batch.sources.event_files import FileSlice, reading, scan_slices
from tracline.batch.sources.file_format import FileFormat
from tracline.batch.sources.joined_files import FILE_BYTES_MAX, FILES_MIN, are_small, joined

from ...support.synthetic_events import synthetic_events

ROWS = 40
FILES = 12


def by_arrow(**options: Any) -> Callable[[pl.DataFrame, Path], None]:
    """Return a writer of Arrow's."""
    parquet: Any = pq
    return lambda frame, path: parquet.write_table(frame.drop("attributes").to_arrow(), path, **options)


WRITERS: dict[str, Callable[[pl.DataFrame, Path], None]] = {
    "polars": lambda frame, path: frame.write_parquet(path),
    "polars groups": lambda frame, path: frame.write_parquet(path, row_group_size=7, statistics="full"),
    "polars plain": lambda frame, path: frame.write_parquet(path, compression="uncompressed"),
    "arrow": by_arrow(),
    "arrow index": by_arrow(write_page_index=True, row_group_size=9),
    "arrow pages": by_arrow(use_dictionary=False, data_page_size=64, data_page_version="2.0"),
    "arrow gzip": by_arrow(compression="gzip"),
}


@pytest.fixture
def events() -> list[pl.DataFrame]:
    """The events of each file; the tenth has none."""
    whole = next(iter(synthetic_events(2_000, seed=3)))
    found = [whole.slice(ROWS * number, ROWS) for number in range(FILES)]
    found[10] = found[10].clear()
    return found


def written(events: list[pl.DataFrame], folder: Path, writer: str = "polars") -> list[Path]:
    """Write the files, and return their paths."""
    paths = [folder / f"{number:03d}.parquet" for number in range(len(events))]
    for frame, path in zip(events, paths, strict=True):
        WRITERS[writer](frame, path)
    return paths


def parts(paths: list[Path]) -> list[SourceFile]:
    """Return the paths as files of a source."""
    return [SourceFile(path, path.name, FileFormat.PARQUET) for path in paths]


def slices(paths: list[Path]) -> list[FileSlice]:
    """Return whole files."""
    return [FileSlice(part, 0, event_files.row_count(part)) for part in parts(paths)]


@pytest.mark.parametrize("writer", WRITERS)
def test_joined_files_have_the_rows_of_all(events: list[pl.DataFrame], tmp_path: Path, writer: str) -> None:
    """Of several writers, with one row group a file or several, with and without rows and indexes."""
    paths = written(events, tmp_path, writer)
    image = joined(paths)
    assert image is not None
    expected = pl.concat([pl.read_parquet(path) for path in paths])
    lazy = pl.scan_parquet(image)
    assert lazy.collect(engine="streaming").equals(expected)
    assert (
        lazy.select("seq", "text")
        .filter(pl.col("seq") == 3)
        .collect()
        .equals(expected.select("seq", "text").filter(pl.col("seq") == 3))
    )
    parquet: Any = pq
    image.seek(0)
    assert pl.DataFrame(parquet.read_table(image)).equals(
        pl.DataFrame(pl.concat([pl.DataFrame(parquet.read_table(path)) for path in paths]))
    )


def test_a_scan_of_small_files_joins_them(events: list[pl.DataFrame], tmp_path: Path) -> None:
    """The same rows as without, also in a second query."""
    paths = written(events, tmp_path)
    rows = scan_slices(slices(paths), {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_files, "are_small", lambda _sizes: False)
        apart = scan_slices(slices(paths), {})
    assert str(tmp_path) in apart.explain()
    assert str(tmp_path) not in rows.explain()
    for _ in range(2):
        assert rows.collect().equals(apart.collect())


def test_files_that_were_written_in_another_way_are_not_joined(
    events: list[pl.DataFrame], tmp_path: Path
) -> None:
    """Another schema, another writer, another compression only where the footer does not have it."""
    paths = written(events, tmp_path)
    events[4].with_columns(more=pl.lit(1)).write_parquet(paths[4])
    assert joined(paths) is None
    WRITERS["arrow"](events[4], paths[4])
    assert joined(paths) is None
    events[4].write_parquet(paths[4], compression="lz4")
    image = joined(paths)
    assert image is not None
    assert pl.read_parquet(image).equals(pl.concat(events))
    paths[4].unlink()
    assert joined(paths) is None


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"PAR1PAR1", b"PAR1" + b"\xff" * 8 + b"PAR1", b"x" * 99])
def test_damaged_footers_are_not_joined(events: list[pl.DataFrame], tmp_path: Path, damage: bytes) -> None:
    """Files without a footer, and footers that are no Thrift."""
    paths = written(events, tmp_path)
    paths[7].write_bytes(damage)
    assert joined(paths) is None


def test_any_broken_byte_of_a_footer_is_odd_or_read(events: list[pl.DataFrame], tmp_path: Path) -> None:
    """No footer, whatever its bytes, writes beyond its room or ends the process."""
    path = written(events[:1], tmp_path)[0]
    whole = path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    for place in range(len(whole) - 8 - length, len(whole) - 8, 11):
        for value in (0x00, 0x7F, 0xFF, whole[place] ^ 1):
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            joined([path])


def test_a_footer_with_fields_twice_is_odd(events: list[pl.DataFrame], tmp_path: Path) -> None:
    """Readers take the last schema, rows and row groups; a file with copies of both would have other rows."""
    [path] = written(events[:1], tmp_path)
    assert joined([path]) is not None
    whole = path.read_bytes()
    begin = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    text = whole[begin:-8]
    facts, columns, group = footer_loop.arrays()
    footer_loop.read_footer(np.frombuffer(text, np.uint8), facts, columns, group)
    schema_end, tail = int(facts[footer_loop.SCHEMA_END]), int(facts[footer_loop.TAIL])
    # The schema is field 2, a list, behind the version, which has two bytes.
    twice = text[:tail] + b"\x09\x04" + text[3:tail] + text[tail:]
    assert text[schema_end:tail] in twice[tail:]
    path.write_bytes(whole[:begin] + twice + len(twice).to_bytes(4, "little") + b"PAR1")
    assert pl.read_parquet(path).equals(events[0])
    assert joined([path]) is None


def test_a_damaged_page_names_its_file(events: list[pl.DataFrame], tmp_path: Path) -> None:
    """The error of a joined file is that of the file with the page."""
    paths = written(events, tmp_path)
    data = bytearray(paths[5].read_bytes())
    data[8:600] = b"\xff" * 592
    found = slices(paths)
    paths[5].write_bytes(bytes(data))
    with pytest.raises(SourceError, match=r"005\.parquet"), reading([each.part for each in found]):
        scan_slices(found, {}).collect(engine="streaming")


def test_only_many_small_files_are_joined() -> None:
    """Large files, and few, are scanned where they are."""
    assert are_small([1_000] * FILES_MIN)
    assert not are_small([1_000] * (FILES_MIN - 1))
    assert not are_small([FILE_BYTES_MAX + 1] * FILES_MIN)
