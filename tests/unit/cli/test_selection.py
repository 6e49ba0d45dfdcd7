"""Rules with policy, owner and tags, and their selection by `--select` and `--ignore`."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.rules.model.digest import rule_digest, rule_set_digest
from tracline.rules.model.problem import RuleError
from tracline.rules.packs.load import pack_text
from tracline.rules.packs.selection import select_rules

from ...support.event_rows import session, user, write

PACK = """
pack: desk
version: 1
propositions:
  angry: kind == "user" and text contains "!"
  asks: kind == "user" and text contains "?"
rules:
  - id: calm
    title: Nobody shouts
    severity: high
    policy: "Staff stay calm (handbook, 4.2)"
    owner: service desk
    tags: [tone, nightly]
    formula: always not angry
    examples: {violated: [[angry]], holds: [[]]}
  - id: no-questions
    tags: [tone]
    formula: always not asks
    examples: {violated: [[asks]], holds: [[]]}
  - id: no-shouted-questions
    severity: low
    formula: always not (asks and angry)
    examples: {violated: [[asks, angry]], holds: [[]]}
"""
RULES = pack_text(PACK)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with the pack and an archive in which every rule is broken."""
    (tmp_path / "desk.yaml").write_text(PACK)
    write(tmp_path / "archive" / "events.parquet", session("loud", user("what?!")))
    return tmp_path


def audit(place: Path, *more: str) -> Result:
    """Audit the archive of the place."""
    line = ["audit", str(place / "archive"), "--rules", str(place / "desk.yaml"), "--out", str(place / "out")]
    return CliRunner().invoke(tracline, [*line, *more])


@pytest.mark.parametrize(
    ("select", "ignore", "left"),
    [
        ((), ("tone",), ["no-shouted-questions"]),
        (("tone",), (), ["calm", "no-questions"]),
        (("high", "low"), (), ["calm", "no-shouted-questions"]),
        (("desk/no-*",), ("no-shouted-questions",), ["no-questions"]),
        (("desk",), ("nightly",), ["no-questions", "no-shouted-questions"]),
    ],
)
def test_words_name_rules_by_id_pack_tag_and_severity(
    select: tuple[str, ...], ignore: tuple[str, ...], left: list[str]
) -> None:
    """The rules that remain stand in the order of the pack."""
    assert [rule.id for rule in select_rules(RULES, select, ignore).rules] == left


@pytest.mark.parametrize(
    ("select", "ignore", "message"),
    [
        (("tune",), (), "--select: no rule, tag or severity is named `tune`"),
        ((), ("critical",), "--ignore: no rule, tag or severity is named `critical`"),
        (("tone",), ("desk",), "the selection leaves no rule"),
    ],
)
def test_a_word_without_a_rule_is_an_error(
    select: tuple[str, ...], ignore: tuple[str, ...], message: str
) -> None:
    """A misspelt word would otherwise audit nothing."""
    with pytest.raises(RuleError, match="TRL226") as caught:
        select_rules(RULES, select, ignore)
    assert message in str(caught.value)


def test_texts_about_a_rule_are_not_in_its_digest() -> None:
    """Another owner, policy or tag changes no verdict and no digest."""
    plain = "\n".join(
        line for line in PACK.splitlines() if not line.strip().startswith(("policy:", "owner:", "tags:"))
    )
    assert rule_set_digest(pack_text(plain)) == rule_set_digest(RULES)
    assert rule_digest(pack_text(plain).rules[0]) == rule_digest(RULES.rules[0])


@pytest.mark.slow
def test_a_selection_is_in_the_summary_with_the_texts(place: Path) -> None:
    """Only selected rules are judged; the summary has the words, and what the pack states about a rule."""
    assert audit(place, "--select", "nightly").exit_code == 0
    summary = json.loads((place / "out" / "summary.json").read_text())
    assert summary["selection"] == {"select": ["nightly"]}
    (calm,) = summary["rules"].values()
    assert calm["policy"] == "Staff stay calm (handbook, 4.2)"
    assert (calm["owner"], calm["tags"]) == ("service desk", ["tone", "nightly"])
    assert audit(place).exit_code == 0
    whole = json.loads((place / "out" / "summary.json").read_text())
    assert "selection" not in whole
    assert "tags" not in whole["rules"]["no-shouted-questions"]


@pytest.mark.slow
def test_the_texts_are_in_every_export(place: Path) -> None:
    """The table, JUnit and SARIF show the policy's sentence, the owner and the tags."""
    table = audit(place).stdout
    assert "Staff stay calm (handbook, 4.2); service desk" in table
    cases = ElementTree.fromstring(audit(place, "--format", "junit").stdout).iter("testcase")
    properties = {
        case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")} for case in cases
    }
    assert properties["calm"] == {
        "policy": "Staff stay calm (handbook, 4.2)", "owner": "service desk", "tags": "tone, nightly"
    }  # fmt: skip
    assert properties["no-shouted-questions"] == {}
    sarif = json.loads(audit(place, "--format", "sarif").stdout)
    calm = sarif["runs"][0]["tool"]["driver"]["rules"][0]
    assert calm["fullDescription"] == {"text": "Staff stay calm (handbook, 4.2)"}
    assert (calm["properties"]["owner"], calm["properties"]["tags"]) == ("service desk", ["tone", "nightly"])


@pytest.mark.parametrize("line", [["test"], ["label", "archive", "--rules"], ["show", "archive", "--rules"]])
def test_other_commands_select_as_well(place: Path, line: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`test`, `label` and `show` take the same options, and report unknown words."""
    monkeypatch.chdir(place)
    found = CliRunner().invoke(tracline, [*line, "desk.yaml", "--select", "calm"])
    assert found.exit_code == 0, found.output
    assert "no-questions" not in found.stdout
    wrong = CliRunner().invoke(tracline, [*line, "desk.yaml", "--ignore", "clam"])
    assert wrong.exit_code == 2
    assert "TRL226" in wrong.stderr


def test_active_rules_of_an_archive_are_not_selected(place: Path) -> None:
    """`--as-judged` judges by what was active, so that a selection is a mistake."""
    line = ["audit", str(place / "archive"), "--as-judged", "--out", str(place / "out"), "--select", "calm"]
    assert "omit --select" in CliRunner().invoke(tracline, line).stderr
