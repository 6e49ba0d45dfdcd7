"""SARIF and JUnit of an audit: the published schema, the rules of code hosts, and what fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.cli.render import sarif as sarif_module
from tracline.stream.alerts.rates import RuleRates, default_rates, encode, fit
from tracline.stream.alerts.session_counts import RateKey, TickCounts

from ...support.event_rows import call, session, user, write
from ...support.json_schema import violations

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "support" / "schemas" / "sarif-schema-2.1.0.json").read_text("utf-8")
)

PACK = """\
# Rules of a test désk.
pack: desk
version: 1
extends: base.yaml
propositions:
  asks: kind == "user"
  shouts: kind == "user" and text matches /!/
rules:
  - id: calm
    title: Nobody shouts
    severity: high
    policy: Staff stay calm (handbook, 4.2)
    owner: service desk
    tags: [tone, nightly]
    formula: always not shouts
  -   why: Silence is golden.
      id: quiet
      severity: low
      formula: always not asks
"""

BASE = """\
pack: base
propositions:
  pays: kind == "tool_call" and tool == "pay"
rules:
  - {id: never-pays, severity: medium, blind_spots: Cash., formula: always not pays}
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with packs in a folder and an archive of ten sessions."""
    (tmp_path / "our packs").mkdir()
    (tmp_path / "our packs" / "desk.yaml").write_text(PACK, "utf-8")
    (tmp_path / "our packs" / "base.yaml").write_text(BASE, "utf-8")
    rows = []
    for number in range(10):
        text = "help!" if number < 3 else "help"
        rows += session(f"s{number}", user(text), call("pay", agent="bot"))
    write(tmp_path / "archive" / "events.parquet", rows)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(*more: str, packs: Sequence[str] = ("our packs/desk.yaml",)) -> Result:
    """Run the audit in the working directory."""
    line = ["audit", "archive", "--rules", *packs, "--out", "bundle", "--quiet", *more]
    return CliRunner().invoke(tracline, line)


def run_of(*more: str, packs: Sequence[str] = ("our packs/desk.yaml",)) -> dict[str, Any]:
    """Return the only run of the SARIF log, which the published schema accepts."""
    found = audit("--format", "sarif", *more, packs=packs)
    log = json.loads(found.stdout)
    assert list(violations(log, SCHEMA, SCHEMA)) == []
    (only,) = log["runs"]
    return only


# ---- SARIF


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_the_schema_finds_what_is_wrong() -> None:
    """The validator is not silent: each of these edits is a violation."""
    log = json.loads(audit("--format", "sarif").stdout)
    result = log["runs"][0]["results"][0]
    edits: list[Callable[[], Any]] = [
        lambda: result.pop("message"),
        lambda: result.update(message={"text": "x"}, level="severe"),
        lambda: result.update(level="error", unknown=1),
        lambda: log.update(version="2.0.0"),
    ]
    for edit in edits:
        edit()
        assert list(violations(log, SCHEMA, SCHEMA))


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_every_result_is_at_the_line_of_its_rule() -> None:
    """Its file is relative to the working directory, also that of an inherited rule."""
    found = {result["ruleId"]: result["locations"][0]["physicalLocation"] for result in run_of()["results"]}
    for rule, name, text in (
        ("calm", "desk.yaml", PACK),
        ("quiet", "desk.yaml", PACK),
        ("never-pays", "base.yaml", BASE),
    ):
        assert found[rule]["artifactLocation"] == {"uri": f"our%20packs/{name}"}
        region = found[rule]["region"]
        line = text.splitlines()[region["startLine"] - 1]
        assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == rule
        assert region["endLine"] == region["startLine"]


@pytest.mark.slow
def test_rules_without_a_file_below_the_working_directory_are_in_the_bundle(
    desk: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A shipped pack and a pack elsewhere have their copies there."""
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "far.yaml"
    elsewhere.write_text(BASE.replace("pack: base", "pack: far"))
    results = run_of(packs=("tool-hygiene", str(elsewhere)))["results"]
    uris = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results}
    assert uris <= {"bundle/rules/far.yaml", "bundle/rules/tool-hygiene.yaml"}
    assert "bundle/rules/far.yaml" in uris
    assert all((desk / uri).is_file() for uri in uris)


