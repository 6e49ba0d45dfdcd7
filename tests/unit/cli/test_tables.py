"""Tables on terminals of any width: they fit, or are laid out in lines, and ids are never cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.cli import tracline

from ...support.event_rows import PACK, session, user, write

SESSION = "customer-session-with-a-long-name-0123456789-0123456789"
WIDTHS = (40, 60, 80, 100, 200)


def run(*words: str | Path) -> str:
    """Run the command and return its output."""
    done = CliRunner().invoke(tracline, list(map(str, words)))
    assert done.exit_code == 0, done.output
    return done.stdout


def longest_word(line: str) -> int:
    """Return the length of the longest word of a line."""
    return max(map(len, line.split()), default=0)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with an archive of one session and a pack, both with long names."""
    write(tmp_path / "archive" / "events.parquet", session(SESSION, user("a"), user("no!")))
    pack = PACK.replace("id: calm", "id: keeps-calm-at-all-times")
    (tmp_path / "desk.yaml").write_text(pack.replace("angry", "angry_and_shouting_at_the_clerk"))
    return tmp_path


@pytest.mark.parametrize("width", WIDTHS)
def test_the_audits_table_fits_and_its_ids_are_whole(
    desk: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """A line is wider than the terminal only for an id that is; ids and names of rules are on one line."""
    monkeypatch.setenv("COLUMNS", str(width))
    bundle = desk / "out"
    text = run("audit", desk / "archive", "--rules", desk / "desk.yaml", "--out", bundle, "-q")
    record = next(line for line in (bundle / "verdicts.jsonl").read_text().splitlines() if "calm" in line)
    verdict = re.findall(r'"id":"([^"]*)"', record)[-1]
    lines = text.splitlines()
    assert ("95% interval" in text) == (width >= 100)
    for whole in (SESSION, "keeps-calm-at-all-times", verdict, f"{SESSION}-2"):
        assert any(whole in line for line in lines), whole
    table = [line for line in lines if str(desk) not in line]
    assert all(len(line) <= max(width, longest_word(line) + len("    verdict ")) for line in table)
    assert "…" not in text


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_of_propositions_fits(desk: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Names of propositions and ids of sessions are whole; texts are cut to the line."""
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run("label", desk / "archive", "--rules", desk / "desk.yaml", "-q").splitlines()
    assert any("desk/angry_and_shouting_at_the_clerk" in line for line in lines[:12])
    assert any(SESSION in line for line in lines)
    assert all(len(line) <= max(width, len(SESSION) + 20) for line in lines)


@pytest.mark.slow
def test_nothing_is_cut_or_wrapped_in_a_pipe(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding's texts are whole lines however long they are."""
    monkeypatch.delenv("COLUMNS")
    write(desk / "archive" / "events.parquet", session(SESSION, user("word! " * 2_000)))
    run("audit", desk / "archive", "--rules", desk / "desk.yaml", "--out", desk / "out", "-q")
    lines = run("show", desk / "out", "-q").splitlines()
    assert any(("word! " * 2_000).strip() in line for line in lines)
