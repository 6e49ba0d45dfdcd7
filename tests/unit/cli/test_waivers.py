"""Waivers and baselines: findings that an audit accepts stay in the bundle and do not make it fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.batch.waivers.waiver_file import read_waivers
from tracline.cli import tracline
from tracline.rules.model.problem import RuleError

from ...support.event_rows import PACK, call, session, user, write
from ...support.evidence.bundle_lines import bundle_lines
from ...support.json_schema import violations
from .test_exports import SCHEMA

RULE_WAIVER = "waivers: [{{rule: desk/calm, {where}, reason: a test, by: ann, until: {until}}}]\n"
DIGITS = "0" * 32


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a pack, and an archive with two shouting sessions and one that waits."""
    (tmp_path / "desk.yaml").write_text(PACK)
    rows = session("a", user("no!"), user("no!", agent="bot")) + session("b", call("pay", "c1"))
    write(tmp_path / "archive" / "events.parquet", rows + session("c", user("no!", agent="bot")))
    return tmp_path


def audit(place: Path, *more: str, out: str = "bundle") -> Result:
    """Audit the archive of the place."""
    rules = ["--rules", str(place / "desk.yaml")]
    line = ["audit", str(place / "archive"), *rules, "--out", str(place / out), *more]
    return CliRunner().invoke(tracline, line)


def waive(place: Path, text: str) -> tuple[str, str]:
    """Write a file of waivers, and return the option."""
    (place / "waivers.yaml").write_text(text)
    return "--waivers", str(place / "waivers.yaml")


def verdicts(place: Path, out: str = "bundle") -> list[dict]:
    """Return the verdicts of a bundle."""
    return bundle_lines(place / out)


@pytest.mark.slow
def test_waived_findings_stay_and_are_listed(place: Path) -> None:
    """No byte of verdicts and summary changes; the lines have the waiver, and the results count them."""
    assert audit(place, out="plain").exit_code == 0
    text = RULE_WAIVER.format(where="agent: bot", until="2999-01-01")
    found = audit(place, *waive(place, text), "--format", "json")
    assert found.exit_code == 0, found.output
    for name in ("verdicts.jsonl", "verdicts.parquet", "summary.json", "certificates.jsonl"):
        assert (place / "plain" / name).read_bytes() == (place / "bundle" / name).read_bytes()
    assert (place / "bundle" / "waivers.yaml").read_text() == text
    report = (place / "bundle" / "report.html").read_text()
    assert "2 verdicts are waived" in report
    assert "a test" in report
    waived = bundle_lines(place / "bundle", "waived.jsonl")
    shouted = [each for each in verdicts(place) if each["rule"] == "calm" and each["agent"] == "bot"]
    assert [each["id"] for each in shouted] == [each["id"] for each in waived]
    assert waived[0] == {
        "by": "ann",
        "id": waived[0]["id"],
        "reason": "a test",
        "until": "2999-01-01",
        "waiver": 1,
    }
    calm = json.loads(found.stdout)["rules"]["calm"]
    assert (calm["violations"], calm["waived"]) == (3, 2)
    assert (calm["sessions_violating"], calm["sessions_violating_unwaived"]) == (2, 1)


def verified(place: Path) -> dict[str, str]:
    """Return the result of each check of the bundle."""
    line = [
        "verify",
        str(place / "bundle"),
        "--archive",
        str(place / "archive"),
        "--rerun",
        "--format",
        "json",
    ]
    checks = json.loads(CliRunner().invoke(tracline, line).stdout)["checks"]
    return {each["check"]: each["result"] for each in checks}


@pytest.mark.slow
def test_waived_findings_are_verified(place: Path) -> None:
    """The waivers in the bundle are matched again, at the attested time, and the audit is re-performed."""
    text = RULE_WAIVER.format(where="agent: bot", until="2999-01-01")
    assert audit(place, *waive(place, text)).exit_code == 0
    found = verified(place)
    assert (found["waivers"], found["rerun"], found["report"]) == ("passed", "passed", "passed")
    waived = place / "bundle" / "waived.jsonl"
    waived.write_text(waived.read_text().splitlines()[0] + "\n")
    assert verified(place)["waivers"] == "failed"