@pytest.mark.usefixtures("desk")
def test_the_log_has_what_code_hosts_require() -> None:
    """Descriptions and help of every rule, and a fingerprint of its own for every finding."""
    only = run_of()
    for rule in only["tool"]["driver"]["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["properties"].get("tags", ["x"])
    helps = {rule["id"]: rule["help"]["text"] for rule in only["tool"]["driver"]["rules"]}
    assert helps["calm"] == "Staff stay calm (handbook, 4.2)\n\nOwner: service desk"
    assert helps["quiet"] == "Silence is golden."
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in only["results"]]
    assert len(set(prints)) == len(prints) == 23
    for result in only["results"]:
        (location,) = result["locations"]
        assert not location["physicalLocation"]["artifactLocation"]["uri"].startswith(("/", "file:", ".."))
        assert location["logicalLocations"][0]["fullyQualifiedName"].startswith("s")


@pytest.mark.usefixtures("desk")
def test_too_many_results_leave_out_the_least_severe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notification counts them; the verdicts stay in their order."""
    monkeypatch.setattr(sarif_module, "RESULTS_MAX", 8)
    only = run_of()
    assert [result["ruleId"] for result in only["results"]].count("calm") == 3
    assert [result["ruleId"] for result in only["results"]].count("never-pays") == 5
    (notification,) = only["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"]["text"].startswith("15 further results")


@pytest.mark.slow
def test_a_least_severity_leaves_rules_out_of_sarif_and_junit(desk: Path) -> None:
    """The bundle has them."""
    only = run_of("--min-severity", "medium")
    assert [rule["id"] for rule in only["tool"]["driver"]["rules"]] == ["never-pays", "calm"]
    assert {result["ruleId"] for result in only["results"]} == {"never-pays", "calm"}
    assert {
        only["tool"]["driver"]["rules"][r["ruleIndex"]]["id"] == r["ruleId"] for r in only["results"]
    } == {True}
    assert set(cases("--min-severity", "high")) == {"calm"}
    assert "quiet" in (desk / "bundle" / "verdicts.jsonl").read_text()


# ---- what fails


def cases(*more: str) -> dict[str, str]:
    """Return the outcome of each case of the JUnit report, with its message."""
    root = Xml.fromstring(audit("--format", "junit", *more).stdout)
    return {
        str(case.get("name")): next((f"{part.tag}: {part.get('message')}" for part in case), "passed")
        for case in root.iter("testcase")
        for _ in [[case.remove(part) for part in case.findall("properties")]]
    }


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_junit_fails_where_the_exit_code_does() -> None:
    """Broken rules below `--fail-on` are skipped, with the reason."""
    assert {outcome.partition(":")[0] for outcome in cases().values()} == {"failure"}
    found = cases("--fail-on", "high")
    assert found["calm"].startswith("failure: Nobody shouts: 3 times")
    assert found["quiet"] == "skipped: quiet: 10 times, below --fail-on high"
    assert audit("--fail-on", "high").exit_code == 1
    assert audit("--fail-on", "critical").exit_code == 0
    assert {outcome.partition(":")[0] for outcome in cases("--fail-on", "critical").values()} == {"skipped"}


def rates(desk: Path, violating: int, applicable: int) -> str:
    """Write tolerated rates of `calm` that were learned from so many sessions."""
    tick = TickCounts(RateKey("desk", "calm", "bot"), 0, violating, applicable)
    learned = fit([tick] * 20, 0.01)
    rule = RuleRates("desk", "calm", 1, learned, {})
    content = default_rates(60, 3600.0)
    (desk / "rates.json").write_bytes(encode(type(content)(1, 60, 1, content.rest, (rule,))))
    return "rates.json"


@pytest.mark.slow
def test_a_tolerated_rate_fails_only_above_its_interval(desk: Path) -> None:
    """Three of ten sessions may be a rate of 8.7%: that is above 1%, and not above 40%."""
    low, high = rates(desk, 1, 200), ["--fail-on", "high", "--tolerate", "rates.json"]
    assert low == "rates.json"
    assert audit(*high).exit_code == 1
    assert cases(*high)["calm"].startswith("failure")
    rates(desk, 80, 200)
    assert audit(*high).exit_code == 0
    assert cases(*high)["calm"].startswith(
        "skipped: Nobody shouts: 3 times, within the tolerated rate: at least 8.73% of the sessions, "
    )


def test_rates_of_no_rule_are_refused(desk: Path) -> None:
    """Such a file, learned from sessions without times, is an error with a remedy, and no audit is done."""
    rates(desk, 1, 200)
    learned = json.loads((desk / "rates.json").read_text())
    (desk / "rates.json").write_text(json.dumps({**learned, "rules": []}))
    found = audit("--fail-on", "high", "--tolerate", "rates.json")
    assert found.exit_code == 2
    assert "rates.json: TRL762 no rule has a tolerated rate" in found.stderr
    assert "from logs with times" in found.stderr
    assert not (desk / "bundle").exists()


def test_a_rule_without_a_tolerated_rate_tolerates_nothing(desk: Path) -> None:
    """The rates are of `calm` only: `never-pays` fails."""
    rates(desk, 80, 200)
    found = cases("--fail-on", "medium", "--tolerate", "rates.json")
    assert found["never-pays"].startswith("failure")
    assert found["calm"].startswith("skipped")
    assert found["quiet"].endswith("below --fail-on medium")


def test_tolerating_requires_a_severity_and_readable_rates(desk: Path) -> None:
    """Damaged rates are an error, and so is `--tolerate` alone."""
    (desk / "rates.json").write_text("{}")
    assert "--tolerate requires --fail-on" in audit("--tolerate", "rates.json").stderr
    damaged = audit("--fail-on", "low", "--tolerate", "rates.json")
    assert damaged.exit_code == 2
    assert "TRL762" in damaged.stderr
    assert not (desk / "bundle").exists()


def notes(*more: str) -> list[str]:
    """Return the notes of an audit that tolerates the written rates, and fails."""
    line = ["audit", "archive", "--rules", "our packs/desk.yaml", "--out", "bundle"]
    found = CliRunner().invoke(tracline, [*line, "--fail-on", "high", "--tolerate", "rates.json", *more])
    assert found.exit_code == 1
    return [each for each in found.stderr.splitlines() if "learned" in each]


@pytest.mark.slow
def test_a_short_history_of_rates_is_noted(desk: Path) -> None:
    """The note has the sessions of the history and the interval of their rate; the exit code is the same."""
    rates(desk, 0, 2)
    (noted,) = notes()
    assert re.fullmatch(
        r"calm: the tolerated rate, [\d.]+%, was learned from 40 sessions of agent bot; "
        r"the interval of their rate is 0\.0% to 8\.8%",
        noted,
    )
    rates(desk, 0, 200)
    assert notes() == []


@pytest.mark.slow
def test_rates_of_the_audited_time_are_noted(desk: Path) -> None:
    """Rates tolerate what they were learned from; those of an earlier time have no note."""
    rates(desk, 0, 200)
    learned = json.loads((desk / "rates.json").read_text())
    for since, until, count in (
        ("2026-02-17T11:00:00Z", "2026-02-17T13:00:00Z", 1),
        ("2026-02-10T11:00:00Z", "2026-02-16T23:00:00Z", 0),
    ):
        (desk / "rates.json").write_text(json.dumps({**learned, "since": since, "until": until}))
        found = notes()
        assert len(found) == count
        assert all("overlaps the audited sessions" in each for each in found)
    (desk / "rates.json").write_text(
        json.dumps({**learned, "since": "2026-02-17T00:00:00Z", "until": "2026-02-17T11:00:00Z"})
    )
    assert notes("--since", "2026-02-17T11:30:00Z") == []


@pytest.mark.usefixtures("desk")
def test_junit_counts_the_findings_that_it_does_not_list() -> None:
    """Three sessions are listed as examples; the other findings are in the bundle."""
    suites = Xml.fromstring(audit("--format", "junit").stdout)
    texts = {case.get("name"): case.findtext("failure") for case in suites.iter("testcase")}
    assert (texts["quiet"] or "").splitlines()[-1] == "and 7 more findings, in the bundle's verdicts.jsonl"
    assert "more" not in (texts["calm"] or "")
    messages = {case.get("name"): case.find("failure") for case in suites.iter("testcase")}
    assert "quiet: 10 times, in sessions" in str(messages["quiet"].get("message"))
