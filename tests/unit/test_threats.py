"""The threats of docs/threats.md, a test each: what a hostile pack, trace or log may not do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.cli import tracline
from tracline.rules.error import RuleError
from tracline.rules.label import evaluate
from tracline.rules.monitor import Monitor
from tracline.rules.pack import load_packs, pack_text
from tracline.rules.parse import parse_predicate

DOC = Path(__file__).parents[2] / "docs" / "threats.md"

PACK = """
pack: probe
propositions:
  asked: kind == "user"
rules:
  - id: answered
    formula: always (asked -> eventually asked)
"""


def codes(text: str) -> set[str]:
    """The codes with which the pack is refused."""
    with pytest.raises(RuleError) as caught:
        pack_text(text)
    return {problem.code for problem in caught.value.problems}


def test_every_threat_has_its_test() -> None:
    """docs/threats.md names each test of this file, and no other."""
    named = set(re.findall(r"`(test_\w+)`", DOC.read_text(encoding="utf-8")))
    here = set(re.findall(r"^def (test_\w+)", Path(__file__).read_text(encoding="utf-8"), re.MULTILINE))
    assert named == here - {"test_every_threat_has_its_test"}


def test_nothing_in_a_pack_is_executed(tmp_path: Path) -> None:
    """YAML that asks for a Python object is refused, and nothing has been called."""
    trap = tmp_path / "called"
    assert "TRL205" in codes(PACK + f"why: !!python/object/apply:pathlib.Path.touch ['{trap}']\n")
    assert not trap.exists()


def test_aliases_cannot_multiply_a_pack() -> None:
    """Nested aliases that stand for a billion values are refused before they are written out."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert "TRL204" in codes(PACK + "\n".join(lines) + "\n")


@pytest.mark.parametrize("text", ["(" * 5000 + "p" + ")" * 5000, "not " * 5000 + "p", "p -> " * 5000 + "p"])
def test_deep_expressions_are_refused(text: str) -> None:
    """Nesting that would exhaust the stack is an error with a code."""
    with pytest.raises(RuleError, match="TRL151"):
        Monitor(text)


def test_a_formula_cannot_take_the_machine() -> None:
    """A formula whose machine would have a million states stops at a named limit."""
    with pytest.raises(RuleError, match="TRL301"):
        Monitor("always (p -> X[20] q)")


def test_a_regular_expression_cannot_hang() -> None:
    """A pattern that ruins backtracking engines is answered; patterns that need backtracking are refused."""
    hostile = parse_predicate(r'kind == "user" and text matches /^(a+)+$/')
    assert evaluate(hostile, {"kind": "user", "text": "a" * 5000 + "b"}) is False
    with pytest.raises(RuleError, match="TRL140"):
        evaluate(parse_predicate(r"text matches /(a)\1/"), {"kind": "user", "text": "aa"})
    with pytest.raises(RuleError, match="TRL141"):
        evaluate(parse_predicate(r"text matches /(\w{1000}){1000}/"), {"kind": "user", "text": "aa"})


@pytest.mark.parametrize("name", ["../../etc/cron.d/x", "/etc/x", "a/b", "", ".", "-rf", "x" * 200])
def test_a_packs_name_is_no_path(name: str) -> None:
    """A pack's name becomes a file in the bundle; one that could lead elsewhere is refused."""
    assert codes(PACK.replace("pack: probe", f"pack: '{name}'")) & {"TRL214", "TRL212"}


def test_errors_cannot_drive_the_terminal(tmp_path: Path) -> None:
    """What an error quotes of a pack holds no control character and nothing that turns text around."""
    file = tmp_path / "hostile.yaml"
    file.write_text(PACK.replace("always (asked", "always (as\u202eked\u200b"), encoding="utf-8")
    with pytest.raises(RuleError) as caught:
        load_packs([file])
    with pytest.raises(RuleError) as told:
        Monitor("p \x1b]0;owned\x07 q")
    for text in (str(caught.value), str(told.value)):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]", text)


def test_a_trace_is_read_line_by_line() -> None:
    """A line without end is refused at its limit, and what it holds is not repeated."""
    result = CliRunner().invoke(tracline, ["eval", "p"], input=b'["' + b"4111" * 1_000_000)
    assert result.exit_code == 2
    assert "TRL602" in result.stderr
    assert "4111" not in result.stderr