@pytest.mark.parametrize(
    ("where", "until", "code"),
    [
        ("session: a", "2999-01-01", 1),
        ("from: 2026-02-17, to: 2026-02-17", "2999-01-01", 0),
        ("from: 2026-02-17T12:00:00Z, to: 2026-02-17T12:00:01Z", "2999-01-01", 0),
        ("from: 2026-02-17T12:00:01Z", "2999-01-01", 1),
        ("from: 2026-02-17", "2026-02-16", 1),
        ("from: 2026-02-17, agent: nobody", "2999-01-01", 1),
    ],
)
def test_waived_findings_do_not_make_an_audit_fail(place: Path, where: str, until: str, code: int) -> None:
    """Exit 1 only where a finding of a rule of that severity is not waived."""
    found = audit(place, *waive(place, RULE_WAIVER.format(where=where, until=until)), "--fail-on", "high")
    assert found.exit_code == code, found.output


@pytest.mark.slow
@pytest.mark.parametrize(("as_of", "code"), [("2026-03-01T23:59:59Z", 0), ("2026-03-02", 1)])
def test_a_waiver_is_in_force_to_the_end_of_its_day(place: Path, as_of: str, code: int) -> None:
    """The day of `--as-of` counts, not that of the clock."""
    given = waive(place, RULE_WAIVER.format(where="from: 2026-01-01", until="2026-03-01"))
    found = audit(place, *given, "--fail-on", "high", "--as-of", as_of)
    assert found.exit_code == code, found.output
    assert ("waiver 1 expired after 2026-03-01" in found.stderr) is bool(code)


def test_a_waiver_that_matches_nothing_is_a_warning(place: Path) -> None:
    """A verdict with another id, and a rule that no finding breaks."""
    text = f"""
waivers:
  - {{verdict: {DIGITS}, reason: gone, by: ann, until: 2999-01-01}}
  - {{rule: desk/clam, session: a, reason: a slip, by: ann, until: 2999-01-01}}
"""
    found = audit(place, *waive(place, text))
    assert found.exit_code == 0
    assert "waiver 1 matches no finding: gone" in found.stderr
    assert "waiver 2 matches no finding: a slip" in found.stderr


@pytest.mark.slow
def test_sarif_suppresses_waived_findings_and_marks_known_ones(place: Path) -> None:
    """The other results have no suppression; every result has its state against the baseline."""
    assert audit(place, out="before").exit_code == 0
    first = next(each["id"] for each in verdicts(place, "before") if each["rule"] == "calm")
    text = f'waivers: [{{verdict: {first}, reason: "known", by: ann, until: 2999-01-01}}]'
    write(place / "archive" / "more.parquet", session("d", user("no!")))
    baseline = ("--baseline", str(place / "before"))
    found = audit(place, *waive(place, text), *baseline, "--format", "sarif")
    results = json.loads(found.stdout)["runs"][0]["results"]
    by_id = {each["partialFingerprints"]["traclineVerdict/v1"]: each for each in results}
    assert {name for name, each in by_id.items() if "suppressions" in each} == {first}
    justification = "known (waived by ann until 2999-01-01)"
    suppression = {"kind": "external", "status": "accepted", "justification": justification}
    assert by_id[first]["suppressions"] == [suppression]
    new = {each["id"] for each in verdicts(place) if each["session_id"] == "d"}
    assert {name for name, each in by_id.items() if each["baselineState"] == "new"} == new
    assert all(each["baselineState"] in ("new", "unchanged") for each in results)


@pytest.mark.slow
@pytest.mark.parametrize("out", ["after", "before"])
def test_sarif_has_the_vanished_findings_of_the_baseline(place: Path, out: str) -> None:
    """They are `absent`, also where the new bundle replaces the baseline, but for those of removed rules."""
    write(place / "archive" / "more.parquet", session("d", user("no!")))
    assert audit(place, out="before").exit_code == 0
    gone = {each["id"] for each in verdicts(place, "before") if each["session_id"] == "d"}
    (place / "archive" / "more.parquet").unlink()
    (place / "desk.yaml").write_text(PACK.replace("{id: answered", "{id: responded"))
    found = audit(place, "--baseline", str(place / "before"), "--format", "sarif", out=out)
    log = json.loads(found.stdout)
    assert list(violations(log, SCHEMA, SCHEMA)) == []
    results = log["runs"][0]["results"]
    absent = [each for each in results if each["baselineState"] == "absent"]
    assert {each["partialFingerprints"]["traclineVerdict/v1"] for each in absent} == gone
    assert results[-len(absent) :] == absent
    assert {each["ruleId"] for each in absent} == {"calm"}
    assert "new" in {each["baselineState"] for each in results if each["ruleId"] == "responded"}


