"""A night that a third party performs again: over an archive that has grown, or one with left-out files."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tracline.archive.manifest import ManifestSource
from tracline.archive.writer import archive_writer
from tracline.batch.audit.audit import audit
from tracline.batch.nights.night_options import night_options
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.verification.verify import VerificationRequest, verify
from tracline.rules.packs.load import pack_text

from ....support.event_rows import PACK, START, call, session, user, write

pytestmark = pytest.mark.slow

NS = 10**9
DAY = 86_400 * NS
LIVE = ManifestSource("serve", "a" * 64)
UNORDERED = ("occurrence", "seq")


def night(archive: Path, out: Path) -> Path:
    """Audit the night of the first day into a bundle."""
    options = night_options([str(archive)], AuditOptions(as_of=START + DAY), START - DAY)
    audit(archive, pack_text(PACK), out, options)
    return out


def rerun(bundle: Path, archive: Path) -> str:
    """Return the result of the second audit, and with a fault its sentence."""
    request = VerificationRequest(archive=(str(archive),), rerun=True)
    [check] = [each for each in verify(bundle, request).checks if each.check == "rerun"]
    return check.detail if check.result == "failed" else check.result.value


def append(archive: Path, offsets: tuple[int, int], mark: int, rows: list[dict]) -> None:
    """Append a file to a live archive."""
    frame = pl.read_parquet(write(archive.parent / "rows.parquet", rows))
    with archive_writer(archive) as writer:
        writer.write(frame, LIVE, offsets)
        writer.mark(LIVE, mark)


def test_a_night_is_the_same_once_the_archive_has_grown(tmp_path: Path) -> None:
    """Later rows, a later watermark and a later gap do not change its bytes."""
    archive = tmp_path / "archive"
    append(archive, (0, 9), START + DAY, session("a", user("no!")))
    bundle = night(archive, tmp_path / "bundle")
    append(archive, (30, 39), START + 2 * DAY, session("b", user("no!"), start=START + DAY + NS))
    assert rerun(bundle, archive) == "passed"
    again = night(archive, tmp_path / "again")
    for name in ("verdicts.jsonl", "summary.json", "certificates.jsonl", "inputs.jsonl", "open.jsonl"):
        assert (again / name).read_bytes() == (bundle / name).read_bytes(), name


def test_a_night_that_leaves_out_a_file_is_found(tmp_path: Path) -> None:
    """The files that a night must read follow from the archive, and not from what the bundle states."""
    write(tmp_path / "part" / "0.parquet", session("a", user("hello")))
    write(tmp_path / "whole" / "0.parquet", session("a", user("hello")))
    write(tmp_path / "whole" / "1.parquet", session("b", user("no!")))
    bundle = night(tmp_path / "part", tmp_path / "bundle")
    assert rerun(bundle, tmp_path / "part") == "passed"
    assert rerun(bundle, tmp_path / "whole") == "TRL461 1 file of the night not audited"


@pytest.mark.parametrize(("later", "expected"), [(NS, "TRL461"), (2 * DAY, "passed")])
def test_a_file_without_order_is_left_out_if_its_rows_came_later(
    tmp_path: Path, later: int, expected: str
) -> None:
    """Such files are read as a whole every night; one of a later day was not there."""
    archive = tmp_path / "archive"

    def add(name: str, rows: list[dict]) -> None:
        frame = pl.read_parquet(write(tmp_path / "rows.parquet", rows)).drop(UNORDERED)
        archive.mkdir(exist_ok=True)
        frame.write_parquet(archive / name)

    add("0.parquet", session("a", user("hello"), call("pay")))
    bundle = night(archive, tmp_path / "bundle")
    add("1.parquet", session("b", user("no!"), start=START + later))
    assert rerun(bundle, archive).split()[0] == expected
