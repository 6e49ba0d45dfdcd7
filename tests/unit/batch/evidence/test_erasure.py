"""Erasure: the rows of a session go, everything else stays, and a signed tombstone accounts for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from tracline.archive.erasure import erasing
from tracline.archive.error import SourceError
from tracline.archive.manifest import ManifestSource, read_manifest
from tracline.archive.writer import archive_writer
from tracline.batch.attestation.attest import Attesting
from tracline.batch.attestation.signers import KeySigner
from tracline.batch.attestation.tombstones import erase_session, read_tombstones
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.redaction.redact import redact
from tracline.batch.redaction.secret import RedactionSecret
from tracline.batch.verification.verify import VerificationRequest, verify
from tracline.rules.packs.load import pack_text

from ....support.event_rows import PACK, START, session, user, write
from ....support.evidence.bundle_lines import bundle_lines
from ....support.evidence.signed_bundles import make_key, public

pytestmark = pytest.mark.slow

DAY = 86_400 * 10**9


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Return a folder with a key, an archive of two days with a session in both, and its signed bundle."""
    make_key(tmp_path)
    both = session("anna", user("hello"), {**user("no!"), "time": START + DAY, "event_id": "late"})
    rows = [*both, *session("bert", user("well!")), *session("carl", user("hi"), start=START + DAY)]
    frame = pl.read_parquet(write(tmp_path / "rows.parquet", rows))
    with archive_writer(tmp_path / "archive") as writer:
        writer.write(frame, ManifestSource("desk", "0" * 64), (0, 3))
    audited(tmp_path, "bundle")
    return tmp_path


def audited(desk: Path, name: str) -> list[dict]:
    """Audit the archive into a signed bundle, and return its verdicts."""
    attesting = Attesting((KeySigner.of(desk / "key", None),))
    audit(desk / "archive", pack_text(PACK), desk / name, AuditOptions(), attesting=attesting)
    return bundle_lines(desk / name)


def erase(desk: Path, session_id: str, key: str = "key") -> None:
    """Erase a session, with a tombstone signed by a key."""
    signers = (KeySigner.of(desk / key, None),)
    erase_session(desk / "archive", session_id, "request of 3 March", signers, lambda: START)


def rows_of(archive: Path) -> pl.DataFrame:
    """Return all rows of the files in the manifest."""
    files = [archive / entry.file for entry in read_manifest(archive).entries]
    return pl.read_parquet(files, hive_partitioning=False).sort("session_id", "occurrence", "seq")


def archive_check(desk: Path, *keys: str) -> tuple[str, str]:
    """Return the result and the sentence of the archive's check."""
    trusted = tuple(public(desk, key) for key in keys)
    request = VerificationRequest(trusted, (str(desk / "archive"),))
    [check] = [each for each in verify(desk / "bundle", request).checks if each.check == "archive"]
    return check.result.value, check.detail


def test_the_rows_of_the_session_go_and_no_others(desk: Path) -> None:
    """Its rows of both days are gone, all other rows are equal, and the manifest has the new files."""
    before = rows_of(desk / "archive")
    erase(desk, "anna")
    after = rows_of(desk / "archive")
    assert after.equals(before.filter(pl.col("session_id") != "anna"))
    assert len(before) - len(after) == 3
    entries = read_manifest(desk / "archive").entries
    assert sum(entry.rows for entry in entries) == len(after)
    files = b"".join(path.read_bytes() for path in (desk / "archive").rglob("*") if path.is_file())
    assert b"anna" not in files
    assert list((desk / "archive").rglob(".erasing-*")) == []


def test_an_audit_without_the_session_finds_the_others(desk: Path) -> None:
    """The archive is whole: an audit finds the same verdicts, without those of the session."""
    before = audited(desk, "before")
    erase(desk, "anna")
    after = audited(desk, "after")
    assert after == [verdict for verdict in before if verdict["session_id"] != "anna"]
    assert {verdict["session_id"] for verdict in before} == {"anna", "bert"}
    summary = json.loads((desk / "after" / "summary.json").read_bytes())
    assert (summary["population"]["gaps"], summary["population"]["rejected"]) == (0, 0)


def test_a_file_without_rows_stays(desk: Path) -> None:
    """The file of a day without other sessions is empty and can be read."""
    erase(desk, "anna")
    erase(desk, "carl")
    erase(desk, "bert")
    assert len(rows_of(desk / "archive")) == 0
    assert audited(desk, "after") == []


def test_verification_reports_erased_files(desk: Path) -> None:
    """The audited archive counts as erased, not as changed, also after several erasures."""
    assert archive_check(desk, "key") == ("passed", "2 files unchanged since the audit")
    erase(desk, "anna")
    result, detail = archive_check(desk, "key")
    assert result == "passed"
    assert detail.startswith("erased: rows of 2 files, signed tombstones state it")
    erase(desk, "carl")
    request = VerificationRequest((public(desk),), (str(desk / "archive"),), rerun=True)
    found = verify(desk / "bundle", request)
    rerun = found.checks[-1]
    assert (rerun.result.value, rerun.detail) == ("not_checked", "rows of the archive are erased")
    assert found.exit_code == 2


