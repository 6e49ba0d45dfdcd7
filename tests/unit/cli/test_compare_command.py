"""`tracline compare` from outside: exit codes, formats, packs with an archive, and wrong arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline

from ...support.event_rows import PACK, START, call, session, user, write

DAY = 86_400 * 10**9


def run(*given: str) -> Result:
    """Compare."""
    return CliRunner().invoke(tracline, ["compare", *given])


@pytest.fixture
def packs(tmp_path: Path) -> tuple[str, str]:
    """A pack before and after a change of predicates, a severity and a formula."""
    (tmp_path / "old.yaml").write_text(PACK)
    changed = PACK.replace('text contains "!"', 'text contains "?"')
    changed = changed.replace("severity: info", "severity: low").replace("at_most[1] pay", "at_most[2] pay")
    (tmp_path / "new.yaml").write_text(changed)
    return str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml")


def test_formulas() -> None:
    """Exit 0 and `equal`, or 1 and the session; restarts decide."""
    equal = run("always (p -> eventually q)", "G(not p or F q)", "--format", "json")
    assert equal.exit_code == 0
    nothing = dict.fromkeys(("session", "step", "left", "right", "breaks"))
    assert json.loads(equal.stdout) == {"equal": True, **nothing}
    found = run("always not p", "not p", "--format", "json")
    assert found.exit_code == 1
    assert json.loads(found.stdout) == {
        "equal": False,
        "session": [[]],
        "step": 1,
        "left": "pending",
        "right": "satisfied",
        "breaks": None,
    }
    none = json.loads(run("always not p", "not p", "--recover", "none", "--format", "json").stdout)
    assert none["breaks"] == [[], ["p"]]
    assert "event 1: nothing is true" in run("always not p", "not p").stdout


def test_rules_and_formulas_over_a_pack(packs: tuple[str, str]) -> None:
    """`PACK#RULE` names a rule; with `--rules` names of formulas are propositions, which exclude events."""
    assert run(f"{packs[0]}#calm", "always not angry").exit_code == 0
    assert run(f"{packs[0]}#calm", f"{packs[1]}#calm").exit_code == 1
    pair = "always (pay -> once angry)", "always (pay -> previous once angry)"
    assert run(*pair).exit_code == 1
    assert run(*pair, "--rules", packs[0]).exit_code == 0
    sliced = run(f"{packs[0]}#paid-once", f"{packs[0]}#calm")
    assert "they are compared on one slice" in sliced.stderr


def test_packs_with_an_archive(packs: tuple[str, str], tmp_path: Path) -> None:
    """Each rule has its status and what changed; the sessions of the last month are counted and named."""
    old = session("old", user("no!"), start=START - 40 * DAY)
    rows = session("a", user("no!")) + session("b", user("no?")) + session("c", user("no!?"))
    write(tmp_path / "archive" / "events.parquet", old + rows + session("d", *[call("pay", "c1")] * 2))
    found = run(*packs, "--archive", str(tmp_path / "archive"), "--format", "json")
    assert found.exit_code == 1, found.output
    rules = {each["rule"]: each for each in json.loads(found.stdout)["rules"]}
    assert {name: (each["status"], each["changes"]) for name, each in rules.items()} == {
        "answered": ("same", []),
        "calm": ("changed", ["predicate"]),
        "paid-once": ("changed", ["formula"]),
        "gives-up": ("changed", ["predicate", "severity"]),
    }
    assert rules["calm"]["predicates"] == ["angry"]
    assert rules["calm"]["breaks_sessions"]["count"] == rules["calm"]["clears_sessions"]["count"] == 1
    assert rules["calm"]["breaks_sessions"]["samples"][0]["session_id"] == "b"
    assert rules["calm"]["clears_sessions"]["samples"][0]["session_id"] == "a"
    assert rules["paid-once"]["clears_sessions"]["samples"][0]["session_id"] == "d"
    assert "breaks_sessions" not in rules["answered"]
    table = run(*packs, "--archive", str(tmp_path / "archive")).stdout
    assert "changed  calm: predicate" in table
    assert "in the archive: breaks 1 session (b), clears 1 session (a)" in table


def test_equal_packs(packs: tuple[str, str]) -> None:
    """Exit 0, and every rule is the same."""
    found = run(packs[0], packs[0])
    assert found.exit_code == 0
    assert found.stdout.count("same") == 4


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (("{old}", "always p"), "Compare a pack with a pack"),
        (("p", "q", "--archive", "x"), "--archive requires two packs"),
        (("{old}#calmer", "p"), "did you mean `calm`?"),
        (("always angri", "true", "--rules", "{old}"), "did you mean `angry`?"),
        (("always (", "true"), "TRL"),
        (("{old}", "{old}", "--archive", "nowhere"), ""),
    ],
)
def test_wrong_arguments(packs: tuple[str, str], given: tuple[str, ...], error: str) -> None:
    """Exit 2 and an error, except where equal packs need no archive."""
    found = run(*(each.format(old=packs[0]) for each in given))
    assert found.exit_code == (2 if error else 0), found.output
    assert error in found.stderr
