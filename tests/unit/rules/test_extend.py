"""Packs that extend others: inheritance, replacement, errors and storage."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.archive.rule_sets import read_rule_set, write_rule_set
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.cli import tracline
from tracline.rules.language.parse import parse_formula, parse_predicate
from tracline.rules.lint.check import check
from tracline.rules.model.digest import rule_digest, rule_set_digest
from tracline.rules.model.problem import Problem, RuleError
from tracline.rules.model.rule import Rule
from tracline.rules.packs.load import load_packs, load_texts, pack_text, read_packs, shipped_packs
from tracline.schemas.verdict import Severity
from tracline.stream.messages.codec import Activation, decode, encode
from tracline.stream.process.trial import require_trial

from ...support.event_rows import call, result, session, user, write
from ...support.evidence.bundle_lines import bundle_lines

BASE = """\
pack: base
title: What others build on
propositions:
  asks: kind == "user"
  pays: kind == "tool_call" and tool == "pay"
  checked: kind == "tool_result" and tool == "check"
  odd_pay: kind == "tool_call" and tool == "pay" and args.odd == true
operators:
  before(p, q): always (p -> once q)
transitions:
  owed: pays or (previous owed and not checked)
rules:
  - id: check-first
    severity: high
    formula: before(pays, checked)
    steps: pays or checked
    applies_to: pays
    examples: {violated: [[pays]], holds: [[checked], [pays]]}
  - id: never-owed
    formula: always not (asks and previous owed)
    examples: {violated: [[pays], [asks]], holds: [[pays], [checked], [asks]]}
  - {id: no-odd, formula: "always not (odd_pay and pays)", examples: {violated: [[pays, odd_pay]]}}
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a folder with the pack that the others extend."""
    (tmp_path / "base.yaml").write_text(BASE)
    return tmp_path


def written(folder: Path, text: str, name: str = "shop") -> Path:
    """Write a pack that extends the base, into its folder."""
    file = folder / f"{name}.yaml"
    file.write_text(f"pack: {name}\nextends: base.yaml\n{text}")
    return file


def rules(file: Path) -> dict[str, Rule]:
    """Return the rules of a pack by their ids."""
    return {rule.id: rule for rule in load_packs(file).rules}


def problems(file: Path) -> tuple[Problem, ...]:
    """Return every problem of a pack."""
    with pytest.raises(RuleError) as caught:
        load_packs(file)
    return caught.value.problems


# ---- what is inherited


@pytest.mark.parametrize("name", shipped_packs())
def test_a_pack_that_replaces_nothing_has_the_rules_of_its_parent(name: str) -> None:
    """Everything but the pack's name is the same, also the digests, for every shipped pack."""
    parent, child = load_packs(name).rules, pack_text(f"pack: mine\nextends: {name}\n").rules
    assert [replace(rule, pack=name) for rule in child] == list(parent)
    assert [rule_digest(rule) for rule in child] == [rule_digest(rule) for rule in parent]
    assert {rule.pack for rule in child} == {"mine"}


def test_an_audit_by_a_pack_that_replaces_nothing_finds_what_its_parent_finds(
    base: Path, tmp_path: Path
) -> None:
    """Verdicts are the same except for the pack's name and the ids, which hash it."""
    found = [bundle_lines(audited(tmp_path, file)) for file in (base / "base.yaml", written(base, ""))]
    assert {verdict["pack"] for verdict in found[1]} == {"shop"}
    assert {verdict["id"] for verdict in found[0]}.isdisjoint(verdict["id"] for verdict in found[1])
    for verdict in (*found[0], *found[1]):
        del verdict["id"], verdict["pack"]
    assert found[0]
    assert found[0] == found[1]


def test_replaced_propositions_apply_to_every_part_of_inherited_rules(base: Path) -> None:
    """Formula, `steps`, `applies_to` and transitions use the new condition, and digests cover it."""
    found = rules(written(base, 'propositions:\n  pays: kind == "tool_call" and tool == "transfer"\n'))
    new = parse_predicate('kind == "tool_call" and tool == "transfer"')
    assert found["check-first"].propositions["pays"] == found["never-owed"].propositions["pays"] == new
    former = rules(base / "base.yaml")
    assert found["check-first"].propositions["checked"] == former["check-first"].propositions["checked"]
    changed = {name for name, rule in found.items() if rule_digest(rule) != rule_digest(former[name])}
    assert changed == {"check-first", "never-owed", "no-odd"}


