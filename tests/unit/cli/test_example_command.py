"""`tracline example`: cases from findings, and their place in the pack."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.rules.packs.examples.add_example import adds_only, with_example
from tracline.rules.packs.load import load_packs, pack_text
from tracline.rules.packs.yaml.document import read_document

from ...support.event_rows import call, result, session, user, write
from ...support.evidence.bundle_lines import bundle_lines

PACK = """\
pack: desk
propositions:
  agrees: kind == "user" and text matches /(?i)yes/
  refund: kind == "tool_call" and tool == "refund"
  answered: kind == "tool_result"
rules:
  - id: ask-first  # the first rule
    formula: always (refund -> once agrees)
    examples:
      # both kinds
      violated: [[refund]]
      holds: [[agrees], [refund]]

  # the second rule
  - id: answered
    formula: always (refund -> eventually answered)
"""


def run(*words: str | Path) -> Result:
    """Run a command."""
    return CliRunner().invoke(tracline, list(map(str, words)))


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Return a folder with an archive, a pack and a bundle."""
    refund = call("refund", args='{"amount": 1.50}', agent="bot")
    rows = [
        *session("hasty", user("money!"), refund, result(), user("yes, thanks")),
        *session("left", user("yes"), refund),
        *session("unseen", user(None), refund),
    ]
    write(tmp_path / "archive" / "events.parquet", rows)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "desk.yaml").write_text(PACK)
    found = run("audit", tmp_path / "archive", "--rules", tmp_path / "rules", "--out", tmp_path / "bundle")
    assert found.exit_code == 0, found.output
    return tmp_path


def verdict(desk: Path, session_id: str, rule: str) -> str:
    """Return the id of the verdict of a rule in a session."""
    lines = bundle_lines(desk / "bundle")
    return next(line["id"] for line in lines if (line["session_id"], line["rule"]) == (session_id, rule))


def example(desk: Path, session_id: str, rule: str, *more: str) -> Result:
    """Make an example of the verdict of a rule in a session."""
    line = ["example", desk / "bundle", verdict(desk, session_id, rule), "--to", desk / "rules", *more]
    return run(*line)


