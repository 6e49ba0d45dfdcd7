"""`tracline audit` from outside: exit codes, formats, and what hostile telemetry cannot do to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as Xml

import click
import pytest
from click.testing import CliRunner, Result
from polars.exceptions import PanicException
from tracline.batch.prepare.options import ALLOCATOR, allocator_settings
from tracline.cli import COMMANDS, main, tracline

from ...support.event_rows import PACK, START, call, session, user, write
from ...support.evidence.bundle_lines import bundle_lines

HOSTILE = "evil\x1b[31m\u202e\x9b\x07<b>&\x00"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a pack, and an archive whose sessions shout, wait for an answer, and are open."""
    (tmp_path / "desk.yaml").write_text(PACK)
    shouting = session("a", user("no!"), user("no!"))
    waiting = session("b", call("pay", "c1"))
    rows = shouting + waiting + session("c", user(None), start=START + 60 * 10**9, end=False)
    write(tmp_path / "archive" / "events.parquet", rows)
    return tmp_path


def run(place: Path, *more: str) -> Result:
    """Audit the archive of the place."""
    line = [
        "audit",
        str(place / "archive"),
        "--rules",
        str(place / "desk.yaml"),
        "--out",
        str(place / "bundle"),
    ]
    return CliRunner().invoke(tracline, [*line, *more])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("severity", "code"), [("info", 1), ("medium", 1), ("high", 1), ("critical", 0), (None, 0)]
)
def test_fail_on_compares_the_severity_of_broken_rules(place: Path, severity: str | None, code: int) -> None:
    """Exit 1 where a rule of at least that severity is broken; findings alone are no failure."""
    found = run(place, *(() if severity is None else ("--fail-on", severity)))
    assert found.exit_code == code, found.output
    assert (place / "bundle" / "verdicts.jsonl").exists()


@pytest.mark.slow
def test_a_window_without_sessions_is_noted(place: Path) -> None:
    """Nothing was judged then, which looks like a clean audit; without a window there is no such note."""
    found = run(place, "--since", "2099-01-01")
    assert found.exit_code == 0
    assert "no session lies between --since and --until; sessions without times" in found.stderr
    assert "no session lies" not in run(place).stderr


@pytest.mark.slow
def test_unmet_counts_for_fail_on(place: Path) -> None:
    """A rule that is only unmet is broken as well."""
    (place / "desk.yaml").write_text(PACK.replace("severity: medium", "severity: critical"))
    assert run(place, "--fail-on", "critical").exit_code == 1


def test_the_table_shows_what_a_person_wants_to_know(place: Path) -> None:
    """Population, broken rules with severity, counts and rate, first examples, and where the bundle is."""
    text = run(place).output
    assert "4 events in 3 sessions from 1 file, 1 still open" in text
    assert [line.split() for line in text.splitlines() if line.startswith(" calm ")] == [
        ["calm", "high", "2", "·", "1", "of", "3", "1", "33.3%", "to", "66.7%", "6.1%", "to", "93.9%"]
    ]
    assert "calm: Nobody shouts" in text
    assert "step 1" in text
    assert "Held: paid-once" in text
    assert "Unjudged in some sessions: calm (1)" in " ".join(text.split())
    assert str(place / "bundle") in text.replace("\n", "")


@pytest.mark.slow
def test_rejected_rows_are_listed_and_exit_2(place: Path) -> None:
    """More rejected rows than allowed exit 2 with file and row named, after the bundle is written."""
    rows = session("a", user("no!")) + session("b", user("hm"), end=False)
    rows[-1]["session_id"] = None
    write(place / "archive" / "events.parquet", rows)
    found = run(place, "--fail-on", "info")
    assert found.exit_code == 2
    assert "events.parquet: row 3: row-session" in found.stderr
    assert (place / "bundle" / "summary.json").exists()
    assert run(place, "--allow-rejected", "1").exit_code == 0


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (("--since", "yesterday"), "use 2026-02-17"),
        (("--threads", "0"), "--threads"),
        (("--timezone", "Mars/Olympus"), "TRL405"),
        (("--rules", "no-such-pack"), "TRL"),
    ],
)
def test_wrong_usage_exits_2_and_names_the_remedy(place: Path, more: tuple[str, ...], error: str) -> None:
    """Times, threads, zones and packs that there are not."""
    found = run(place, *more)
    assert found.exit_code == 2
    assert error in found.stderr
    assert not (place / "bundle").exists()


@pytest.mark.slow
def test_json_and_json_lines_hold_every_verdict(place: Path) -> None:
    """`json` is the summary with all verdicts, `jsonl` the lines of the bundle as values."""
    lines = [json.loads(line) for line in (run(place, "--format", "jsonl").output).splitlines()]
    bundle = (place / "bundle" / "verdicts.jsonl").read_text().splitlines()
    assert lines == [json.loads(line) for line in bundle]
    report = json.loads(run(place, "--format", "json").output)
    summary = json.loads((place / "bundle" / "summary.json").read_text())
    assert report == {**summary, "verdicts": lines}
    assert len(lines) == 4