def test_replaced_operators_and_transitions_apply_to_inherited_rules(base: Path) -> None:
    """An inherited rule uses the operators and transitions that the extending pack defines."""
    text = "operators:\n  before(p, q): always (p -> previous once q)\ntransitions:\n  owed: pays\n"
    found = rules(written(base, text))
    assert found["check-first"].formula == parse_formula("always (pays -> previous once checked)")
    assert found["never-owed"].transitions == {"owed": parse_formula("pays")}


def test_a_packs_rules_use_inherited_names(base: Path) -> None:
    """Inherited propositions, operators and transitions are in scope; inherited rules come first."""
    text = "rules:\n  - {id: mine, formula: 'before(pays, checked) and always not previous owed'}\n"
    assert list(rules(written(base, text))) == ["check-first", "never-owed", "no-odd", "mine"]


def test_rules_are_dropped_and_get_other_severities(base: Path) -> None:
    """A dropped rule may be defined again; a severity changes the digest of the rule set, not the rule's."""
    text = (
        "drop: [no-odd]\nseverities: {check-first: low}\nrules:\n  - {id: no-odd, formula: always not pays}\n"
    )
    found, former = rules(written(base, text)), rules(base / "base.yaml")
    assert found["check-first"].severity is Severity.LOW
    assert rule_digest(found["check-first"]) == rule_digest(former["check-first"])
    assert found["no-odd"].formula == parse_formula("always not pays")


def test_packs_may_extend_each_other_five_deep(base: Path) -> None:
    """The nearest definition applies; the sixth pack above one is an error at the node that names it."""
    for depth in range(1, 7):
        parent = "base" if depth == 1 else f"p{depth - 1}"
        text = f'pack: p{depth}\nextends: {parent}.yaml\npropositions: {{asks: text contains "{depth}"}}\n'
        (base / f"p{depth}.yaml").write_text(text)
    assert rules(base / "p5.yaml")["never-owed"].propositions["asks"] == parse_predicate('text contains "5"')
    (problem,) = problems(base / "p6.yaml")
    assert (problem.code, location(problem)) == ("TRL224", ("p1.yaml", "base.yaml"))


def test_a_pack_may_extend_one_of_the_same_name() -> None:
    """Verdicts keep the name; loading both packs is an error, as with any duplicate name."""
    text = "pack: privacy\nextends: privacy\ndrop: [no-password]\n"
    assert len(pack_text(text).rules) == len(load_packs("privacy").rules) - 1


# ---- what is wrong

ERRORS = [
    ("extends: bas\n", "TRL201", "bas", "name a shipped pack"),
    ("extends: base\n", "TRL201", "base", "did you mean `base.yaml`?"),
    ("extends: custmer-service\n", "TRL201", "custmer-service", "did you mean `customer-service`?"),
    ("extends: [privacy]\n", "TRL212", "[privacy]", "write text"),
    ("extends:\n", "TRL212", "extends", "write text"),
    ("extends: ''\n", "TRL201", "'", "name a shipped pack"),
    ("extends: shop.yaml\n", "TRL223", "shop.yaml", "remove one"),
    ("drop: [never-owed]\n", "TRL225", "never-owed", "add `extends: PACK`"),
    ("severities: {never-owed: low}\n", "TRL225", "never-owed", "add `extends: PACK`"),
    ("extends: base.yaml\ndrop: never-owed\n", "TRL212", "never-owed", "write a list"),
    ("extends: base.yaml\ndrop: [never-owd]\n", "TRL225", "never-owd", "did you mean `never-owed`?"),
    ("extends: base.yaml\nseverities: {no-od: low}\n", "TRL225", "no-od", "did you mean `no-odd`?"),
    ("extends: base.yaml\nseverities: {no-odd: lo}\n", "TRL213", "lo", "write one of `info`"),
    ("extends: base.yaml\ndrop: [no-odd]\nseverities: {no-odd: low}\n", "TRL225", "no-odd", "from `drop`"),
    (
        "extends: base.yaml\nseverities: {mine: low}\nrules:\n  - {id: mine, formula: always asks}\n",
        "TRL225",
        "mine",
        "has its own `severity`",
    ),
    (
        "extends: base.yaml\nrules:\n  - {id: no-odd, formula: always asks}\n",
        "TRL220",
        "no-odd",
        "`drop: [no-odd]`",
    ),
    ("extends: base.yaml\ntransitions: {asks: pays}\n", "TRL222", "asks", "choose another name"),
    ("extends: base.yaml\noperators:\n  asks(p): p\n", "TRL222", "asks(p)", "choose another name"),
    ("extends: base.yaml\noperators:\n  f(p): p\n  f(p, q): q\n", "TRL126", "f", "another name"),
]


