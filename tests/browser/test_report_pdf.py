"""The report as PDF: its text in order, the colours of its drawings, and nothing fetched."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.cli import tracline

from ..support.event_rows import PACK, call, result, session, user, write

VIOLATED = (0xA0, 0x1C, 0x1C)
"""The colour of a violated status on paper."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of an audit, with texts that look like markup."""
    if shutil.which("pdftotext") is None:
        missing = "there is no pdftotext here: apt-get install poppler-utils"
        pytest.fail(missing) if os.environ.get("TRACLINE_REQUIRE_BROWSER") == "1" else pytest.skip(missing)
    folder = tmp_path_factory.mktemp("pdf")
    rows = session("bad", user("<img src='file:///etc/hostname'>!"), call(), result())
    rows += session("clean", user("hi"), call(), result())
    write(folder / "archive" / "events.parquet", rows)
    (folder / "desk.yaml").write_text(PACK)
    words = ["audit", folder / "archive", "--rules", folder / "desk.yaml", "--out", folder / "bundle"]
    done = CliRunner().invoke(tracline, [*map(str, words), "-q", "--with-text"])
    assert done.exit_code == 0, done.output
    return folder / "bundle"


def test_the_pdf_has_the_report(bundle: Path, tmp_path: Path) -> None:
    """The sections in their order, the texts of witnesses as text, red on the timelines; the bundle stays."""
    before = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    out = tmp_path / "report.pdf"
    done = CliRunner().invoke(tracline, ["report", str(bundle), "--pdf", str(out)])
    assert (done.exit_code, done.stdout) == (0, f"{out}\n"), done.output
    assert [path.name for path in tmp_path.iterdir()] == ["report.pdf"]
    text = subprocess.run(["pdftotext", "-layout", out, "-"], capture_output=True, text=True).stdout
    titles = ("Audit of 2 sessions", "What was audited", "What was found", "The worst sessions", "How to re-")
    places = [text.index(title) for title in titles]
    assert places == sorted(places)
    assert "<img src='file:///etc/hostname'>!" in text
    subprocess.run(["pdftoppm", "-r", "72", out, tmp_path / "page"], check=True)
    pages = b"".join(path.read_bytes() for path in tmp_path.glob("page*.ppm"))
    assert bytes(VIOLATED) * 4 in pages
    assert {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()} == before
