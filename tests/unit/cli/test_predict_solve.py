"""`tracline predict solve` from outside: formats, options, notes, and wrong arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline

TRA = "0 1 0.25\n0 2 0.75\n1 1 1\n"
LAB = "#DECLARATION\ninit violated\n#END\n0 init\n1 violated\n"
INTERVALS = """@type: DTMC
@parameters
@nr_states
2
@model
state 0 init
\taction 0
\t\t0 : [0.5, 0.75]
\t\t1 : [0.25, 0.5]
state 1 violated
\taction 0
\t\t1 : 1
"""


def solve(*given: str) -> Result:
    """Solve."""
    return CliRunner().invoke(tracline, ["predict", "solve", *given])


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A chain with labels beside it."""
    (tmp_path / "m.lab").write_text(LAB)
    (tmp_path / "m.tra").write_text(TRA)
    return str(tmp_path / "m.tra")


def test_a_line_for_each_state(model: str) -> None:
    """JSON lines in the order of the states, and the same as a table with labels."""
    found = solve(model, "--reach", "violated", "--format", "json")
    assert found.exit_code == 0
    assert [json.loads(line) for line in found.stdout.splitlines()] == [
        {"state": 0, "probability": 0.25},
        {"state": 1, "probability": 1.0},
        {"state": 2, "probability": 0.0},
    ]
    assert "states without a row stay where they are: 2" in found.stderr
    assert solve(model, "--reach", "violated").stdout.splitlines() == [
        "state  probability  labels",
        "    0  0.250000000  init",
        "    1  1.000000000  violated",
        "    2  0.000000000",
    ]


def test_formulas_and_bounds(model: str) -> None:
    """A formula reads the labels from the state itself on; `--within` counts the steps after it."""
    formula = ("--formula", "always not violated", "--format", "json")
    assert json.loads(solve(model, *formula).stdout.splitlines()[0])["probability"] == 0.25
    assert json.loads(solve(model, *formula, "--within", "0").stdout.splitlines()[0])["probability"] == 0.0
    assert json.loads(solve(model, *formula, "--within", "1").stdout.splitlines()[0])["probability"] == 0.25


def test_intervals(tmp_path: Path) -> None:
    """A chain of intervals has a least and a greatest probability."""
    (tmp_path / "m.drn").write_text(INTERVALS)
    found = solve(str(tmp_path / "m.drn"), "--reach", "violated", "--within", "1", "--format", "json")
    assert json.loads(found.stdout.splitlines()[0]) == {"state": 0, "low": 0.25, "high": 0.5}
    assert solve(str(tmp_path / "m.drn"), "--reach", "violated").stdout.splitlines() == [
        "state  low          high         labels",
        "    0  1.000000000  1.000000000  init",
        "    1  1.000000000  1.000000000  violated",
    ]


def test_states_without_labels_have_their_numbers(tmp_path: Path) -> None:
    """State 1 of a chain without labels has the label `s1`; several labels are one target."""
    (tmp_path / "m.tra").write_text(TRA)
    found = solve(str(tmp_path / "m.tra"), "--reach", "s1,s2", "--format", "json")
    assert json.loads(found.stdout.splitlines()[0])["probability"] == 1.0


@pytest.mark.slow
def test_wrong_arguments(model: str, tmp_path: Path) -> None:
    """Each is an error with what to do: nothing is printed on standard output."""
    (tmp_path / "m.txt").write_text("")
    (tmp_path / "bytes.drn").write_bytes(b"\xff\xfe")
    (tmp_path / "wide.tra").write_text("0 999999 1\n")
    wrong = {
        "TRL809": (model, "--reach", "violatd"),
        "did you mean `violated`": (model, "--formula", "always not violatd"),
        "either --reach or --formula": (model,),
        "a model is a file": (str(tmp_path / "m.txt"), "--reach", "a"),
        "TRL807": (str(tmp_path / "bytes.drn"), "--reach", "a"),
        "TRL810": (str(tmp_path / "wide.tra"), "--formula", "not s0 until s1"),
        "TRL1": (model, "--formula", "always ("),
    }
    for expected, given in wrong.items():
        found = solve(*given)
        assert found.exit_code == 2, expected
        assert expected in found.stderr
        assert found.stdout == ""
