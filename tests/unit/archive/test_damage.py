"""Sources of which something cannot be read: what is named, what is counted, and what still is judged."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from tracline.archive.error import SourceError
from tracline.batch.contents.never_true import rule_mistakes
from tracline.batch.prepare.prepare import prepare
from tracline.batch.sources.discover import Population, SourceFile
from tracline.batch.sources.event_files import reading, scan
from tracline.batch.sources.file_format import FileFormat
from tracline.rules.packs.load import pack_text

ROWS = 400
PACK = """
pack: desk
propositions:
  asked: tool == "refund" and args.b == "x"
rules:
  - {id: never-asked, formula: always not asked}
"""


def log(**columns: Any) -> pl.DataFrame:
    """Candidates: 40 sessions, each of ten messages."""
    start = datetime(2026, 1, 1)
    defaults = {
        "session_id": [f"s{row % 40:02d}" for row in range(ROWS)],
        "time": [start + timedelta(seconds=row) for row in range(ROWS)],
        "kind": ["user"] * ROWS,
        "text": [f"words {row}" for row in range(ROWS)],
    }
    return pl.DataFrame(defaults | columns)


def damaged(path: Path, column: str) -> Path:
    """The file with thirty bytes of a column's first page overwritten."""
    about: Any = pq.ParquetFile(path).metadata.row_group(0)
    columns = [about.column(number) for number in range(about.num_columns)]
    offset = next(chunk.data_page_offset for chunk in columns if chunk.path_in_schema == column)
    data = bytearray(path.read_bytes())
    data[offset : offset + 30] = b"\xff" * 30
    path.write_bytes(data)
    return path


def prepared(tmp_path: Path) -> tuple[pl.DataFrame, Population]:
    """The judged events of the folder `in`, and what was met."""
    (tmp_path / "scratch").mkdir()
    population = Population()
    parts = prepare(tmp_path / "in", tmp_path / "scratch", population)
    return pl.concat([scan(part) for part in parts]).collect() if parts else pl.DataFrame(), population


def rejected(population: Population) -> list[tuple[str, str, str]]:
    """File, place and code of what was rejected."""
    return [(reject.file, reject.position, reject.code) for reject in population.rejects]


@pytest.mark.slow
def test_files_that_are_not_event_parquet_are_rejected_one_by_one(tmp_path: Path) -> None:
    """Junk behind the magic, a cut-off file, a column of another type or none: each is one reject."""
    source = tmp_path / "in"
    source.mkdir()
    (source / "junk.parquet").write_bytes(b"PAR1" + b"junk" * 20)
    log().write_parquet(source / "good.parquet")
    (source / "cut.parquet").write_bytes((source / "good.parquet").read_bytes()[:-20])
    log(text=list(range(ROWS))).write_parquet(source / "typed.parquet")
    log().drop("time").write_parquet(source / "short.parquet")
    found, population = prepared(tmp_path)
    assert found.height == population.rows == ROWS
    assert rejected(population) == [
        ("cut.parquet", "whole file", "parquet"),
        ("junk.parquet", "whole file", "parquet"),
        ("short.parquet", "whole file", "columns"),
        ("typed.parquet", "whole file", "columns"),
    ]
    assert "has the column text as Int64" in population.rejects[3].text


def test_a_damaged_page_names_its_file(tmp_path: Path) -> None:
    """Found while the rows are put in order: TRL401 with the file that it stands in, not its neighbour."""
    source = tmp_path / "in"
    source.mkdir()
    log().write_parquet(source / "good.parquet")
    log().write_parquet(source / "torn.parquet")
    damaged(source / "torn.parquet", "text")
    with pytest.raises(SourceError, match=r"torn\.parquet: TRL401 cannot be read as Parquet"):
        prepared(tmp_path)


def test_a_damaged_page_of_a_column_that_no_rule_reads_names_its_file(tmp_path: Path) -> None:
    """The search for likely mistakes reads beginnings of more columns than the rules."""
    called = {"kind": ["tool_call"] * ROWS, "tool": ["refund"] * ROWS, "args": ['{"a": 1}'] * ROWS}
    log(**called, service=["shop"] * ROWS).write_parquet(tmp_path / "torn.parquet")
    part = SourceFile(damaged(tmp_path / "torn.parquet", "service"), "torn.parquet", FileFormat.PARQUET)
    rules = pack_text(PACK).rules
    with pytest.raises(SourceError, match=r"torn\.parquet: TRL401 cannot be read as Parquet"):
        rule_mistakes([part], rules, [("desk", "asked")], None)


def test_a_damaged_page_of_what_is_checked_rejects_the_file(tmp_path: Path) -> None:
    """If the times themselves cannot be read, the file is rejected whole and the others are judged."""
    source = tmp_path / "in"
    source.mkdir()
    log().write_parquet(source / "good.parquet")
    log().write_parquet(source / "torn.parquet")
    damaged(source / "torn.parquet", "time")
    found, population = prepared(tmp_path)
    assert (found.height, rejected(population)) == (ROWS, [("torn.parquet", "whole file", "parquet")])


def test_text_that_is_not_utf_8_names_its_file(tmp_path: Path) -> None:
    """Texts are Parquet's bytes, and may be anything."""
    path = tmp_path / "in" / "latin.parquet"
    path.parent.mkdir()
    log(text=[f"word-{row:04d}" for row in range(ROWS)]).write_parquet(path, compression="uncompressed")
    path.write_bytes(path.read_bytes().replace(b"word-", b"w\xf6rd-"))
    with pytest.raises(SourceError, match=r"latin\.parquet: TRL401"):
        prepared(tmp_path)


def test_what_is_not_a_files_fault_stays_as_it_is(tmp_path: Path) -> None:
    """An error while sound files are read is not blamed on them."""
    log().write_parquet(tmp_path / "good.parquet")
    part = SourceFile(tmp_path / "good.parquet", "good.parquet", FileFormat.PARQUET)
    with pytest.raises(pl.exceptions.ColumnNotFoundError), reading([part]):
        scan(part).select("nowhere").collect()


def test_a_source_of_which_every_row_is_rejected_is_listed_row_by_row(tmp_path: Path) -> None:
    """Nothing is left to be put in order, and each row is named."""
    (tmp_path / "in").mkdir()
    log(kind=["wizard"] * ROWS).write_parquet(tmp_path / "in" / "odd.parquet")
    found, population = prepared(tmp_path)
    assert (found.height, population.rejected) == (0, {"row-kind": ROWS})
    assert rejected(population)[-1] == ("odd.parquet", f"row {ROWS}", "row-kind")
    assert os.listdir(tmp_path / "scratch") == []
