"""`tracline verify --verdict`: one session of an archive is judged, out of the files that can have it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result
from tracline.archive.manifest import ManifestSource
from tracline.archive.writer import archive_writer
from tracline.cli import tracline

from ...support.event_rows import PACK, START, call, result, session, user, write
from ...support.evidence.bundle_lines import bundle_lines

pytestmark = pytest.mark.slow

DAY = 86_400 * 10**9
LIVE = ManifestSource("serve", "a" * 64)


def run(*words: object) -> Result:
    """Run a command of tracline."""
    return CliRunner().invoke(tracline, list(map(str, words)))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder: an archive of four days, its bundle, and the pack."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "desk.yaml").write_text(PACK)
    for day in range(4):
        shouting = session(
            f"s{day}", user("hello"), user("no!"), call(), start=START + day * DAY, end=day < 2
        )
        calm = session(f"c{day}", user("hi"), call("pay"), result(), start=START + day * DAY)
        frame = pl.read_parquet(write(tmp_path / "rows.parquet", shouting + calm))
        with archive_writer(tmp_path / "archive") as writer:
            writer.write(frame, LIVE, (10 * day, 10 * day + 9))
    assert run("keys", "new", "key").exit_code == 0
    made = run("audit", "archive", "--rules", "desk.yaml", "--out", "bundle", "--key", "key")
    assert made.exit_code == 0, made.output
    return tmp_path


def spoil(path: Path) -> None:
    """Overwrite the rows of a Parquet file, and leave its footer."""
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    content[4:-footer] = bytes(len(content) - footer - 4)
    path.write_bytes(content)


def test_every_verdict_of_a_bundle_follows(desk: Path) -> None:
    """Violated, unmet and open sessions too: one session after the other gives what the archive gives."""
    found = bundle_lines(desk / "bundle")
    assert {each["verdict"] for each in found} == {"violated", "unmet"}
    assert len(found) == 7
    for each in found:
        checked = run("verify", "bundle", "--verdict", each["id"], "--archive", "archive", "--key", "key.pub")
        assert checked.exit_code == 0, checked.output
        assert f"at event {each['seq']} of session {each['session_id']} follows" in checked.stdout


def test_only_the_files_that_can_have_the_session_are_read(desk: Path) -> None:
    """The rows of all other files are overwritten; the same check finds a file of the session that is."""
    wanted = next(each for each in bundle_lines(desk / "bundle") if each["session_id"] == "s1")
    line = ("verify", "bundle", "--verdict", wanted["id"], "--archive", "archive")
    for path in (desk / "archive").rglob("*.parquet"):
        if "day=2026-02-18" not in str(path):
            spoil(path)
    checked = run(*line)
    assert checked.exit_code == 0, checked.output
    assert "follows from 4 rows, in 1 file" in checked.stdout
    [path] = (desk / "archive").rglob("day=2026-02-18/*.parquet")
    spoil(path)
    assert run(*line).exit_code == 1


def test_a_verdict_without_a_bundle_is_judged_by_given_rules(desk: Path) -> None:
    """With its session, or else by a search; another session and other rules do not give it."""
    wanted = next(each for each in bundle_lines(desk / "bundle") if each["session_id"] == "s2")
    line = ("verify", "--verdict", wanted["id"], "--archive", "archive", "--rules", "desk.yaml")
    for more in ((), ("--session", "s2")):
        checked = run(*line, *more, "--format", "json")
        assert checked.exit_code == 0, checked.output
        [check] = json.loads(checked.stdout)["checks"]
        assert (check["check"], check["result"]) == ("verdict", "passed")
    assert run(*line, "--session", "c2").exit_code == 1
    absent = run(*line, "--session", "nobody")
    assert (absent.exit_code, "has no event of its session" in absent.stdout) == (1, True)
    (desk / "desk.yaml").write_text(PACK.replace("always not angry", "always not odd"))
    assert run(*line, "--session", "s2").exit_code == 1


def test_a_verdict_that_the_events_do_not_give_fails(desk: Path) -> None:
    """An unknown id does not pass. An erased session cannot be checked, and the others of its file can."""
    unknown = run("verify", "bundle", "--verdict", "0" * 32, "--archive", "archive")
    assert (unknown.exit_code, "TRL421" in unknown.stdout) == (1, True)
    wanted = next(each for each in bundle_lines(desk / "bundle") if each["session_id"] == "s0")
    line = ("verify", "bundle", "--verdict", wanted["id"], "--archive", "archive", "--key", "key.pub")
    assert run("erase", "archive", "--session", "c0", "--reason", "asked", "--key", "key").exit_code == 0
    assert run(*line).exit_code == 0
    assert run(*line[:-2]).exit_code == 2
    (desk / "archive" / "tombstones.jsonl").rename(desk / "stones")
    changed = run(*line)
    assert (changed.exit_code, "TRL461 1 file changed since the audit" in changed.stdout) == (1, True)
    (desk / "stones").rename(desk / "archive" / "tombstones.jsonl")
    assert run("erase", "archive", "--session", "s0", "--reason", "asked", "--key", "key").exit_code == 0
    erased = run(*line)
    assert (erased.exit_code, "rows of the archive are erased" in erased.stdout) == (2, True)


def test_options_that_contradict_each_other(desk: Path) -> None:
    """A bundle has its rules, and a verdict needs an archive."""
    assert run("verify").exit_code == 2
    assert run("verify", "--verdict", "0" * 32).exit_code == 2
    assert run("verify", "bundle", "--session", "s0").exit_code == 2
    both = run("verify", "bundle", "--verdict", "0" * 32, "--archive", "archive", "--rules", "desk.yaml")
    assert (both.exit_code, "leave out" in both.stderr) == (2, True)
    assert desk.is_dir()
