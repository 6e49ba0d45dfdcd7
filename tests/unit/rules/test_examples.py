"""The examples inside packs: running a session, and the output of `tracline test`."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from tracline.cli import tracline
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.packs.examples.label_examples import ExampleRun, run_examples
from tracline.rules.packs.load import pack_text, shipped_packs
from tracline.schemas.verdict import Verdict

HEAD = "pack: x\npropositions: {a: nested, b: late, c: history}\nrules:\n"


def ran(rule: str) -> list[ExampleRun]:
    """Return the runs of the examples of one rule."""
    (only,) = pack_text(HEAD + rule).rules
    return list(run_examples(only, compile_rule(only)))


def test_violated_and_unmet_violate_a_rule() -> None:
    """An example under `violated` passes with a violation or an open obligation at the close."""
    found = ran(
        "  - id: r\n    formula: always (a -> next b)\n    examples:\n"
        "      violated: [[[a], [c]], [[a]]]\n      holds: [[[a], [b]], [[], []]]\n"
    )
    assert [run.passed for run in found] == [True] * 4
    assert [(run.verdicts, run.end) for run in found[:2]] == [
        ((Verdict.PENDING, Verdict.VIOLATED), None),
        ((Verdict.PENDING,), Verdict.UNMET),
    ]


def test_an_example_with_the_opposite_verdict_fails() -> None:
    """An example fails if the rule has the opposite verdict."""
    found = ran(
        "  - id: r\n    formula: always (a -> once b)\n    examples:\n"
        "      violated: [[b], [a]]\n      holds: [[a], [b]]\n"
    )
    assert [(run.expected, run.passed) for run in found] == [("violated", False), ("holds", False)]


def test_steps_exclude_events() -> None:
    """A step that `steps` excludes has no verdict, and the rule does not see it."""
    (run,) = ran(
        "  - id: r\n    formula: always (a -> next b)\n    steps: a or b\n    examples:\n"
        "      holds: [[a], [c], [b]]\n"
    )
    assert run.verdicts == (Verdict.PENDING, None, Verdict.PENDING)
    assert run.passed


def test_an_example_is_one_slice() -> None:
    """All events of an example are in one slice, whatever `for_each` is, and its close counts."""
    (run,) = ran(
        "  - id: r\n    formula: always (a -> eventually b)\n    for_each: args.x\n    examples:\n"
        "      violated: [[a], []]\n"
    )
    assert run.end is Verdict.UNMET
    assert run.passed


@pytest.fixture
def failing(tmp_path: Path) -> str:
    """Return the path of a pack of three rules with one failing example."""
    path = tmp_path / "x.yaml"
    path.write_text(
        HEAD
        + "  - {id: good, formula: always (a -> once b), examples: {violated: [[a]], holds: [[b], [a]]}}\n"
        + "  - {id: bad, formula: always (a -> once b), steps: a or b,\n"
        + "     examples: {violated: [[b], [c], [a]]}}\n"
        + "  - {id: bare, formula: always a}\n"
    )
    return str(path)


def run(*words: str) -> tuple[int, str]:
    """Return the exit code and standard output of `tracline test`."""
    result = CliRunner().invoke(tracline, ["test", *words])
    return result.exit_code, result.stdout


def test_the_table_shows_each_rule_and_each_failure(failing: str) -> None:
    """A line per rule, the steps and verdicts of failed examples, a summary, and exit code 1."""
    code, out = run(failing)
    assert code == 1
    assert out.splitlines() == [
        "x/good  1 violated, 1 holds  ok",
        "x/bad   1 violated, 0 holds  FAIL",
        "    example 1 under `violated` should be violated, but holds: always (a -> once b)",
        "       1  pending    b",
        "       2  skipped by `steps` c",
        "       3  pending    a",
        "     end  held",
        "x/bare  0 violated, 0 holds  none",
        "3 rules, 3 examples, 1 failed, 1 rule without an example",
    ]


def test_json_has_every_example(failing: str) -> None:
    """Each example has its rule, the expected result, whether it passed, and its verdicts."""
    code, out = run(failing, "--format", "json")
    answer = json.loads(out)
    assert code == 1
    assert (answer["examples"], answer["failed"]) == (3, 1)
    assert [run["passed"] for run in answer["trials"]] == [True, True, False]
    assert answer["trials"][2] == {
        "pack": "x",
        "rule": "bad",
        "expected": "violated",
        "number": 1,
        "passed": False,
        "steps": [
            {"true": ["b"], "verdict": "pending"},
            {"true": ["c"], "verdict": None},
            {"true": ["a"], "verdict": "pending"},
        ],
        "end": "held",
    }


def test_junit_has_a_case_for_every_example(failing: str) -> None:
    """There is a suite per pack and a case per example; failing ones have their steps."""
    code, out = run(failing, "--format", "junit")
    root = ElementTree.fromstring(out)
    assert code == 1
    (suite,) = root.findall("testsuite")
    assert dict(suite.attrib) == {"name": "x", "tests": "3", "failures": "1"}
    failed = {case.get("name"): case.find("failure") is not None for case in suite}
    assert failed == {"good violated 1": False, "good holds 1": False, "bad violated 1": True}


def test_a_pack_with_errors_gives_exit_code_2(tmp_path: Path) -> None:
    """No example runs if a pack has errors, which go to standard error."""
    (tmp_path / "x.yaml").write_text(HEAD + "  - {id: r, formula: always d}\n")
    result = CliRunner().invoke(tracline, ["test", str(tmp_path / "x.yaml")])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "TRL120" in result.stderr


@pytest.mark.parametrize("name", shipped_packs())
def test_the_examples_of_shipped_packs_pass(name: str) -> None:
    """Every rule that ships has examples of both kinds, and all pass."""
    code, out = run(name, "--format", "json")
    assert code == 0
    kinds = {(run["rule"], run["expected"]) for run in json.loads(out)["trials"]}
    rules = {rule for rule, _ in kinds}
    assert kinds == {(rule, kind) for rule in rules for kind in ("violated", "holds")}
