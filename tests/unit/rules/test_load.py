"""Packs: the content of a file, every error code, all errors at once, and the lookup of files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.language.parse import parse_formula, parse_predicate
from tracline.rules.model.predicate import Path as Field
from tracline.rules.model.problem import CODES, Problem, RuleError
from tracline.rules.model.rule import Rule, SliceKey
from tracline.rules.packs.json_schema import SCHEMA_FILE, json_schema
from tracline.rules.packs.load import load_packs, load_texts, pack_text, read_packs, shipped_packs
from tracline.schemas.verdict import Recover, Severity

PACK = """\
pack: retail-support
version: 3
propositions:
  authenticated:  kind == "tool_result" and tool in ["find_user"] and error is null
  account_write:  kind == "tool_call" and tool in ["cancel_order", "return_items"]
  large_refund:   kind == "tool_call" and tool == "refund" and args.amount > 100
operators:
  happened_before(p, q): historically (q -> once p)
transitions:
  odd: not previous odd
rules:
  - id: auth-first
    title: No account write before the customer is authenticated
    formula: always (account_write -> once authenticated)
    severity: high
    recover: violation
    for_each: args.order_id
    steps: account_write or authenticated
    applies_to: account_write
    why: Accounts are changed for their owners alone.
    blind_spots: Other tools that write.
    examples:
      violated: [[], [account_write]]
      holds:    [[[authenticated], [account_write]], [[]]]
  - id: second
    formula: always happened_before(authenticated, odd and large_refund)
"""

SMALL = """\
pack: small
propositions: {a: kind == "user", b: kind == "assistant"}
"""


def problems(text: str) -> tuple[Problem, ...]:
    """Return every problem of a pack given as text."""
    with pytest.raises(RuleError) as caught:
        pack_text(text, "x.yaml")
    return caught.value.problems


def rule(lines: str) -> Rule:
    """Return the rule of those lines, in a pack with the propositions a and b."""
    (only,) = pack_text(
        SMALL + "rules:\n  - id: r\n" + "".join(f"    {line}\n" for line in lines.splitlines())
    ).rules
    return only


def test_a_pack_is_read_whole() -> None:
    """Every field is read, names are looked up, operators are expanded, and defaults fill the rest."""
    first, second = pack_text(PACK).rules
    assert first == Rule(
        pack="retail-support",
        id="auth-first",
        title="No account write before the customer is authenticated",
        formula=parse_formula("always (account_write -> once authenticated)"),
        text="always (account_write -> once authenticated)",
        propositions={
            "authenticated": parse_predicate(
                'kind == "tool_result" and tool in ["find_user"] and error is null'
            ),
            "account_write": parse_predicate(
                'kind == "tool_call" and tool in ["cancel_order", "return_items"]'
            ),
        },
        severity=Severity.HIGH,
        recover=Recover.VIOLATION,
        for_each=SliceKey((Field("args", ("order_id",)),), joint=False),
        steps=parse_formula("account_write or authenticated"),
        applies_to=parse_formula("account_write"),
        why="Accounts are changed for their owners alone.",
        blind_spots="Other tools that write.",
        examples=first.examples,
    )
    assert first.examples.violated == ((frozenset(), frozenset({"account_write"})),)
    assert first.examples.holds == (
        (frozenset({"authenticated"}), frozenset({"account_write"})),
        (frozenset(),),
    )
    assert second.formula == parse_formula("always historically (odd and large_refund -> once authenticated)")
    assert (second.title, second.severity, second.recover) == ("second", Severity.MEDIUM, Recover.BOTH)
    assert second.transitions == {"odd": parse_formula("not previous odd")}
    assert sorted(second.propositions) == ["authenticated", "large_refund"]


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("tool", SliceKey((Field("tool"),), joint=False)),
        ("[args.a, args.b]", SliceKey((Field("args", ("a",)), Field("args", ("b",))), joint=False)),
        ("[[tool, args]]", SliceKey((Field("tool"), Field("args")), joint=True)),
    ],
)
def test_for_each_is_a_path_a_list_or_a_tuple(written: str, key: SliceKey) -> None:
    """One path, the first present of several, or all of several together."""
    assert rule(f"formula: a\nfor_each: {written}").for_each == key


def test_a_rule_has_the_transitions_that_it_uses() -> None:
    """A rule has exactly the transitions and propositions that it uses, also through transitions."""
    text = SMALL.replace("a: kind", "c: nested, a: kind") + dedent(
        """\
        transitions:
          one: previous two or a
          two: previous (two and b)
          three: not previous three
        rules:
          - {id: r, formula: always one}
        """
    )
    (only,) = pack_text(text).rules
    assert sorted(only.transitions) == ["one", "two"]
    assert sorted(only.propositions) == ["a", "b"]


def test_a_packs_name_hides_the_librarys() -> None:
    """A pack's operator or proposition hides a library operator of the same name."""
    own_operator = SMALL + "operators:\n  never(p): always not p\nrules:\n  - {id: r, formula: never(a)}\n"
    assert pack_text(own_operator).rules[0].formula == parse_formula("always not a")
    named = 'pack: x\npropositions: {never: kind == "user"}\nrules:\n  - {id: r, formula: always never}\n'
    assert pack_text(named).rules[0].formula == parse_formula("always never")


