"""The open sessions of a bundle, and the input files that have their rows."""

from __future__ import annotations

from pathlib import Path
from random import Random

import polars as pl
import pytest
from tracline.batch.audit import audit as auditing
from tracline.batch.audit import row_order
from tracline.batch.audit.audit import audit
from tracline.batch.prepare import spill
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.packs.load import pack_text
from tracline.schemas.time import rfc3339

from ...differential.test_audit_order import archive_of
from ...support.event_rows import PACK, session, user, write
from ...support.evidence.bundle_lines import bundle_lines

RULES = pack_text(PACK)


@pytest.mark.slow
@pytest.mark.parametrize("disordered_max", [-1, 1])
def test_each_open_session_has_the_files_with_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disordered_max: int
) -> None:
    """Judged in order or sorted, over several files: exactly the open sessions, and exactly their files."""
    monkeypatch.setattr(spill, "BUCKET_ROWS", 5)
    monkeypatch.setattr(spill, "PASS_ROWS", 20)
    monkeypatch.setattr(auditing, "FILE_ROWS_MIN", 0)
    monkeypatch.setattr(row_order, "DISORDERED_MAX", disordered_max)
    archive = archive_of(Random(3), tmp_path / "archive", 25, True).folder
    outcome = audit(archive, RULES, tmp_path / "bundle", AuditOptions(idle_s=1e6))
    rows = pl.concat(
        pl.read_parquet(file).with_columns(file=pl.lit(file.name)) for file in sorted(archive.iterdir())
    )
    files: dict[tuple[str, str], set[str]] = {}
    keys = rows.with_columns(pl.col("occurrence").to_physical()).select("session_id", "occurrence", "file")
    for session_id, occurrence, file in keys.iter_rows():
        files.setdefault((session_id, rfc3339(occurrence)), set()).add(file)
    found = {
        (line["session_id"], line["occurrence"]): line["files"]
        for line in bundle_lines(tmp_path / "bundle", "open.jsonl")
    }
    assert len(found) == outcome.summary["population"]["open_sessions"] > 3
    assert found == {key: sorted(files[key]) for key in found}
    assert list(found) == sorted(found)
    assert max(map(len, found.values())) > 1


def test_a_closed_archive_has_no_open_session(tmp_path: Path) -> None:
    """The file is there and empty."""
    write(tmp_path / "archive" / "events.parquet", session("s", user("hello")))
    audit(tmp_path / "archive", RULES, tmp_path / "bundle", AuditOptions())
    assert (tmp_path / "bundle" / "open.jsonl").read_bytes() == b""
