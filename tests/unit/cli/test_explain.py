"""`tracline explain`: a session's timeline as JSON and as a table, and the errors of asking for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.rules import RuleError, explain
from tracline.rules.explanation import rule_status
from tracline.rules.explanation.rule_status import STATUSES_MAX, Status

from ...support.event_rows import START, call, result, session, user, write

PACK = """
pack: desk
version: 1
propositions:
  refund: kind == "tool_call" and tool == "refund"
  verified: kind == "tool_result" and tool == "verify_customer"
  call: kind == "tool_call"
  result: kind == "tool_result"
  angry: kind == "user" and text contains "!"
rules:
  - {id: verify-first, title: First verified, severity: high, formula: always (refund -> once verified)}
  - id: answered
    title: Calls are answered
    for_each: call_id
    steps: call or result
    formula: always (call -> eventually result)
  - {id: calm, title: Nobody shouts, severity: low, unknown: stop, formula: always (call -> not angry)}
  - {id: silent, title: Applies to nothing here, formula: always (angry -> false)}
"""
STATUSES = {"active", "satisfied", "inactive", "violated", "open"}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of a session with an early refund, which came back and is open, and of one without texts."""
    rows = session(
        "s",
        user("hello"),
        call("refund", "c1"),
        result("c1"),
        call("verify_customer", "c2"),
        result("c2") | {"tool": "verify_customer"},
        call("refund", "c3"),
    )
    rows += session("s", user("again"), call("look", "c9"), start=START + 7200 * 10**9, end=False)
    rows += session("dark", user(None), call("look", "c1"), end=False, start=START + 7200 * 10**9)
    write(tmp_path / "archive" / "events.parquet", rows)
    (tmp_path / "desk.yaml").write_text(PACK)
    return tmp_path / "archive"


def run(archive: Path, *more: str, columns: int | None = None) -> Result:
    """Run the command."""
    words = ["explain", str(archive), "--rules", str(archive.parent / "desk.yaml"), *more]
    env = {"COLUMNS": str(columns)} if columns else {}
    return CliRunner().invoke(tracline, words, env=env)


def explained(archive: Path, *more: str) -> list[dict]:
    """Run the command, and read the JSON that it writes."""
    found = run(archive, "--format", "json", *more)
    assert found.exit_code == 0, found.output
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_the_json_has_the_timeline_of_each_occurrence(archive: Path) -> None:
    """A line for each occurrence with its events, and the runs of the rules that apply to it."""
    first, second = explained(archive, "--session", "s")
    assert list(first) == ["session_id", "occurrence", "closed", "events", "rules"]
    assert (first["closed"], second["closed"]) == (True, False)
    assert [event["seq"] for event in first["events"]] == [1, 2, 3, 4, 5, 6]
    assert [(run["rule"], run["slice"]) for run in first["rules"]] == [
        ("verify-first", None),
        ("answered", "c1"),
        ("answered", "c2"),
        ("answered", "c3"),
        ("calm", None),
    ]
    rule = first["rules"][0]
    assert list(rule) == [
        *("pack", "rule", "rule_digest", "slice", "steps", "verdicts", "close", "unjudged", "nodes", "worth")
    ]
    assert rule["steps"] == [1, 2, 3, 4, 5, 6]
    assert [verdict["verdict"] for verdict in rule["verdicts"]] == [
        *("pending", "violated", "pending", "pending", "pending", "pending")
    ]
    assert rule["close"] == "held"
    assert [node["node"] for node in rule["nodes"]] == ["0", "0.1", "0.1.1", "0.1.2", "0.1.2.1"]
    assert rule["nodes"][1] == {
        "node": "0.1",
        "formula": "refund -> once verified",
        "parent": "0",
        "ends": [0, None, 2, 3, 4, 6],
        "open": [False] * 6,
    }
    assert rule["nodes"][0]["ends"] == [None, None, 6, 6, 6, 6]
    assert 2 in rule["worth"]


def test_a_verdict_has_a_plain_sentence(archive: Path) -> None:
    """The sentence names the call, the event and what did not come before it, or what never came."""
    first = explained(archive, "--session", "s")[0]["rules"]
    assert first[0]["verdicts"][1]["sentence"] == (
        "The `refund` call at event 2 (`refund`) came too early: no `verify_customer` result came before it."
    )
    last = next(run for run in first if run["slice"] == "c3")
    assert (last["steps"], last["close"]) == ([6], "unmet")
    assert last["verdicts"][-1] == {
        "step": 1,
        "verdict": "unmet",
        "residual": last["verdicts"][0]["residual"],
        "sentence": "For `c3`: The call at event 6 (`call`) was not followed by any result "
        "that the rule sees: the session ended after event 6.",
    }