def test_an_unquoted_true_is_a_formula() -> None:
    """A Boolean or a number of YAML is text in a pack."""
    text = "pack: x\npropositions: {yes: true}\nrules:\n  - {id: 1, title: 2, formula: true and yes}\n"
    (only,) = pack_text(text).rules
    assert (only.id, only.title, only.propositions) == ("1", "2", {"yes": parse_predicate("true")})


TRIGGERS = [
    ("TRL202", "a: [", (1, 5)),
    ("TRL203", "pack: x\npack: y\n", (2, 1)),
    ("TRL205", "pack: !t x\n", (1, 7)),
    ("TRL210", "version: 3\n", (1, 1)),
    ("TRL210", SMALL + "rules:\n  - id: r\n", (4, 5)),
    ("TRL211", SMALL + "ruls: []\n", (3, 1)),
    ("TRL211", SMALL + "rules:\n  - {id: r, formula: a, titel: x}\n", (4, 25)),
    ("TRL211", SMALL + "rules:\n  - {id: r, formula: a, examples: {broken: [[a]]}}\n", (4, 36)),
    ("TRL212", "- pack\n", (1, 1)),
    ("TRL212", "pack: x\nversion: 0.1\n", (2, 10)),
    ("TRL212", "pack: x\nversion: 0\n", (2, 10)),
    ("TRL212", "pack: x\nrules: none\n", (2, 8)),
    ("TRL212", "pack: x\npropositions:\n  a: [b]\n", (3, 6)),
    ("TRL212", "pack: x\npropositions:\n  a:\nrules:\n  - {id: r, formula: a}\n", (3, 3)),
    ("TRL212", "pack: x\noperators:\n  f(p): [b]\nrules:\n  - {id: r, formula: f(true)}\n", (3, 9)),
    ("TRL212", SMALL + "rules:\n  - id: r\n    formula:\n", (5, 5)),
    ("TRL212", SMALL + "rules:\n  - {id: r, formula: a, recover: [both]}\n", (4, 34)),
    ("TRL213", SMALL + "rules:\n  - {id: r, formula: a, severity: bad}\n", (4, 35)),
    ("TRL213", SMALL + "rules:\n  - {id: r, formula: a, recover: yes}\n", (4, 34)),
    ("TRL214", "pack: no name\n", (1, 7)),
    ("TRL220", SMALL + "rules:\n  - {id: r, formula: a}\n  - {id: r, formula: b}\n", (5, 10)),
    ("TRL222", SMALL + "transitions:\n  a: previous a\n", (4, 3)),
    ("TRL222", SMALL + "operators:\n  a(p): p\n", (4, 3)),
    ("TRL222", "pack: x\npropositions:\n  tracline_odd: nested\n", (3, 3)),
    ("TRL230", SMALL + "transitions:\n  t: once a\n", (4, 6)),
    ("TRL230", SMALL + "transitions:\n  t: a and eventually b\n", (4, 6)),
    ("TRL231", SMALL + "transitions:\n  t: previous t and u\n  u: a\n", (4, 6)),
    ("TRL231", SMALL + "transitions:\n  t: previous[0] t\nrules:\n  - {id: r, formula: t}\n", (4, 6)),
    ("TRL232", SMALL + "rules:\n  - {id: r, formula: a, steps: once a}\n", (4, 32)),
    ("TRL232", SMALL + "transitions:\n  t: a\nrules:\n  - {id: r, formula: a, steps: t}\n", (6, 32)),
    ("TRL233", SMALL + "rules:\n  - {id: r, formula: a, applies_to: a and next b}\n", (4, 37)),
    ("TRL234", SMALL + "rules:\n  - {id: r, formula: a, for_each: []}\n", (4, 35)),
    ("TRL234", SMALL + "rules:\n  - {id: r, formula: a, for_each: [[tool], [args]]}\n", (4, 35)),
    ("TRL234", SMALL + "rules:\n  - {id: r, formula: a, for_each: {tool: x}}\n", (4, 36)),
    ("TRL240", SMALL + "rules:\n  - {id: r, formula: a, examples: {violated: [a]}}\n", (4, 46)),
    ("TRL240", SMALL + "rules:\n  - {id: r, formula: a, examples: {holds: []}}\n", (4, 43)),
    ("TRL240", SMALL + "rules:\n  - {id: r, formula: a, examples: {holds: [[], [[a]]]}}\n", (4, 44)),
    # codes of the language, at their place in the file
    ("TRL113", "pack: x\npropositions:\n  since: nested\n", (3, 3)),
    ("TRL120", SMALL + "rules:\n  - id: r\n    formula: always (a ->\n      eventually c)\n", (6, 18)),
    ("TRL120", SMALL + "rules:\n  - {id: r, formula: a, examples: {holds: [[c]]}}\n", (4, 45)),
    ("TRL121", SMALL + "rules:\n  - {id: r, formula: nevr(a)}\n", (4, 22)),
    ("TRL123", SMALL + "operators:\n  f(p): g(p)\n  g(p): f(p)\n", (4, 9)),
    ("TRL130", "pack: x\npropositions:\n  a: >-\n    nested and\n    tol == 3\n", (5, 5)),
    ("TRL130", SMALL + "rules:\n  - {id: r, formula: a, for_each: [tool, arg.x]}\n", (4, 42)),
    ("TRL140", "pack: x\npropositions:\n  a: text matches /(/\n", (3, 19)),
]