def case(desk: Path, rule: str) -> list[dict]:
    """Return the events of the only case of a rule."""
    (file,) = (desk / "rules" / "cases").glob(f"{rule}-*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.slow
def test_a_finding_becomes_a_case_that_the_rule_violates(desk: Path) -> None:
    """It has the session up to the verdict, and passes once its entry is in the pack."""
    made = example(desk, "hasty", "ask-first", "--as", "violated", "--add")
    assert made.exit_code == 0, made.output
    assert [event["kind"] for event in case(desk, "ask-first")] == ["user", "tool_call"]
    assert case(desk, "ask-first")[1]["args"] == '{"amount": 1.50}'
    assert case(desk, "ask-first")[1]["agent"] == "bot"
    name = f"cases/ask-first-{verdict(desk, 'hasty', 'ask-first')[:8]}.jsonl"
    text = (desk / "rules" / "desk.yaml").read_text()
    assert text == PACK.replace("violated: [[refund]]", f"violated: [[[refund]], {{events: {name}}}]")
    tested = run("test", desk / "rules")
    assert tested.exit_code == 0, tested.output
    assert "2 violated, 1 holds" in tested.output


@pytest.mark.slow
def test_an_unmet_obligation_takes_the_whole_session(desk: Path) -> None:
    """It is unmet at the close."""
    assert example(desk, "left", "answered", "--as", "violated", "--add").exit_code == 0
    assert len(case(desk, "answered")) == 2
    assert run("test", desk / "rules", "--select", "answered").exit_code == 0
    assert (desk / "rules" / "desk.yaml").read_text().startswith(PACK)


@pytest.mark.slow
def test_a_false_finding_fails_until_the_rule_holds(desk: Path) -> None:
    """`--as holds` makes a test of the mend."""
    made = example(desk, "hasty", "ask-first", "--as", "holds", "--add")
    assert "`tracline test` fails until the rule holds in this case" in made.stderr
    assert run("test", desk / "rules").exit_code == 1
    file = desk / "rules" / "desk.yaml"
    file.write_text(file.read_text().replace("/(?i)yes/", "/(?i)yes|money/"))
    assert run("test", desk / "rules").exit_code == 0


@pytest.mark.slow
def test_without_adding_the_entry_is_printed(desk: Path) -> None:
    """The pack stays; the same case twice is one file; other events are not overwritten."""
    for _ in range(2):
        made = example(desk, "hasty", "ask-first", "--as", "violated")
        assert made.exit_code == 0, made.output
        assert (
            "add to `examples: {violated: [...]}` of rule ask-first: {events: cases/ask-first-" in made.stdout
        )
    assert (desk / "rules" / "desk.yaml").read_text() == PACK
    (file,) = (desk / "rules" / "cases").iterdir()
    file.write_text("{}\n")
    refused = example(desk, "hasty", "ask-first", "--as", "violated")
    assert (refused.exit_code, "TRL607" in refused.stderr) == (2, True)


def test_what_cannot_be_an_example_is_an_error(desk: Path) -> None:
    """An unjudged verdict, an unknown one, a folder without the pack, a missing archive."""
    assert "TRL609" in example(desk, "unseen", "ask-first", "--as", "holds").stderr
    assert "TRL421" in run("example", desk / "bundle", "0" * 32, "--as", "holds").stderr
    line = ["example", desk / "bundle", verdict(desk, "hasty", "ask-first"), "--as", "holds"]
    assert "TRL201" in run(*line, "--to", desk / "archive", "--add").stderr
    (desk / "archive" / "other.yaml").write_text("pack: other\n")
    assert "has no pack desk" in run(*line, "--to", desk / "archive", "--add").stderr
    (desk / "archive" / "other.yaml").unlink()
    (desk / "archive").rename(desk / "moved")
    missing = run(*line, "--to", desk / "rules")
    assert (missing.exit_code, "--archive PATH" in missing.stderr) == (2, True)
    assert run(*line, "--to", desk / "rules", "--archive", desk / "moved").exit_code == 0


# ---- the place in the pack

HEAD = "pack: x\npropositions: {a: nested, b: late}\nrules:\n"


BLOCK = "- id: r\n  formula: a\n  examples:\n"


@pytest.mark.parametrize(
    "marked",
    [
        "- id: r\n  formula: a«\n  examples:\n    holds:\n      - LINE»\n",
        "  - id: r\n    formula: a # why«\n    examples:\n      holds:\n        - LINE»\n\n# end\n",
        "- id: r\n  formula: a\n  examples: {«holds: [LINE]»}\n",
        "- id: r\n  formula: a\n  examples: {violated: [[b]]«, holds: [LINE]»}\n",
        BLOCK + "    violated: [[b]]«\n    holds: [LINE]»\n  title: x\n",
        "- {id: r, formula: a, examples: {holds: [[[a], [b]], [[a]],« LINE»]}}\n",
        BLOCK
        + "    holds:\n      - [[a]]\n      # x\n      - [[b]] # y«\n      - LINE»\n    violated: [[b]]\n",
        BLOCK + "    holds:\n    - {events: b.jsonl}«\n    - LINE»\n- {id: s, formula: b}\n",
    ],
)
def test_a_case_is_added_without_another_change(marked: str) -> None:
    """Only the marked text is new: the layout and the comments stay."""
    text = HEAD + re.sub("«[^»]*»", "", marked)
    added = with_example(read_document(text, "x.yaml"), "r", "holds", "cases/c.jsonl")
    assert added == HEAD + re.sub("[«»]", "", marked).replace("LINE", "{events: cases/c.jsonl}")
    assert adds_only(pack_text(text), pack_text(added), "r")
    assert not adds_only(pack_text(text), pack_text(text), "r")
    assert not adds_only(pack_text(text), pack_text(added.replace("formula: a", "formula: b", 1)), "r")


@pytest.mark.parametrize(
    "rule",
    ["- {id: r, formula: a}\n", BLOCK + "    holds:\n      - [a]\n      - [b]\n", "- id: s\n  formula: a\n"],
)
def test_an_uncertain_place_is_refused(rule: str) -> None:
    """A rule on one line, a session as a block, and a rule that is not there."""
    assert with_example(read_document(HEAD + rule, "x.yaml"), "r", "holds", "cases/c.jsonl") is None


@pytest.mark.slow
def test_an_inherited_rule_has_no_place_in_the_pack(desk: Path) -> None:
    """Its examples are in its own pack."""
    (desk / "below").mkdir()
    file = desk / "below" / "shop.yaml"
    file.write_text("pack: shop\nextends: ../rules/desk.yaml\n")
    assert load_packs(file).rules
    found = run("audit", desk / "archive", "--rules", file, "--out", desk / "bundle")
    assert found.exit_code == 0, found.output
    line = ["example", desk / "bundle", verdict(desk, "hasty", "ask-first"), "--as", "holds", "--add"]
    refused = run(*line, "--to", desk / "below")
    assert (refused.exit_code, "add it by hand" in refused.stderr) == (2, True)
    assert file.read_text() == "pack: shop\nextends: ../rules/desk.yaml\n"
