"""The exact output of `tracline check`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.cli import tracline

Snapshot = Callable[[str, str], None]

ERRORS = """\
pack: refunds
versoin: 2
propositions:
  refund:   kind == "tool_call" and tool = "refund"
  verified: kind == "tool_result" and tol == "verify"
  since:    kind == "user"
operators:
  before(p, q): always (q -> once p)
rules:
  - id: verify-first
    formula: >-
      always (refund ->
        once verifed)
    severity: hihg
  - id: verify-first
    formula: once before(verified, refund)
    steps: next refund
    examples:
      violated: [refund]
"""

WARNINGS = """\
pack: refunds
propositions:
  refund:   kind == "tool_call" and tool == "refund"
  verified: kind == "tool_result" and tool == "verify"
  handover: kind == "tool_call" and tool == "handover"
  secret:   kind == "assistant" and tool == "secret"
  greeting: kind == "assistant" and text contains "hello"
  result:   kind == "tool_result"
  other:    tool not in ["refund"]
rules:
  - {id: never,    formula: "always (refund -> once refund)"}
  - {id: always,   formula: "always (refund and not refund)"}
  - {id: excluded, formula: "always (refund -> once secret)"}
  - {id: forgets,  formula: "always ((refund -> eventually result) and (handover -> once verified))"}
  - {id: again,    formula: "not refund until verified"}
  - {id: sticky,   formula: "always at_most[2] refund"}
  - {id: finite,   formula: "always (handover -> weak_next false)"}
  - {id: binding,  formula: "always refund until verified", recover: none}
  - {id: vacuous,  formula: "always (other -> once verified)"}
"""

EXTENDS = """\
pack: desk
extends: warnings.yaml
drop: [sticky, bindin]
severities: {again: info, always: urgent}
propositions:
  refund: kind == "tool_result" and tool == "refund"
transitions:
  secret: not previous secret
rules:
  - {id: never, formula: "always refund"}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder with the packs."""
    (tmp_path / "errors.yaml").write_text(ERRORS)
    (tmp_path / "warnings.yaml").write_text(WARNINGS)
    (tmp_path / "extends.yaml").write_text(EXTENDS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> tuple[int, str]:
    """Return the exit code and standard output of `tracline check`; standard error must be empty."""
    result = CliRunner().invoke(tracline, ["check", *words])
    assert result.stderr == ""
    return result.exit_code, result.stdout


@pytest.mark.usefixtures("folder")
def test_errors(snapshot: Snapshot) -> None:
    """All errors of a pack are shown at once, with location, code, caret and hint; the exit code is 2."""
    code, out = run("errors.yaml", "no-such-pack")
    assert code == 2
    snapshot("check/errors.txt", out)


@pytest.mark.usefixtures("folder")
def test_warnings(snapshot: Snapshot) -> None:
    """Every warning is shown; the exit code is 0."""
    code, out = run("warnings.yaml")
    assert code == 0
    snapshot("check/warnings.txt", out)


@pytest.mark.usefixtures("folder")
def test_json(snapshot: Snapshot) -> None:
    """JSON has the same errors and warnings, with their level."""
    code, out = run("errors.yaml", "--format", "json")
    assert code == 2
    assert {problem["level"] for problem in json.loads(out)["problems"]} == {"error"}
    code, out = run("warnings.yaml", "--format", "json")
    assert code == 0
    snapshot("check/warnings.json", out)


@pytest.mark.usefixtures("folder")
def test_errors_of_a_pack_that_extends_another(snapshot: Snapshot) -> None:
    """Errors of inheritance are shown at once, with the inherited and replaced names."""
    code, out = run("extends.yaml")
    assert code == 2
    snapshot("check/extends.txt", out)


@pytest.mark.usefixtures("folder")
def test_a_folder_with_one_bad_pack() -> None:
    """A pack with errors has no warnings: names that only an invalid rule uses would seem unused."""
    code, out = run(os.curdir)
    assert code == 2
    assert "warning:" not in out
    assert "rules, " in out.splitlines()[-1]