@pytest.mark.parametrize(("code", "text", "location"), TRIGGERS)
def test_each_error_has_its_code_and_location(code: str, text: str, location: tuple[int, int]) -> None:
    """Every error has a code, its line and column, and a hint."""
    found = problems(text)
    assert [problem.code for problem in found] == [code]
    assert found[0].location is not None
    assert (found[0].location.source, found[0].location.line, found[0].location.column) == (
        "x.yaml",
        *location,
    )
    assert found[0].hint


def test_every_code_of_packs_is_triggered() -> None:
    """A test triggers every code of packs (others: files, test_extend.py, test_use.py, test_cases.py)."""
    pack_codes = {code for code in CODES if re.fullmatch(r"TRL2\d\d", code)}
    elsewhere = {"TRL201", "TRL204", *(f"TRL22{digit}" for digit in "134567"), "TRL241", "TRL242", "TRL243"}
    assert pack_codes == {code for code, *_ in TRIGGERS if code.startswith("TRL2")} | elsewhere


def test_all_errors_come_at_once_in_the_order_of_the_file() -> None:
    """One load reports the errors of structure, of names and of every expression."""
    text = dedent(
        """\
        pack: x
        propositions:
          a: kind == "usr"
          b: tool ==
          c: nested
        rules:
          - id: one
            formula: always (cc -> a)
            severity: bad
          - id: two
            formula: a until
            for_each: nowhere.x
          - formula: c
        """
    )
    found = problems(text)
    assert [problem.code for problem in found] == [
        "TRL132",
        "TRL102",
        "TRL120",
        "TRL213",
        "TRL102",
        "TRL130",
        "TRL210",
    ]
    locations = [(problem.location.line, problem.location.column) for problem in found if problem.location]
    assert locations == sorted(locations)