def location(problem: Problem) -> tuple[str, str]:
    """Return the file's name and the text under the caret."""
    assert problem.location is not None
    return Path(problem.location.source).name, problem.location.text[
        problem.location.start : problem.location.end
    ]


@pytest.mark.parametrize(("text", "code", "caret", "hint"), ERRORS)
def test_each_error_has_its_code_location_and_hint(
    base: Path, text: str, code: str, caret: str, hint: str
) -> None:
    """An error of inheritance is one problem, located in the extending pack."""
    file = base / "shop.yaml"
    file.write_text(f"pack: shop\n{text}")
    (problem,) = problems(file)
    assert (problem.code, location(problem)) == (code, ("shop.yaml", caret))
    assert hint in problem.hint


def test_a_cycle_is_reported_at_the_pack_that_closes_it(base: Path) -> None:
    """The problem is in the pack that leads back to the first."""
    (base / "other.yaml").write_text("pack: other\nextends: shop.yaml\n")
    (base / "shop.yaml").write_text("pack: shop\nextends: ./other.yaml\n")
    (problem,) = problems(base / "shop.yaml")
    assert (problem.code, location(problem)) == ("TRL223", ("other.yaml", "shop.yaml"))


def test_errors_of_a_parent_are_located_in_its_file(tmp_path: Path) -> None:
    """An error of the parent is reported once, and causes no problem of the child."""
    (tmp_path / "base.yaml").write_text(BASE.replace("before(pays, checked)", "before(pays)"))
    file = written(tmp_path, "rules:\n  - {id: mine, formula: always asks, severity: hihg}\n")
    found = problems(file)
    assert [problem.code for problem in found] == ["TRL122", "TRL213"]
    assert [location(problem)[0] for problem in found] == ["base.yaml", "shop.yaml"]


def test_an_error_of_an_inherited_rule_names_the_cause(base: Path) -> None:
    """If inherited rules call a replaced operator wrongly, the hint names the pack that replaces it."""
    (problem,) = problems(written(base, "operators:\n  before(p): p\n"))
    assert (problem.code, location(problem)[0]) == ("TRL122", "base.yaml")
    assert "the error comes from what" in problem.hint
    assert "shop.yaml" in problem.hint


def test_a_pack_given_as_text_extends_no_file(base: Path) -> None:
    """A text has no folder for relative paths; it extends a shipped pack by its name."""
    with pytest.raises(RuleError, match="TRL201"):
        pack_text(f"pack: x\nextends: {base / 'base.yaml'}\n")


# ---- what probably no longer fits


def warnings(file: Path) -> list[tuple[str, str]]:
    """Return the code of each warning and the text under its caret."""
    read = read_packs(file)
    assert not read.errors
    return [(problem.code, location(problem)[1]) for problem in check(read.rule_set, read.documents)]


def test_inherited_names_cause_no_warning(base: Path) -> None:
    """Inherited names that only a dropped rule used are not reported."""
    assert warnings(written(base, "drop: [no-odd]\n")) == []


