"""`tracline audit --previous` from outside: a series of nights over a live archive, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result
from tracline.archive.manifest import ManifestSource
from tracline.archive.writer import archive_writer
from tracline.cli import tracline

from ...support.event_rows import PACK, call, session, user, write
from ...support.evidence.bundle_lines import bundle_lines
from ...support.evidence.opened_files import opened_files

NS = 10**9
HOUR = 3600 * NS
DAYS = [1771286400 * NS + number * 24 * HOUR for number in range(4)]
"""Midnights from 2026-02-17 on."""
NAMES = ["2026-02-17", "2026-02-18", "2026-02-19", "2026-02-20"]
LIVE = ManifestSource("serve", "a" * 64)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a pack and a live archive of one day."""
    (tmp_path / "desk.yaml").write_text(PACK)
    append(tmp_path, 0, session("a", user("no!"), start=DAYS[0] + HOUR), mark=DAYS[1])
    return tmp_path


def append(place: Path, number: int, rows: list[dict], mark: int | None = None) -> None:
    """Append rows to the archive as a file of their own, and state up to what time it is complete."""
    frame = pl.read_parquet(write(place / "rows.parquet", rows)) if rows else None
    with archive_writer(place / "archive") as archive:
        if frame is not None:
            archive.write(frame, LIVE, (10 * number, 10 * number + 9))
        if mark is not None:
            archive.mark(LIVE, mark)


def night(place: Path, number: int, *more: str) -> Result:
    """Audit a night of the archive, which ends at a midnight."""
    rules = ("--rules", str(place / "desk.yaml"))
    out = ("--out", str(place / NAMES[number]))
    line = ["audit", str(place / "archive"), *rules, *out, "--as-of", NAMES[number], *more]
    return CliRunner().invoke(tracline, line)


def first(place: Path) -> Result:
    """Begin a series."""
    return night(place, 1, "--previous-as-of", "1970-01-01")


def after(place: Path, number: int, *more: str) -> Result:
    """Audit a night after the one before."""
    return night(place, number, "--previous", str(place / NAMES[number - 1]), *more)


def lines(place: Path, number: int, name: str) -> list[dict]:
    """Return the lines of a file of a night's bundle."""
    return bundle_lines(place / NAMES[number], name)


@pytest.mark.slow
def test_a_series_of_nights(place: Path) -> None:
    """Each session is in the night in which it closed; finished files are not opened again."""
    assert first(place).exit_code == 0
    done = lines(place, 1, "inputs.jsonl")[0]["name"]
    long = session("b", user("no!"), call("pay"), start=DAYS[2] - NS, end=False)
    append(place, 1, session("c", user("no!"), start=DAYS[1] + HOUR) + long[:1], mark=DAYS[2])
    # The file of the first night holds garbage now, and an attempt to open it would fail.
    file = place / "archive" / done
    content = file.read_bytes()
    file.write_bytes(b"x" * len(content))
    found = after(place, 2)
    assert found.exit_code == 0, found.output
    assert {each["session_id"] for each in lines(place, 2, "verdicts.jsonl")} == {"c"}
    assert [each["session_id"] for each in lines(place, 2, "open.jsonl")] == ["b"]
    append(place, 2, long[1:], mark=DAYS[3])
    found = after(place, 3, "--fail-on", "high")
    assert found.exit_code == 1, found.output
    assert {each["session_id"] for each in lines(place, 3, "verdicts.jsonl")} == {"b"}
    assert len(lines(place, 3, "inputs.jsonl")) == 2
    assert done not in {each["name"] for each in lines(place, 3, "inputs.jsonl")}
    source = json.loads((place / NAMES[3] / "source.json").read_text())
    assert source["previous_as_of"] == "2026-02-19T00:00:00.000000000Z"
    file.write_bytes(content)
    verified = [
        "verify",
        str(place / NAMES[3]),
        "--archive",
        str(place / "archive"),
        "--rerun",
        "--format",
        "json",
    ]
    checks = json.loads(CliRunner().invoke(tracline, verified).stdout)["checks"]
    assert {each["check"]: each["result"] for each in checks}["rerun"] == "passed", checks