def test_an_invalid_field_hides_no_other_error() -> None:
    """An error in one field of a rule does not hide errors in other fields or in the rest of the pack."""
    text = SMALL + dedent(
        """\
        rules:
          - id: keyed
            formula: one
            for_each: {a: b}
            steps: next a
          - formula: two
          - id: no name
            formula: three
          - id: listed
            formula: [a, b]
            steps: four
          - id: none
            applies_to: five
            examples: {violated: 3, holds: [[six]]}
        """
    )
    found = [(problem.code, problem.location.line) for problem in problems(text) if problem.location]
    assert found == [
        ("TRL120", 5),
        ("TRL234", 6),
        ("TRL232", 7),
        ("TRL210", 8),
        ("TRL120", 8),
        ("TRL214", 9),
        ("TRL120", 10),
        ("TRL212", 12),
        ("TRL120", 13),
        ("TRL210", 14),
        ("TRL120", 15),
        ("TRL240", 16),
        ("TRL120", 16),
    ]


def test_a_duplicate_key_hides_no_other_error() -> None:
    """A duplicate key is reported with every other error."""
    text = SMALL + "rules:\n  - id: r\n    id: s\n    formula: one\n    steps: two\n"
    assert [problem.code for problem in problems(text)] == ["TRL203", "TRL120", "TRL120"]


@pytest.mark.parametrize(
    ("written", "message"), [("0", "invalid version `0`"), ("[1]", "`version` cannot be a list")]
)
def test_invalid_versions(written: str, message: str) -> None:
    """The message has the written version, and the hint the valid ones."""
    (problem,) = problems(f"pack: x\nversion: {written}\n")
    assert problem.message == message
    assert "from 1" in problem.hint


def test_previous_0_is_the_current_event() -> None:
    """`previous[0]` of a proposition is its current value, which a transition may use."""
    (only,) = pack_text(SMALL + "transitions: {t: 'previous[0] a'}\nrules: [{id: r, formula: t}]\n").rules
    assert compile_rule(only).next


def test_files_folders_and_shipped_names(tmp_path: Path) -> None:
    """A path is a file, a folder of packs, or the name of a shipped pack; duplicates are read once."""
    (tmp_path / "b.yaml").write_text("pack: b\nrules: []\n")
    (tmp_path / "a.yml").write_text(SMALL + "rules:\n  - {id: r, formula: always a}\n")
    (tmp_path / "note.txt").write_text("no pack")
    (tmp_path / ".b.yaml").write_text("an editor's leftover: [")
    rules = load_packs([tmp_path, tmp_path / "b.yaml", "tool-hygiene"])
    assert list(rules.sources) == ["b", "small", "tool-hygiene"]
    assert rules.sources["b"] == "pack: b\nrules: []\n"
    assert rules.rules[0].pack == "small"
    assert [rule.pack for rule in rules.rules] == sorted(rule.pack for rule in rules.rules)


@pytest.mark.parametrize("name", shipped_packs())
def test_shipped_packs_load(name: str) -> None:
    """Every shipped pack loads under the name of its file."""
    assert list(load_packs([name]).sources) == [name]


