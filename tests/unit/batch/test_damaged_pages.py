"""Audits of event Parquet with damaged pages."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from tracline.archive.error import SourceError
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.packs.load import pack_text

from ...support.event_rows import PACK, call, session, user, write

RULES = pack_text(PACK)


def test_a_page_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Text that is no UTF-8 deep inside a file is an error that names the file; nothing is written."""
    write(tmp_path / "in" / "a.parquet", session("a", user("hi")))
    broken = write(tmp_path / "in" / "b.parquet", session("b", user("hi"), user("HERE")))
    frame = pl.read_parquet(broken)
    frame.write_parquet(broken, compression="uncompressed", use_pyarrow=True)
    broken.write_bytes(broken.read_bytes().replace(b"HERE", b"\xff\xfe\xff\xfe"))
    with pytest.raises(SourceError, match=r"b\.parquet: TRL401"):
        audit(tmp_path / "in", RULES, tmp_path / "b", AuditOptions())
    assert not (tmp_path / "b").exists()


def test_a_page_at_which_polars_panics_is_named(tmp_path: Path) -> None:
    """A bitmap of nulls that is longer than its page is an error that names the file, too."""
    broken = write(tmp_path / "in" / "b.parquet", session("b", user("hi"), call("pay")))
    pl.read_parquet(broken).write_parquet(broken, compression="uncompressed")
    group = pq.read_metadata(broken).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    [column] = [each for each in columns if each.path_in_schema == "result"]
    data = bytearray(broken.read_bytes())
    run = column.dictionary_page_offset + column.total_compressed_size - 3
    assert data[run] == 3
    data[run] = 0xFF
    broken.write_bytes(data)
    with pytest.raises(SourceError, match=r"b\.parquet: TRL401"):
        audit(tmp_path / "in", RULES, tmp_path / "b", AuditOptions())
    assert not (tmp_path / "b").exists()