@pytest.mark.slow
def test_known_findings_do_not_make_an_audit_fail(place: Path) -> None:
    """Exit 1 for a finding that the baseline lacks, also where the new bundle replaces the baseline."""
    assert audit(place, "--fail-on", "high").exit_code == 1
    baseline = ("--baseline", str(place / "bundle"), "--fail-on", "high")
    assert audit(place, *baseline).exit_code == 0
    write(place / "archive" / "more.parquet", session("d", user("no!")))
    assert audit(place, *baseline, out="other").exit_code == 1
    (place / "desk.yaml").write_text(PACK.replace("not angry", "not (angry and angry)"))
    changed = audit(place, *baseline, out="other")
    assert changed.exit_code == 1
    assert "calm has changed since, so all its findings are new" in changed.stderr


@pytest.mark.slow
def test_junit_skips_rules_whose_findings_are_accepted(place: Path) -> None:
    """The reason is in the report."""
    text = RULE_WAIVER.format(where="from: 2026-01-01", until="2999-01-01")
    found = audit(place, *waive(place, text), "--format", "junit")
    assert 'skipped message="Nobody shouts: 3 times, waived"' in found.stdout
    table = audit(place, *waive(place, text)).stdout
    assert "calm: 3 waived, 0 sessions with findings that are not" in table
    assert "calm: Nobody shouts" not in table, "there is no example that is not waived"


def test_a_folder_that_is_no_bundle_is_no_baseline(place: Path) -> None:
    """The error has a code, and nothing is written."""
    found = audit(place, "--baseline", str(place / "archive"))
    assert found.exit_code == 2
    assert "TRL440" in found.stderr
    assert not (place / "bundle").exists()


REST = "  reason: a\n  by: b\n  until: 2026-01-01"

MISTAKES = [
    ("waiver: []", "TRL211", 1, 1),
    ("waivers: {a: b}", "TRL212", 1, 11),
    ("[]", "TRL212", 1, 1),
    ("waivers: [a]", "TRL212", 1, 11),
    ("waivers:\n- verdict: 12\n  reason: a\n  by: b\n  until: 2026-01-01", "TRL212", 2, 12),
    (f"waivers:\n- verdict: {DIGITS}\n  reason: a\n  by: b\n  until: 2026-13-01", "TRL212", 5, 10),
    (f"waivers:\n- verdict: {DIGITS}\n  reason: a\n  until: 2026-01-01", "TRL210", 2, 3),
    (f"waivers:\n- verdict: {DIGITS}\n  reason:\n  by: b\n  until: 2026-01-01", "TRL212", 3, 3),
    (
        f"waivers:\n- verdict: {DIGITS}\n  session: a\n  reason: a\n  by: b\n  until: 2026-01-01",
        "TRL211",
        3,
        3,
    ),
    ("waivers:\n- rule: a/b\n  reason: a\n  by: b\n  until: 2026-01-01", "TRL210", 2, 3),
    ("waivers:\n- rule: a\n  session: s\n  reason: a\n  by: b\n  until: 2026-01-01", "TRL212", 2, 9),
    ("waivers:\n- rule: a/b\n  sesion: s\n  reason: a\n  by: b\n  until: 2026-01-01", "TRL211", 3, 3),
    ("waivers:\n- rule: a/b\n  from: x\n  reason: a\n  by: b\n  until: 2026-01-01", "TRL212", 3, 9),
    ("waivers:\n- rule: a/b\n  from: 2026-01-02\n  to: 2026-01-01\n" + REST, "TRL212", 4, 7),
    (
        "waivers:\n- rule: a/b\n  rule: c/d\n  session: a\n  reason: a\n  by: b\n  until: 2026-01-01",
        "TRL203",
        3,
        3,
    ),
    ("waivers: [", "TRL202", 1, 11),
]


@pytest.mark.parametrize(("text", "code", "line", "column"), MISTAKES)
def test_a_mistake_has_its_code_and_its_place(text: str, code: str, line: int, column: int) -> None:
    """Each mistake of a file of waivers is reported where it stands."""
    with pytest.raises(RuleError) as caught:
        read_waivers(text.encode(), "waivers.yaml")
    places = [
        (each.code, each.location.line, each.location.column)
        for each in caught.value.problems
        if each.location
    ]
    assert (code, line, column) in places, places


def test_a_mistake_writes_nothing(place: Path) -> None:
    """The error names the file, the line and the column, and suggests the field."""
    found = audit(place, *waive(place, "waivers:\n- rule: desk/calm\n  sesion: a\n"))
    assert found.exit_code == 2
    assert "waivers.yaml:3:3: TRL211" in found.stderr
    assert "did you mean `session`?" in found.stderr
    assert not (place / "bundle").exists()


def test_text_that_is_not_utf_8_is_an_error() -> None:
    """A file of another encoding."""
    with pytest.raises(RuleError, match="TRL202"):
        read_waivers(b"waivers: [\xff]", "waivers.yaml")
