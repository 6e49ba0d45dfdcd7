"""`tracline report --pdf` where it writes nothing: without its extra, and into the bundle."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline

from ...support.event_rows import PACK, session, user, write


def run(*words: str | Path) -> Result:
    """Run the command with these words."""
    return CliRunner().invoke(tracline, list(map(str, words)))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return the bundle of an audit."""
    write(tmp_path / "archive" / "events.parquet", session("bad", user("no!")))
    (tmp_path / "desk.yaml").write_text(PACK)
    words = ("audit", tmp_path / "archive", "--rules", tmp_path / "desk.yaml", "--out", tmp_path / "bundle")
    assert run(*words, "-q").exit_code == 0
    return tmp_path / "bundle"


def test_without_the_extra_the_error_names_it(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRL425 with the command that installs it; no file is written."""
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    done = run("report", bundle, "--pdf", tmp_path / "report.pdf")
    assert (done.exit_code, "TRL425" in done.stderr) == (2, True)
    assert "the package weasyprint is not installed" in done.stderr
    assert "pip install '.[pdf]'" in done.stderr
    assert not list(tmp_path.glob("*.pdf*"))


def test_without_the_libraries_the_error_names_them(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRL425 with the Debian packages, and not what the import prints."""
    (tmp_path / "fake").mkdir()
    lines = ("print('WeasyPrint cannot import')", "raise OSError('cannot load library libpango-1.0-0')")
    (tmp_path / "fake" / "weasyprint.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path / "fake")
    monkeypatch.delitem(sys.modules, "weasyprint", raising=False)
    done = run("report", bundle, "--pdf", tmp_path / "report.pdf")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "cannot load library libpango-1.0-0" in done.stderr
    assert "apt-get install libpango-1.0-0" in done.stderr


def test_a_pdf_in_the_bundle_is_refused(bundle: Path) -> None:
    """TRL425: the attestation names the files of the bundle."""
    done = run("report", bundle, "--pdf", bundle / "rules" / "report.pdf")
    assert (done.exit_code, "TRL425" in done.stderr) == (2, True)
    assert not list(bundle.rglob("*.pdf"))


def test_the_forms_of_a_report_exclude_each_other(bundle: Path, tmp_path: Path) -> None:
    """The two options are named."""
    done = run("report", bundle, "--pdf", tmp_path / "report.pdf", "--csv")
    assert (done.exit_code, "--csv and --pdf exclude each other" in done.stderr) == (2, True)