def test_an_open_session_has_open_parts(archive: Path) -> None:
    """The obligation of an open session is open, and its closing is null."""
    run = next(run for run in explained(archive, "--session", "s")[1]["rules"] if run["rule"] == "answered")
    assert run["close"] is None
    nodes = {node["formula"]: node for node in run["nodes"]}
    assert nodes["eventually result"]["open"] == [True]
    assert nodes["call"]["open"] == [False]


def test_a_rule_is_explained_at_one_step(archive: Path) -> None:
    """`--at` adds the status of each part there; runs without that step have none."""
    first, second = explained(archive, "--session", "s", "--rule", "desk/verify-first", "--at", "2")
    assert first["rules"][0]["at"] == {
        "t": 2,
        "status": {
            "0": "violated",
            "0.1": "violated",
            "0.1.1": "satisfied",
            "0.1.2": "violated",
            "0.1.2.1": "violated",
        },
    }
    assert second["rules"][0]["at"]["status"]["0"] == "open"
    (_, resumed) = explained(archive, "--session", "s", "--at", "6")
    assert all("at" not in run for run in resumed["rules"])


def test_unjudged_rules_are_listed_with_the_reason(archive: Path) -> None:
    """A rule that cannot judge has the event from which on, and no closing; its parts are open."""
    (found,) = explained(archive, "--session", "dark")
    calm = next(run for run in found["rules"] if run["rule"] == "calm")
    assert calm["unjudged"]["seq"] == 1
    assert calm["unjudged"]["sentence"].startswith("The rule is unjudged from event 1 on")
    assert (calm["steps"], calm["close"]) == ([], None)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_table_needs_no_colour_and_fits(archive: Path, columns: int) -> None:
    """Each status has a glyph; verdicts and sentences stand at their events; no line is too wide."""
    found = run(archive, "--session", "s", "--rule", "verify-first", columns=columns)
    assert found.exit_code == 0, found.output
    assert "\x1b" not in found.stdout
    assert max(map(len, found.stdout.splitlines())) <= columns
    words = " ".join(found.stdout.split())
    assert "violated, at the close held" in words
    if columns == 200:
        assert "a 0.1.2 once verified violated" in words
        assert "(1 step left out) > 2 ✗ tool_call refund" in words
        assert "true: refund" in words
        assert "violated: The `refund` call at event 2" in words
        assert "then required" not in words
    whole = run(archive, "--session", "s", "--rule", "verify-first", "--all", columns=columns)
    assert max(map(len, whole.stdout.splitlines())) <= columns
    if columns == 200:
        assert "> 2 ✗✗✓✗✗ tool_call refund" in " ".join(whole.stdout.split())
        assert "left out" not in whole.stdout


def test_the_table_shows_one_step(archive: Path) -> None:
    """With `--at` there is a line for each part instead of the timeline."""
    found = run(archive, "--session", "s", "--rule", "verify-first", "--at", "3", columns=100)
    assert "0 ● active until event 6: always (refund -> once verified)" in " ".join(found.stdout.split())


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--session", "t"), "TRL410"),
        (("--session", "s", "--rule", "calmer"), "TRL422"),
        (("--session", "s", "--at", "7"), "TRL423"),
        (("--session", "s", "--at", "0"), "TRL423"),
        (("--session", "dark", "--rule", "calm", "--at", "1"), "TRL423"),
    ],
)
def test_a_question_about_what_is_not_there_is_an_error(
    archive: Path, words: tuple[str, ...], code: str
) -> None:
    """An unknown session, rule or step exits 2, with a hint, and prints nothing else."""
    found = run(archive, *words)
    assert (found.exit_code, found.stdout) == (2, "")
    assert code in found.stderr
    assert "hint:" in found.stderr


def test_a_formula_that_is_too_large_is_an_error(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL303 names the formula and the limits, for the Python API as for the command."""
    with pytest.raises(RuleError, match="TRL303 call and result is too large to explain: 3 parts on"):
        explain("call and result", [frozenset()] * (STATUSES_MAX // 3 + 1))
    monkeypatch.setattr(rule_status, "STATUSES_MAX", 29)
    found = run(archive, "--session", "s")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "TRL303 always (refund -> once verified) is too large" in found.stderr


def test_the_python_api_explains_a_trace() -> None:
    """`explain(formula, trace)` returns the status of each part at each step."""
    found = explain("always (call -> eventually result)", [{"call"}, set(), {"result"}])
    assert [part.node for part in found.parts] == ["0", "0.1", "0.1.1", "0.1.2", "0.1.2.1"]
    part = found.part("0.1.2")
    assert [part.status(1, t) for t in (1, 2, 3)] == [Status.ACTIVE, Status.ACTIVE, Status.SATISFIED]
    assert explain("eventually q", [set()], is_closed=False).part("0").status(1, 1) is Status.OPEN
