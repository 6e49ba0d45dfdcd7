"""The share of policy sentences that rules can express, which docs/policies.md has, from rules for each."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tracline.cli import tracline
from tracline.rules.model.formula import names
from tracline.rules.model.predicate import Leaf, Predicate, leaves
from tracline.rules.model.rule import Rule
from tracline.rules.packs.load import load_packs

FOLDER = Path(__file__).parent / "policy_sentences"
DESKS = ("airline", "bank", "retail", "telecom")
NOT_YET = yaml.safe_load((FOLDER / "not_yet.yaml").read_text("utf-8"))
PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("desk", DESKS)
def test_each_sentence_has_a_rule_that_checks_and_examples_that_pass(desk: str) -> None:
    """`tracline check` has nothing to remark, and each proposition on lists or two fields has events."""
    pack = str(FOLDER / f"{desk}.yaml")
    checked = CliRunner().invoke(tracline, ["check", pack])
    assert (checked.exit_code, checked.stderr) == (0, ""), checked.output
    tested = CliRunner().invoke(tracline, ["test", pack])
    assert tested.exit_code == 0, tested.output
    propositions = yaml.safe_load(Path(pack).read_text("utf-8"))["propositions"]
    with_examples = {name for name, value in propositions.items() if isinstance(value, dict)}
    rules = load_packs([pack]).rules
    assert with_examples == {name for rule in rules for name in new_propositions(rule)}


def test_the_page_has_the_share_of_the_sentences_that_can_be_expressed() -> None:
    """The counts of each desk: all sentences, those without lists and two fields, and those with them."""
    rows: list[tuple[str, int, int, int]] = []
    for desk in DESKS:
        rules = load_packs([str(FOLDER / f"{desk}.yaml")]).rules
        assert len({rule.policy for rule in rules}) == len(rules)
        before = sum(not new_propositions(rule) for rule in rules)
        others = sum(entry["desk"] == desk for entry in NOT_YET)
        rows.append((desk, len(rules) + others, before, len(rules)))
    total = [sum(column) for column in zip(*(row[1:] for row in rows), strict=True)]
    rows.append(("all", *total))
    assert [tuple(cells) for cells in table("desk")] == [tuple(map(str, row)) for row in rows]
    needs = Counter(entry["needs"] for entry in NOT_YET)
    assert {(cells[0], int(cells[1])) for cells in table("the others need")} == set(needs.items())


def new_propositions(rule: Rule) -> set[str]:
    """Return the propositions of a rule with a condition on a list, or on two fields."""
    used = names(rule.formula)
    return {name for name, predicate in rule.propositions.items() if name in used and is_new(predicate)}


def is_new(predicate: Predicate) -> bool:
    """Return whether a predicate has a condition on a list, or compares two fields."""
    return any(not isinstance(leaf, Leaf) or leaf.against is not None for leaf in leaves(predicate))


def table(first: str) -> list[list[str]]:
    """Return the cells of the page's table whose header begins so."""
    found = re.search(rf"^\| {first} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert found, first
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()]