@pytest.mark.slow
def test_a_file_is_opened_again_only_where_an_open_session_has_rows_in_it(place: Path) -> None:
    """Of all files of earlier nights, in every night, only those in `open.jsonl` are opened."""
    assert first(place).exit_code == 0
    long = session("b", user("no!"), call("pay"), start=DAYS[2] - NS, end=False)
    append(place, 1, session("c", user("no!"), start=DAYS[1] + HOUR), mark=DAYS[1] + 2 * HOUR)
    append(place, 2, long[:1], mark=DAYS[2])
    with opened_files(place / "archive") as opened:
        assert after(place, 2).exit_code == 0
    new = {Path(each["name"]).name for each in bundle_lines(place / NAMES[2], "inputs.jsonl")}
    assert len(new) == 2
    assert {name for name in opened if name.endswith(".parquet")} == new
    [still_open] = bundle_lines(place / NAMES[2], "open.jsonl")
    append(place, 3, long[1:], mark=DAYS[3])
    with opened_files(place / "archive") as opened:
        assert after(place, 3).exit_code == 0
    known = {path.name for path in (place / "archive").rglob("*.parquet")}
    assert len(known) == 4
    read = {Path(each["name"]).name for each in bundle_lines(place / NAMES[3], "inputs.jsonl")}
    assert {Path(name).name for name in still_open["files"]} < read
    assert len(read) == 2
    assert {name for name in opened if name.endswith(".parquet")} == read


@pytest.mark.slow
def test_after_a_quiet_night_no_finished_file_is_opened(place: Path) -> None:
    """The archive states which files it had when it was complete up to the end of the night before."""
    assert first(place).exit_code == 0
    append(place, 1, [], mark=DAYS[2])
    assert after(place, 2).exit_code == 0
    append(place, 2, session("c", user("no!"), start=DAYS[2] + HOUR), mark=DAYS[3])
    with opened_files(place / "archive") as opened:
        assert after(place, 3).exit_code == 0
    read = {Path(each["name"]).name for each in bundle_lines(place / NAMES[3], "inputs.jsonl")}
    assert len(read) == 1
    assert {name for name in opened if name.endswith(".parquet")} == read


@pytest.mark.slow
def test_a_night_is_not_longer_than_the_archive_is_complete(place: Path) -> None:
    """Rows that come later would be in no night: exit 2, and nothing is written."""
    assert first(place).exit_code == 0
    found = after(place, 2)
    assert found.exit_code == 2
    assert "TRL441" in found.stderr
    assert not (place / NAMES[2]).exists()
    early = night(place, 2, "--previous-as-of", "1970-01-01")
    assert early.exit_code == 2
    assert "TRL441" in early.stderr


@pytest.mark.slow
def test_the_watermark_is_the_end_of_a_night_that_names_none(place: Path) -> None:
    """Without `--as-of`; an archive without a watermark needs one."""
    rules = (
        "--rules",
        str(place / "desk.yaml"),
        "--out",
        str(place / "bundle"),
        "--previous-as-of",
        "2020-01-01",
    )
    assert CliRunner().invoke(tracline, ["audit", str(place / "archive"), *rules]).exit_code == 0
    source = json.loads((place / "bundle" / "source.json").read_text())
    assert source["as_of"] == "2026-02-18T00:00:00.000000000Z"
    write(place / "files" / "events.parquet", session("a", user("no!")))
    found = CliRunner().invoke(tracline, ["audit", str(place / "files"), *rules])
    assert found.exit_code == 2
    assert "TRL441" in found.stderr


@pytest.mark.slow
def test_a_quiet_day(place: Path) -> None:
    """A bundle without a session, and exit 0; the next night follows it."""
    assert first(place).exit_code == 0
    append(place, 1, [], mark=DAYS[3])
    quiet = after(place, 2, "--fail-on", "info")
    assert quiet.exit_code == 0, quiet.output
    assert (place / NAMES[2] / "verdicts.jsonl").read_bytes() == b""
    assert after(place, 3).exit_code == 0


@pytest.mark.slow
def test_bundles_that_no_night_can_follow(place: Path) -> None:
    """One that is as of no time, or of a time up to which its archive was not complete; and no bundle."""
    archive, rules = str(place / "archive"), ("--rules", str(place / "desk.yaml"))
    for more in ((), ("--as-of", NAMES[2])):
        bundle = ("--out", str(place / "plain"))
        assert CliRunner().invoke(tracline, ["audit", archive, *rules, *bundle, *more]).exit_code == 0
        found = night(place, 1, "--previous", str(place / "plain"))
        assert found.exit_code == 2
        assert "TRL442" in found.stderr
    found = night(place, 1, "--previous", str(place / "archive"))
    assert found.exit_code == 2
    assert "TRL458" in found.stderr
    both = night(place, 1, "--previous", str(place / "archive"), "--previous-as-of", "2026-01-01")
    assert both.exit_code == 2
    assert "exclude each other" in both.stderr