FITS = [
    ('propositions:\n  pays: tool == "pay"\n', ("TRL511", "pays")),
    ('propositions:\n  pays: kind == "tool_call" and tool == "transfer"\n', ("TRL512", "pays")),
    ("drop: [no-odd]\npropositions: {odd_pay: nested}\n", ("TRL509", "odd_pay")),
    ("propositions: {oddpay: nested}\n", ("TRL509", "oddpay")),
    ("operators:\n  before(p, q): always (p -> previous not once q)\n", ("TRL512", "base.yaml")),
    ("transitions: {owed: checked}\n", ("TRL512", "base.yaml")),
]


@pytest.mark.parametrize(("text", "warning"), FITS)
def test_warnings_about_inherited_rules_that_no_longer_fit(
    base: Path, text: str, warning: tuple[str, str]
) -> None:
    """Widened propositions, impossible or failing examples and unused names are reported."""
    assert warning in warnings(written(base, text))


def test_names_that_are_replaced_together_fit(base: Path) -> None:
    """There is no warning if both propositions of an example name the same tool again."""
    text = 'propositions:\n  pays: kind == "tool_call" and tool == "transfer"\n'
    text += '  odd_pay: kind == "tool_call" and tool == "transfer" and args.odd == true\n'
    assert warnings(written(base, text)) == []


# ---- how it is stored


def audited(folder: Path, pack: Path | list[Path]) -> Path:
    """Return the bundle of an audit of two sessions that violate the base's rules."""
    rows = [
        *session("a", call("pay"), result(), user("why?")),
        *session("b", call("pay", args='{"odd": true}'), user("?")),
    ]
    audit(write(folder / "rows.parquet", rows), load_packs(pack), folder / "bundle", AuditOptions())
    return folder / "bundle"


@pytest.fixture
def grandchild(tmp_path: Path) -> Path:
    """Return a pack that extends a pack that extends another, each in its own folder."""
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "base.yaml").write_text(BASE)
    (tmp_path / "mid.yml").write_text("pack: mid\nextends: far/base.yaml\ndrop: [no-odd]\n")
    (tmp_path / "near").mkdir()
    file = tmp_path / "near" / "any-name.yaml"
    file.write_text("pack: shop\nextends: ../mid.yml\nseverities: {check-first: critical}\n")
    return file


def test_sources_have_every_extended_pack(grandchild: Path) -> None:
    """Each pack is under the name of the pack that extends it, and the texts load as the same rules."""
    rule_set = load_packs([grandchild, "privacy"])
    keys = ["privacy", "shop", "shop.extends/mid", "shop.extends/mid.extends/base"]
    assert list(rule_set.sources) == keys
    assert rule_set.sources["shop.extends/mid.extends/base"] == BASE
    assert rule_set.packs == ("privacy", "shop")
    shutil.rmtree(grandchild.parents[1] / "far")
    assert load_texts(dict(reversed(rule_set.sources.items()))) == rule_set


def test_a_stored_parent_replaces_the_shipped_one() -> None:
    """The stored parent applies, since a later release may change the shipped pack."""
    stored = "pack: privacy\nrules: [{id: r, formula: true}]\n"
    rule_set = load_texts({"mine": "pack: mine\nextends: privacy\n", "mine.extends/privacy": stored})
    assert [(rule.pack, rule.id) for rule in rule_set.rules] == [("mine", "r")]


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        ({"mine": "pack: mine\nextends: privacy\n"}, "TRL201"),
        ({"mine": "pack: mine\nextends: /etc/passwd\n"}, "TRL201"),
        ({"mine": "pack: mine\n", "mine.extends/privacy": "pack: privacy\n"}, "TRL221"),
        ({"mine": "pack: mine\nextends: x\n", "mine.extends/privacy": "pack: other\n"}, "TRL221"),
        ({"mine": "pack: mine\nextends: x\n", "mine.extends/../x": "pack: x\n"}, "TRL201"),
    ],
)
def test_inconsistent_stored_texts_are_rejected(texts: dict[str, str], code: str) -> None:
    """A parent that is missing, not extended or of another name is an error; no other pack replaces it."""
    with pytest.raises(RuleError) as caught:
        load_texts(texts)
    assert [problem.code for problem in caught.value.problems] == [code]