def test_errors_of_files(tmp_path: Path) -> None:
    """Missing, unreadable, oversized and duplicate packs are reported together; valid ones are read."""
    (tmp_path / "latin.yaml").write_bytes(b"pack: caf\xe9\n")
    (tmp_path / "large.yaml").write_text("# " + "x" * 4_100_000)
    (tmp_path / "one.yaml").write_text(SMALL)
    (tmp_path / "two.yaml").write_text(SMALL)
    (tmp_path / "empty").mkdir()
    packs = read_packs([tmp_path, tmp_path / "empty", "custmer-service", "none.yaml"])
    assert sorted(problem.code for problem in packs.errors) == ["TRL201"] * 4 + ["TRL204", "TRL221"]
    assert list(packs.documents) == ["small"]
    message = "\n".join(map(str, packs.errors))
    assert "invalid UTF-8 at byte 10" in message
    assert "did you mean `customer-service`?" in message


def test_packs_without_a_name_do_not_share_one(tmp_path: Path) -> None:
    """A pack without a valid name has its file's name, so two of them are distinct."""
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text("pack: no name\n")
    packs = read_packs(tmp_path)
    assert [problem.code for problem in packs.errors] == ["TRL214", "TRL214"]
    assert list(packs.documents) == [str(tmp_path / "one.yaml"), str(tmp_path / "two.yaml")]


def test_sources_load_as_the_same_rule_set(tmp_path: Path) -> None:
    """`sources` loads as the same rule set, in the same order."""
    (tmp_path / "named-otherwise.yaml").write_text(SMALL + "rules: [{id: r, formula: always a}]\n")
    rule_set = load_packs([tmp_path, "privacy", "customer-service"])
    assert load_texts(dict(reversed(rule_set.sources.items()))) == rule_set


def test_stored_texts_report_all_their_problems() -> None:
    """Every invalid pack is reported by its stored name, and so is one of another name."""
    with pytest.raises(RuleError) as caught:
        load_texts({"first": "rules: [", "second": "pack: third\n"})
    assert [problem.code for problem in caught.value.problems] == ["TRL202", "TRL221"]
    assert [problem.location.source for problem in caught.value.problems if problem.location] == [
        "first",
        "second",
    ]


def test_one_path_needs_no_list(tmp_path: Path) -> None:
    """A single path, as text or as a `Path`, is that pack."""
    file = tmp_path / "small.yaml"
    file.write_text(SMALL + "rules: [{id: r, formula: always a}]\n")
    assert load_packs(str(file)) == load_packs(file) == load_packs([file])
    assert list(load_packs("privacy").sources) == ["privacy"]


def test_no_path_is_an_error() -> None:
    """Loading nothing is an error."""
    with pytest.raises(RuleError, match="TRL201"):
        load_packs([])


@pytest.mark.parametrize("call", ["never(a)", "never (a)", "never\n      (a)"])
def test_the_library_is_loaded_for_packs_that_call_it(call: str) -> None:
    """The library is loaded for any spelling of a call."""
    (only,) = pack_text(SMALL + f"rules:\n  - id: r\n    formula: always {call}\n").rules
    assert only.formula == parse_formula("always historically not a")


def test_hints_know_the_librarys_operators() -> None:
    """The hint for a misspelt call names the nearest operator of the library."""
    (problem,) = problems(SMALL + "rules:\n  - {id: r, formula: always nver(a)}\n")
    assert "`never`" in problem.hint


def test_a_valid_pack_loads_no_diagnosis() -> None:
    """Reading a valid pack without calls of the library loads neither the diagnosis nor the library."""
    code = (
        "from sys import modules; from tracline.rules.packs import load as it; it.load_packs('privacy'); "
        "print('tracline.rules.language.errors.syntax_errors' in modules, it._library.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False 0\n"


def test_the_json_schema_is_current() -> None:
    """The schema file for editors is generated from the current models."""
    assert SCHEMA_FILE.read_text("utf-8") == json_schema(), "run make generated"