def test_an_erasure_is_reported_for_a_redacted_bundle_too(desk: Path) -> None:
    """The digests of the inputs stay, so tombstones lead from them; another change is found."""
    signers = (KeySigner.of(desk / "key", None),)
    redact(desk / "bundle", desk / "public", RedactionSecret(bytes(32)), signers, sessions=False)
    erase(desk, "anna")
    (desk / "bundle").rename(desk / "original")
    (desk / "public").rename(desk / "bundle")
    result, detail = archive_check(desk, "key")
    assert (result, detail.split(",")[0]) == ("passed", "erased: rows of 2 files")
    assert archive_check(desk)[0] == "not_checked"
    (desk / "archive" / "tombstones.jsonl").unlink()
    assert archive_check(desk, "key")[1] == "TRL461 2 files missing or changed"


def test_without_a_key_an_erasure_is_not_checked(desk: Path) -> None:
    """Anybody could have changed the files and written tombstones that lead to them."""
    erase(desk, "anna")
    result, detail = archive_check(desk)
    assert (result, detail.split(";")[0]) == ("not_checked", "erased: rows of 2 files")


def test_a_change_beside_an_erasure_is_found(desk: Path) -> None:
    """A file that no tombstone leads to differs, and a tombstone of another key is not trusted."""
    make_key(desk, "stranger")
    copied = shutil.copytree(desk / "archive", desk / "copy")
    erase(desk, "anna", "stranger")
    assert archive_check(desk, "key")[1].startswith("TRL461 a tombstone cannot be trusted: TRL457")
    tombstones = desk / "archive" / "tombstones.jsonl"
    tombstones.unlink()
    assert archive_check(desk, "key")[1].startswith("TRL461 2 files changed since the audit")
    shutil.rmtree(desk / "archive")
    copied.rename(desk / "archive")
    erase(desk, "anna")
    with archive_writer(desk / "more") as writer:
        frame = pl.read_parquet(write(desk / "more.parquet", session("bert", user("well"))))
        [entry] = writer.write(frame, ManifestSource("desk", "0" * 64), (0, 3))
    text = (desk / "archive" / "manifest.jsonl").read_text()
    shutil.copy(desk / "more" / entry.file, desk / "archive" / entry.file)
    (desk / "archive" / "manifest.jsonl").write_text(text + (desk / "more" / "manifest.jsonl").read_text())
    assert archive_check(desk, "key")[1].startswith("TRL461 1 file changed since the audit")


def test_the_tombstone_names_no_session(desk: Path) -> None:
    """It has the digests before and afterwards, the number of rows and the reason."""
    before = {entry.file: entry.sha256 for entry in read_manifest(desk / "archive").entries}
    erase(desk, "anna")
    after = {entry.file: entry.sha256 for entry in read_manifest(desk / "archive").entries}
    [tombstone] = read_tombstones(desk / "archive" / "tombstones.jsonl")
    predicate = tombstone.envelope.statement["predicate"]
    assert (predicate["reason"], predicate["erased"]) == (
        "request of 3 March",
        "2026-02-17T12:00:00.000000000Z",
    )
    stated = {file["name"]: (file["before"], file["after"]) for file in predicate["files"]}
    assert stated == {name: (digest, after[name]) for name, digest in before.items()}
    assert sorted(file["rows"] for file in predicate["files"]) == [1, 2]
    assert b"anna" not in tombstone.envelope.payload


class CrashedError(Exception):
    """The end of a process in the middle of an erasure."""


def test_a_crash_before_the_manifest_changes_nothing(desk: Path) -> None:
    """The archive reads as before, and the next erasure succeeds."""
    before = rows_of(desk / "archive")
    with pytest.raises(CrashedError), erasing(desk / "archive", "anna"):
        raise CrashedError
    assert rows_of(desk / "archive").equals(before)
    assert archive_check(desk)[1] == "2 files unchanged since the audit"
    erase(desk, "anna")
    assert archive_check(desk, "key")[0] == "passed"


def test_a_crash_behind_the_manifest_is_finished_by_the_next_erasure(desk: Path) -> None:
    """Until then no reader takes the old files, because their sizes contradict the manifest."""
    archive = desk / "archive"
    old = {entry.file: (archive / entry.file).read_bytes() for entry in read_manifest(archive).entries}
    erase(desk, "anna")
    expected = rows_of(archive)
    for file, content in old.items():
        path = archive / file
        path.rename(path.with_name(f".erasing-{path.name}"))
        path.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        audited(desk, "after")
    assert caught.value.code == "TRL403"
    with pytest.raises(SourceError) as caught:
        erase(desk, "anna")
    assert caught.value.code == "TRL410"
    assert rows_of(archive).equals(expected)
    assert audited(desk, "after")


def test_only_a_session_of_an_archive_is_erased(desk: Path, tmp_path: Path) -> None:
    """An unknown session and a folder without a manifest are errors, and no tombstone is written."""
    with pytest.raises(SourceError) as caught:
        erase(desk, "nobody")
    assert caught.value.code == "TRL410"
    assert not (desk / "archive" / "tombstones.jsonl").exists()
    (tmp_path / "logs").mkdir()
    with pytest.raises(SourceError) as caught, erasing(tmp_path / "logs", "anna"):
        pass
    assert caught.value.code == "TRL465"


def test_an_archive_with_a_damaged_file_loses_nothing(desk: Path) -> None:
    """The error names the file, and no other file has changed."""
    archive = desk / "archive"
    last = archive / read_manifest(archive).entries[-1].file
    last.write_bytes(b"\xff" * last.stat().st_size)
    before = {path: path.read_bytes() for path in archive.rglob("*.parquet")}
    with pytest.raises(SourceError, match="cannot be read as Parquet") as caught:
        erase(desk, "anna")
    assert caught.value.code == "TRL465"
    assert {path: path.read_bytes() for path in archive.rglob("*.parquet")} == before