def test_a_bundles_rules_load_without_the_original_files(grandchild: Path, tmp_path: Path) -> None:
    """`rules/` has the packs as written, and an audit with that folder gives the same bytes."""
    first = audited(tmp_path, grandchild)
    stored = tmp_path / "stored"
    shutil.copytree(first / "rules", stored)
    found = (first / "verdicts.jsonl").read_bytes()
    assert b'"shop"' in found
    for name in ("far", "near"):
        shutil.rmtree(tmp_path / name)
    (tmp_path / "mid.yml").unlink()
    for pack in (stored, stored / "shop.yaml"):
        again = audited(tmp_path, pack)
        assert (again / "verdicts.jsonl").read_bytes() == found
    files = sorted(path.relative_to(stored).as_posix() for path in stored.rglob("*.yaml"))
    assert files == ["shop.extends/mid.extends/base.yaml", "shop.extends/mid.yaml", "shop.yaml"]
    assert (stored / files[0]).read_text() == BASE


def test_a_folder_beside_a_pack_holds_one_parent(grandchild: Path, tmp_path: Path) -> None:
    """A bundle's folder with an additional file is an error."""
    stored = audited(tmp_path, grandchild) / "rules"
    (stored / "shop.extends" / "more.yaml").write_text("pack: more\n")
    (problem,) = problems(stored / "shop.yaml")
    assert (problem.code, location(problem)[1]) == ("TRL201", "../mid.yml")


@pytest.mark.slow
def test_archives_and_activations_have_every_extended_pack(grandchild: Path, tmp_path: Path) -> None:
    """The rule set of an archive and the message over Kafka load as the same rules; a trial accepts them."""
    rule_set = load_packs(grandchild)
    digest = rule_set_digest(rule_set)
    write_rule_set(tmp_path / "archive", digest, rule_set.sources)
    message = decode(encode(Activation(dict(rule_set.sources))))
    shutil.rmtree(tmp_path / "far")
    assert read_rule_set([tmp_path / "archive"], digest) == rule_set
    assert isinstance(message, Activation)
    assert load_texts(message.packs) == rule_set
    require_trial(message.packs)


# ---- the command line


def test_check_shows_what_is_inherited_and_replaced(base: Path) -> None:
    """Both formats have the parent, the rules and what the pack replaces."""
    text = "drop: [no-odd]\nseverities: {check-first: low}\n"
    text += 'propositions:\n  asks: kind == "user" and not nested\n'
    file = str(written(base, text))
    table = CliRunner().invoke(tracline, ["check", file])
    assert table.exit_code == 0
    assert table.stdout.splitlines() == [
        "shop extends base: 2 rules inherited",
        "  propositions replaced: asks",
        "  rules dropped: no-odd",
        "  severities: check-first low (was high)",
        "",
        "1 pack, 2 rules, 0 errors, 0 warnings",
    ]
    answer = json.loads(CliRunner().invoke(tracline, ["check", "--format", "json", file]).stdout)
    assert answer["extends"] == [
        {
            "pack": "shop",
            "parent": "base",
            "inherited": ["check-first", "never-owed"],
            "own": [],
            "dropped": ["no-odd"],
            "propositions": ["asks"],
            "operators": [],
            "transitions": [],
            "severities": {"check-first": {"was": "high", "now": "low"}},
        }
    ]


def test_inherited_examples_are_run(base: Path) -> None:
    """They name propositions, whatever conditions those have, and fail if an operator is different."""
    assert CliRunner().invoke(tracline, ["test", str(written(base, ""))]).exit_code == 0
    text = 'propositions:\n  pays: kind == "tool_call" and tool == "transfer"\n'
    assert CliRunner().invoke(tracline, ["test", str(written(base, text))]).exit_code == 0
    text = "operators:\n  before(p, q): always (p -> previous not once q)\n"
    assert CliRunner().invoke(tracline, ["test", str(written(base, text))]).exit_code == 1
