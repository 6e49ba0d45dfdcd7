"""Packs that use the names of others: sharing, clashes, errors and storage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.archive.rule_sets import read_rule_set, write_rule_set
from tracline.cli import tracline
from tracline.rules.lint.check import check
from tracline.rules.model.digest import rule_digest, rule_set_digest
from tracline.rules.model.problem import Problem, RuleError
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs, load_texts, pack_text, read_packs

DESK = """\
pack: desk
propositions:
  asks: kind == "user"
  pays: kind == "tool_call" and tool == "pay"
  checked: kind == "tool_result" and tool == "check"
operators:
  first(p, q): always (p -> once q)
transitions:
  owed: pays or (previous owed and not checked)
rules:
  - {id: never-pays, formula: always not pays}
"""

RULES = """\
rules:
  - {id: check-first, formula: "first(pays, checked)"}
  - {id: never-owed, formula: always not (asks and previous owed)}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Return a folder with the pack that the others use."""
    (tmp_path / "desk.yaml").write_text(DESK)
    return tmp_path


def written(folder: Path, name: str, text: str) -> Path:
    """Write a pack."""
    file = folder / f"{name}.yaml"
    file.write_text(f"pack: {name}\n{text}")
    return file


def problems(file: Path) -> tuple[Problem, ...]:
    """Return every problem of a pack."""
    with pytest.raises(RuleError) as caught:
        load_packs(file)
    return caught.value.problems


@pytest.mark.parametrize("use", ["use: desk.yaml\n", "use: [desk.yaml]\n"])
def test_a_pack_shares_the_names_of_another_without_its_rules(desk: Path, use: str) -> None:
    """The rules are those of a pack that defines the names itself; digests cover what they use."""
    used = load_packs(written(desk, "shop", use + RULES))
    alone = pack_text("pack: shop\n" + DESK.partition("rules:")[0].partition("\n")[2] + RULES)
    assert [rule.id for rule in used.rules] == ["check-first", "never-owed"]
    assert used.rules == alone.rules
    assert rule_set_digest(used) == rule_set_digest(alone)


def test_a_change_of_a_used_name_changes_the_digests_of_the_rules_that_use_it(desk: Path) -> None:
    """A rule that does not use the name has the same digest."""
    file = written(desk, "shop", "use: desk.yaml\n" + RULES)
    before = [rule_digest(rule) for rule in load_packs(file).rules]
    (desk / "desk.yaml").write_text(DESK.replace('"check"', '"verify"').replace(" and not checked", ""))
    after = [rule_digest(rule) for rule in load_packs(file).rules]
    assert before[0] != after[0]
    assert before[1] != after[1]
    (desk / "desk.yaml").write_text(DESK.replace('"user"', '"assistant"'))
    assert rule_digest(load_packs(file).rules[0]) == before[0]


def test_a_shipped_pack_is_used_by_its_name() -> None:
    """Its propositions are in scope, its rules are not."""
    rule_set = pack_text(
        "pack: mine\nuse: customer-service\nrules: [{id: none, formula: always not refund}]\n"
    )
    assert [rule.id for rule in rule_set.rules] == ["none"]
    assert set(rule_set.rules[0].propositions) == {"refund"}


def test_a_used_pack_passes_on_the_names_that_it_extends_and_uses(desk: Path) -> None:
    """A name that comes through several packs is one name."""
    written(desk, "more", "use: desk.yaml\npropositions: {refunds: tool == 'refund'}\n".replace("'", '"'))
    written(desk, "wide", 'extends: desk.yaml\npropositions: {pays: tool == "transfer"}\n')
    text = "use: [more.yaml, desk.yaml]\nrules: [{id: a, formula: always (refunds -> once pays)}]\n"
    assert len(load_packs(written(desk, "shop", text)).rules) == 1
    text = "use: wide.yaml\nrules: [{id: a, formula: always not pays}]\n"
    (rule,) = load_packs(written(desk, "shop", text)).rules
    assert "transfer" in repr(rule.propositions["pays"])


def test_a_pack_may_extend_a_pack_and_use_another(desk: Path) -> None:
    """Inherited rules come from the one, names from both."""
    base = "propositions: {inner: nested}\nrules: [{id: b, formula: always not inner}]\n"
    written(desk, "base", base)
    text = "extends: base.yaml\nuse: desk.yaml\nrules: [{id: a, formula: always (asks -> once inner)}]\n"
    assert [rule.id for rule in load_packs(written(desk, "shop", text)).rules] == ["b", "a"]


# ---- errors


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("use: other.yaml\n", "TRL201", 2, "unknown pack `other.yaml` in `use`"),
        ("use: shop.yaml\n", "TRL223", 2, "cyclic `use`: "),
        ("use: {a: b}\n", "TRL212", 2, "`use` is not a pack or a list of packs"),
        ('use: desk.yaml\npropositions: {pays: tool == "x"}\n', "TRL222", 3, "the used pack `desk` has it"),
        ("use: desk.yaml\noperators: {asks(p): p}\n", "TRL222", 3, "has it under `propositions`"),
        ("use: [desk.yaml, twin.yaml]\n", "TRL222", 2, "the used packs `desk` and `twin` define it"),
    ],
)
def test_an_error_of_use_has_its_place(desk: Path, text: str, code: str, line: int, words: str) -> None:
    """Every error is at the entry of `use` or at the name that clashes."""
    written(desk, "twin", 'propositions: {pays: tool == "twin"}\n')
    (problem,) = problems(written(desk, "shop", text))
    assert problem.code == code
    assert words in problem.message
    assert problem.location is not None
    assert problem.location.line == line


def test_errors_of_a_used_pack_are_reported_in_its_file(desk: Path) -> None:
    """Rules of the pack that uses it are not checked against names that are missing."""
    (desk / "desk.yaml").write_text(DESK.replace("once q", "once r"))
    found = problems(written(desk, "shop", "use: desk.yaml\n" + RULES))
    assert {problem.location.source.rpartition("/")[2] for problem in found if problem.location} == {
        "desk.yaml"
    }


def test_packs_that_use_each_other_in_a_cycle_are_refused(desk: Path) -> None:
    """The error names the cycle, whichever pack is loaded."""
    written(desk, "a", "use: b.yaml\n")
    (problem,) = problems(written(desk, "b", "extends: a.yaml\n"))
    assert problem.code == "TRL223"


def test_a_chain_of_used_packs_and_their_number_are_limited(desk: Path) -> None:
    """Five packs in a chain and twenty packs in all are accepted, one more is not."""
    written(desk, "p0", "propositions: {n0: nested}\n")
    for number in range(1, 7):
        file = written(desk, f"p{number}", f"use: p{number - 1}.yaml\n")
        if number == 5:
            assert load_packs(file).rules == ()
    assert problems(desk / "p6.yaml")[0].code == "TRL224"
    for number in range(21):
        written(desk, f"q{number}", f"propositions: {{m{number}: nested}}\n")
    names = [f"q{number}.yaml" for number in range(21)]
    assert load_packs(written(desk, "wide", f"use: [{', '.join(names[:20])}]\n")).rules == ()
    (problem,) = problems(written(desk, "wide", f"use: [{', '.join(names)}]\n"))
    assert problem.code == "TRL227"


# ---- storage and output


def test_stored_rule_sets_have_the_used_packs(desk: Path) -> None:
    """They give the same rules from their texts, from an archive and from the folder of a bundle."""
    written(desk, "more", 'use: desk.yaml\npropositions: {refunds: tool == "refund"}\n')
    loaded = load_packs(written(desk, "shop", "use: [more.yaml, privacy]\n" + RULES))
    keys = ["shop", "shop.uses.1/more", "shop.uses.1/more.uses.1/desk", "shop.uses.2/privacy"]
    assert list(loaded.sources) == keys
    assert load_texts(loaded.sources).rules == loaded.rules
    digest = rule_set_digest(loaded)
    write_rule_set(desk / "archive", digest, loaded.sources)
    assert read_rule_set([desk / "archive"], digest).rules == loaded.rules
    stored = desk / "stored"
    for name, text in loaded.sources.items():
        (stored / name).parent.mkdir(parents=True, exist_ok=True)
        (stored / f"{name}.yaml").write_text(text)
    assert load_packs(stored) == RuleSet(loaded.rules, loaded.sources)


@pytest.mark.parametrize(
    "texts",
    [
        {"mine": "pack: mine\nuse: x\n"},
        {"mine": "pack: mine\nuse: [x, y]\n", "mine.uses.1/x": "pack: x\n"},
        {"mine": "pack: mine\n", "mine.uses.1/x": "pack: x\n"},
        {"mine": "pack: mine\nuse: x\n", "mine.uses.1/x": "pack: other\n"},
    ],
)
def test_inconsistent_stored_texts_are_rejected(texts: dict[str, str]) -> None:
    """A used pack is missing, superfluous or under another name."""
    with pytest.raises(RuleError):
        load_texts(texts)


def test_check_lists_what_a_pack_uses(desk: Path) -> None:
    """It does not warn of the names of another file that no rule uses."""
    file = written(desk, "shop", "use: desk.yaml\nrules: [{id: a, formula: always not pays}]\n")
    packs = read_packs(file)
    assert check(packs.rule_set, packs.documents) == ()
    shown = CliRunner().invoke(tracline, ["check", str(file)])
    assert "shop uses 5 names of desk\n" in shown.output
    answer = json.loads(CliRunner().invoke(tracline, ["check", str(file), "--format", "json"]).output)
    assert answer["uses"] == [
        {"pack": "shop", "used": "desk", "names": ["asks", "pays", "checked", "first", "owed"]}
    ]
