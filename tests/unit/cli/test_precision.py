"""The measured precision of a rule, which stands beside its rate."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from tracline.cli import tracline
from tracline.rules.model.digest import rule_digest
from tracline.rules.model.problem import RuleError
from tracline.rules.model.rule import Precision
from tracline.rules.packs.load import load_packs, pack_text

from ...support.event_rows import session, user, write

PACK = """
pack: desk
propositions:
  angry: kind == "user" and text contains "!"
rules:
  - {id: calm, formula: always not angry, precision: {value: 0.44, n: 139, of: marked messages}}
"""


@pytest.mark.slow
def test_the_precision_stands_beside_the_rate(tmp_path: Path) -> None:
    """The table, JUnit and the summary show it; a digest does not cover it."""
    (tmp_path / "desk.yaml").write_text(PACK)
    write(tmp_path / "archive" / "events.parquet", session("loud", user("what!")))
    line = ["audit", str(tmp_path / "archive"), "--rules", str(tmp_path / "desk.yaml")]
    line += ["--out", str(tmp_path / "out")]
    words = "precision of its reading of texts, not of its findings: 0.44, on 139 marked messages; "
    words += "what it misses is not measured"
    assert f"calm: {words}" in " ".join(CliRunner().invoke(tracline, line).stdout.split())
    assert "not of its findings: 0.44" in (tmp_path / "out" / "report.html").read_text()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["rules"]["calm"]["precision"] == {"value": 0.44, "n": 139, "of": "marked messages"}
    suites = ElementTree.fromstring(CliRunner().invoke(tracline, [*line, "--format", "junit"]).stdout)
    (shown,) = suites.iter("property")
    assert shown.attrib == {"name": "precision", "value": words}
    (run,) = json.loads(CliRunner().invoke(tracline, [*line, "--format", "sarif"]).stdout)["runs"]
    (described,) = run["tool"]["driver"]["rules"]
    assert described["properties"]["measuredPrecision"] == summary["rules"]["calm"]["precision"]
    assert f"Measured {words}." in described["help"]["text"]
    without = pack_text(PACK.replace(", precision: {value: 0.44, n: 139, of: marked messages}", ""))
    assert rule_digest(without.rules[0]) == rule_digest(pack_text(PACK).rules[0])


def test_the_shipped_rules_on_agreement_have_theirs() -> None:
    """The phrases of `agrees` are less precise than their rates look."""
    rules = {rule.id: rule.precision for rule in load_packs(["customer-service"]).rules}
    precise = Precision(0.44, 139, "customer messages marked for `agrees`")
    assert rules["confirm-before-change"] == rules["confirm-before-refund"] == precise


@pytest.mark.parametrize(
    ("written", "code", "message"),
    [
        ("{value: 1.5, n: 1, of: x}", "TRL212", "invalid value `1.5` of `precision`"),
        ("{value: high, n: 1, of: x}", "TRL212", "invalid value `high` of `precision`"),
        ("{value: 1, n: 0, of: x}", "TRL212", "invalid n `0` of `precision`"),
        ("{value: 1, n: 1}", "TRL210", "missing field `of` in `precision`"),
        ("{value: 1, n: 1, off: x, of: x}", "TRL211", "unknown field `off` in `precision`"),
        ("0.44", "TRL212", "`precision` cannot be a single value"),
    ],
)
def test_an_invalid_precision_is_an_error(written: str, code: str, message: str) -> None:
    """Each mistake has its own message, with its place."""
    text = PACK.replace("{value: 0.44, n: 139, of: marked messages}", written)
    with pytest.raises(RuleError, match=code) as caught:
        pack_text(text)
    assert message in str(caught.value)
