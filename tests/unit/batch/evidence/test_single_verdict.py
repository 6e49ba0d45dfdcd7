"""Single verdicts that are checked from an archive: as judged live, in nights, and of dumps without order."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tracline.batch.audit.as_judged import audit_as_judged
from tracline.batch.audit.audit import audit
from tracline.batch.nights.night_options import night_options
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.verification.single_verdict import WantedVerdict, archived_verdict_check
from tracline.batch.verification.verify import VerificationRequest, verify
from tracline.rules.packs.load import pack_text

from ....support.event_rows import PACK, START, call, result, session, user, write
from ....support.evidence.bundle_lines import bundle_lines
from ..test_as_judged import archive as judged_archive

pytestmark = pytest.mark.slow

NS = 10**9
HOUR = 3600 * NS


def check_all(bundle: Path, archive: Path) -> int:
    """Check each verdict by itself, and return their number."""
    found = bundle_lines(bundle)
    for each in found:
        request = VerificationRequest(verdict=WantedVerdict(each["id"], (str(archive),)))
        check = verify(bundle, request).checks[-1]
        assert (check.check, check.result.value) == ("verdict", "passed"), check.detail
    return len(found)


def test_verdicts_as_judged(tmp_path: Path) -> None:
    """A session whose rules change is judged by the sets that the archive has, with and without a bundle."""
    rows = [
        *session("s", user("hello"), call("pay"), user("now!"), call("pay"), result(), user("why?")),
        *session("u", user("no!"), user("no?"), start=START + 90 * NS, end=False),
    ]
    archive = judged_archive(tmp_path / "live", (rows, "aaabbbb" + "ab"))
    audit_as_judged(archive, tmp_path / "bundle", AuditOptions())
    assert check_all(tmp_path / "bundle", archive) >= 2
    for each in bundle_lines(tmp_path / "bundle"):
        wanted = WantedVerdict(each["id"], (str(archive),))
        for session_id in (each["session_id"], None):
            check = archived_verdict_check(wanted, session_id, None, AuditOptions())
            assert check.result.value == "passed", check.detail


def test_verdicts_of_a_night(tmp_path: Path) -> None:
    """A session that closes because its next occurrence begins has that row in another file."""
    archive = tmp_path / "archive"
    first = session("a", user("well"), call(), end=False)
    write(archive / "0.parquet", first + session("b", user("no!"), end=False))
    write(archive / "1.parquet", session("a", user("no!"), start=START + HOUR // 2, end=False))
    options = night_options([str(archive)], AuditOptions(as_of=START + HOUR), START - HOUR)
    audit(archive, pack_text(PACK), tmp_path / "bundle", options)
    assert [each["verdict"] for each in bundle_lines(tmp_path / "bundle")] == ["unmet"]
    assert check_all(tmp_path / "bundle", archive) == 1
    plain = AuditOptions(as_of=START + HOUR)
    audit(archive, pack_text(PACK), tmp_path / "plain", plain)
    assert check_all(tmp_path / "plain", archive) == 3


def test_verdicts_of_a_night_before_a_silence(tmp_path: Path) -> None:
    """The night judges a session up to its first silence, and so does the check of its verdict."""
    archive = tmp_path / "archive"
    rows = session("a", user("well"), call(), user("so?"), result(), call(), end=False)
    for row in rows[3:]:
        row["time"] += 20 * NS
    write(archive / "0.parquet", rows[:3])
    write(archive / "1.parquet", rows[3:])
    options = night_options([str(archive)], AuditOptions(as_of=START + HOUR, idle_s=10), START - HOUR)
    audit(archive, pack_text(PACK), tmp_path / "bundle", options)
    assert [(each["verdict"], each["seq"]) for each in bundle_lines(tmp_path / "bundle")] == [("unmet", 3)]
    assert check_all(tmp_path / "bundle", archive) == 1


def test_verdicts_of_rows_without_order(tmp_path: Path) -> None:
    """Such sources are read as a whole, because any file may have the session."""
    rows = [*session("a", user("hello"), user("no!")), *session("b", user("well"), call(), end=False)]
    frame = pl.read_parquet(write(tmp_path / "rows.parquet", rows)).drop("occurrence", "seq")
    (tmp_path / "archive").mkdir()
    frame.write_parquet(tmp_path / "archive" / "events.parquet")
    audit(tmp_path / "archive", pack_text(PACK), tmp_path / "bundle", AuditOptions(idle_s=0.5))
    assert check_all(tmp_path / "bundle", tmp_path / "archive") >= 1