def test_sarif_names_each_finding_by_its_rule(place: Path) -> None:
    """One result for each verdict, with the rule it breaks, a level by severity and the verdict's id."""
    log = json.loads(run(place, "--format", "sarif").output)
    assert log["version"] == "2.1.0"
    [sarif_run] = log["runs"]
    rules = sarif_run["tool"]["driver"]["rules"]
    lines = bundle_lines(place / "bundle")
    assert [rule["id"] for rule in rules] == ["answered", "calm", "paid-once", "gives-up"]
    assert [r["partialFingerprints"]["traclineVerdict/v1"] for r in sarif_run["results"]] == [
        v["id"] for v in lines
    ]
    for result, verdict in zip(sarif_run["results"], lines, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == verdict["rule"]
        assert result["message"]["text"]
    levels = {(r["ruleId"], r["kind"]): r["level"] for r in sarif_run["results"]}
    assert levels["calm", "fail"] == "error"
    assert levels["answered", "fail"] == "warning"
    assert levels["calm", "open"] == "none"


def test_junit_has_a_case_for_each_rule(place: Path) -> None:
    """Broken rules fail, with the counts that testing tools read."""
    root = Xml.fromstring(run(place, "--format", "junit").output)
    cases = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases == {
        "answered": ["failure"],
        "calm": ["failure", "system-out"],
        "paid-once": [],
        "gives-up": [],
    }
    assert (root.get("tests"), root.get("failures")) == ("4", "2")
    [suite] = root
    assert (suite.get("name"), suite.get("tests"), suite.get("skipped")) == ("desk", "4", "0")


@pytest.mark.slow
def test_a_rule_that_was_not_judged_has_not_passed(place: Path) -> None:
    """If one session held and another could not be judged, no format reports that the rule held."""
    rows = session("a", user("hi")) + session("b", user(None))
    write(place / "archive" / "events.parquet", rows)
    cases = Xml.fromstring(run(place, "--format", "junit").output).iter("testcase")
    [calm] = [case for case in cases if case.get("name") == "calm"]
    assert [(child.tag, child.get("message")) for child in calm] == [
        ("skipped", "sessions held: 1, unjudged: 1, rate: 0.0% to 50.0%")
    ]
    table = " ".join(run(place).output.split())
    assert "Held: calm" not in table
    assert "Unjudged in some sessions: calm (1 of 2: 0.0% to 50.0%)" in table


@pytest.mark.slow
def test_the_epoch_is_a_time(place: Path) -> None:
    """--since takes 1970-01-01T00:00:00Z, which is 0, like any other."""
    found = run(place, "--since", "1970-01-01T00:00:00Z")
    assert found.exit_code == 0, found.output


@pytest.mark.parametrize(
    ("fault", "code"), [(RuntimeError, 2), (PanicException, 2), (KeyboardInterrupt, 130)]
)
def test_a_fault_is_no_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: type, code: int
) -> None:
    """A fault in tracline itself exits 2 with the place of it, cleaned; Ctrl-C exits 130; never 1."""

    @click.command()
    def command() -> None:
        raise fault("a\x1b[2Jb")

    module = ModuleType("tracline.cli.commands.faulty")
    monkeypatch.setattr(module, "command", command, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "faulty", ("faulty", "Fails."))
    monkeypatch.setattr(sys, "argv", ["tracline", "faulty"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    error = capsys.readouterr().err
    assert "\x1b" not in error
    assert ("Traceback" in error) == (code == 2)


@pytest.mark.parametrize("format", ["table", "json", "jsonl", "junit", "sarif"])
def test_hostile_names_steer_no_terminal(place: Path, format: str) -> None:
    """Escapes, control characters and direction marks in ids and slices come out harmless and well-formed."""
    rows = session(HOSTILE, user("no!", agent=HOSTILE), call("pay", HOSTILE), call("pay", HOSTILE))
    write(place / "archive" / "events.parquet", rows)
    found = run(place, "--format", format)
    assert found.exit_code == 0
    assert not set(found.output) & {"\x1b", "\x9b", "\x07", "\x00", "\u202e"}
    assert "evil" in found.output
    if format == "junit":
        Xml.fromstring(found.output)
    elif format != "table":
        documents = found.output.splitlines() if format == "jsonl" else [found.output]
        assert all(json.loads(document) for document in documents)


@pytest.mark.slow
def test_session_settings_decide_what_is_idle(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`idle_s` from the environment closes sessions sooner."""
    rows = session("a", call(), end=False) + session("b", user("hi"), start=START + 60 * 10**9)
    write(place / "archive" / "events.parquet", rows)
    assert json.loads(run(place, "--format", "json").output)["rules"]["answered"]["unmet"] == 0
    monkeypatch.setenv("TRACLINE_SESSIONS_IDLE_S", "30")
    assert json.loads(run(place, "--format", "json").output)["rules"]["answered"]["unmet"] == 1


SHOW_SETTINGS = f"""
import atexit, os, sys
SLOW = {{"scipy.sparse", "scipy.linalg", "scipy.special"}}
atexit.register(lambda: print(sorted(SLOW & sys.modules.keys()), os.environ[{ALLOCATOR!r}], sep="\\n"))
from tracline.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("given", [None, "narenas:5"])
def test_the_allocator_takes_its_settings(place: Path, given: str | None) -> None:
    """The settings are set before Polars is imported, whose allocator prints invalid ones; the user's win.

    Without a chain no part of SciPy is imported that takes long, neither by tracline nor by Numba.
    """
    env = {name: value for name, value in os.environ.items() if name != ALLOCATOR}
    env |= {} if given is None else {ALLOCATOR: given}
    files = [place / "archive", "--rules", place / "desk.yaml", "--out", place / "bundle"]
    words = [sys.executable, "-c", SHOW_SETTINGS, "audit", *map(str, files), "--threads", "6", "--quiet"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    # Polars puts its defaults before the settings, of which the last one counts.
    assert f",{done.stdout.splitlines()[-1]}".endswith(f",{given or allocator_settings(6)}")
    assert "jemalloc" not in done.stderr
    assert done.stdout.splitlines()[-2] == "[]"
