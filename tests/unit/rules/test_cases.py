"""Examples that are events or texts: cases of rules, and examples of propositions."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.rules.model.digest import rule_digest
from tracline.rules.model.problem import Problem, RuleError
from tracline.rules.packs.load import load_packs, load_texts, pack_text, read_packs

PACK = """\
pack: desk
propositions:
  agrees:
    is: kind == "user" and text matches /(?i)\\b(yes|sure)\\b/
    true: [Yes please, "I'm sure: go on", {kind: user, text: 'YES', nested: true}]
    false: [no, {kind: assistant, text: 'yes'}]
  refund: {is: kind == "tool_call" and tool == "refund" and args.amount > 100}
rules:
  - id: ask-first
    formula: always (refund -> once agrees)
    examples:
      violated:
        - [[refund], [agrees]]
        - {events: cases/hasty.jsonl}
      holds: [{events: cases/asked.jsonl}]
  - id: once-an-order
    formula: always (refund -> at_most[1] refund)
    for_each: args.order
    examples:
      violated: [{events: cases/hasty.jsonl}]
      holds: [{events: cases/asked.jsonl}]
"""

HASTY = [
    {"kind": "user", "text": "my money!"},
    {"kind": "tool_call", "tool": "refund", "args": {"amount": "200", "order": "A"}},
    {"kind": "tool_result", "tool": "refund", "result": "ok"},
    {"kind": "tool_call", "tool": "refund", "args": {"amount": 300, "order": "A"}},
]
ASKED = [
    {"kind": "user", "text": "yes", "time": "2026-02-17T08:00:00Z"},
    {"kind": "tool_call", "tool": "refund", "args": '{"amount": 200, "order": "A"}', "seq": 2},
    {"kind": "tool_call", "tool": "refund", "args": {"amount": 200, "order": "B"}},
]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Return the folder of the pack, with its cases."""
    (tmp_path / "desk.yaml").write_text(PACK)
    (tmp_path / "cases").mkdir()
    for name, events in (("hasty", HASTY), ("asked", ASKED)):
        put(tmp_path, name, "".join(json.dumps(event) + "\n" for event in events))
    return tmp_path


def put(folder: Path, name: str, text: str) -> None:
    """Write a case."""
    (folder / "cases" / f"{name}.jsonl").write_text(text)


def outcome(folder: Path, *more: str) -> Result:
    """Run `tracline test`."""
    return CliRunner().invoke(tracline, ["test", str(folder / "desk.yaml"), *more])


def problems(text: str) -> list[Problem]:
    """Return the problems of a pack."""
    with pytest.raises(RuleError) as caught:
        pack_text(text)
    return list(caught.value.problems)


def test_cases_run_through_the_propositions_the_slices_and_the_machines(desk: Path) -> None:
    """Label lists, events and texts pass together."""
    found = outcome(desk)
    assert found.exit_code == 0, found.output
    assert found.output.splitlines() == [
        "desk/ask-first      2 violated, 1 holds  ok",
        "desk/once-an-order  1 violated, 1 holds  ok",
        "desk/agrees         3 true, 2 false  ok",
        "2 rules, 1 proposition, 10 examples, 0 failed",
    ]


def test_a_wrong_proposition_fails_its_cases_and_its_texts(desk: Path) -> None:
    """Label lists alone would pass."""
    wrong = PACK.replace("(yes|sure)", "(yes|sure|no|money)").replace("amount > 100", "amont > 100")
    (desk / "desk.yaml").write_text(wrong)
    found = outcome(desk)
    assert found.exit_code == 1
    assert "example 2 under `violated` (cases/hasty.jsonl) should be violated, but holds" in found.output
    assert '"no" should be false, but is true: kind == "user" and text matches' in found.output
    assert found.output.splitlines()[-1] == "2 rules, 1 proposition, 10 examples, 3 failed"


def test_a_case_that_cannot_be_judged_fails_with_the_reason(desk: Path) -> None:
    """A field that was not captured is no pass."""
    absent = [{"kind": "tool_call", "tool": "refund", "content": "absent"}]
    put(desk, "asked", json.dumps(absent[0]))
    found = outcome(desk, "--select", "ask-first")
    assert found.exit_code == 1
    assert "`holds` (cases/asked.jsonl) cannot be judged: arguments not captured" in found.output


@pytest.mark.slow
def test_selected_rules_run_their_own_propositions(desk: Path) -> None:
    """`--select` leaves out the propositions that no selected rule uses."""
    assert "desk/agrees" not in outcome(desk, "--select", "once-an-order").output
    assert "desk/agrees" in outcome(desk, "--select", "ask-first").output


@pytest.mark.slow
def test_other_formats_have_cases_and_propositions(desk: Path) -> None:
    """JSON has the path of a case, JUnit a case for each example."""
    answer = json.loads(outcome(desk, "--format", "json").stdout)
    assert (answer["examples"], answer["failed"]) == (10, 0)
    (hasty, _) = [trial for trial in answer["trials"] if trial.get("events") == "cases/hasty.jsonl"]
    assert [step["verdict"] for step in hasty["steps"]] == ["pending", "violated", "pending", "violated"]
    assert [step["true"] for step in hasty["steps"]] == [[], ["refund"], [], ["refund"]]
    assert [(row["text"], row["value"]) for row in answer["propositions"]][:1] == [("Yes please", True)]
    root = ElementTree.fromstring(outcome(desk, "--format", "junit").stdout)
    assert [suite.get("tests") for suite in root] == ["10"]


def test_examples_change_no_digest_and_stored_packs_need_no_cases(desk: Path) -> None:
    """A rule with `is` has the digest of the plain condition; the texts of a pack load without its files."""
    loaded = load_packs(desk / "desk.yaml")
    head, _, rest = PACK.partition("  agrees:\n")
    condition = rest.split("\n")[0].partition("is: ")[2]
    plain = f"{head}  agrees: {condition}\n  refund: {rest.partition('refund: {is: ')[2].replace('}', '', 1)}"
    bare = "\n".join(line for line in plain.splitlines() if "events" not in line)
    bare = bare.removesuffix("    examples:\n      violated: ").removesuffix("\n    examples:")
    assert [rule_digest(rule) for rule in pack_text(bare).rules] == [rule_digest(r) for r in loaded.rules]
    for file in (desk / "cases").iterdir():
        file.unlink()
    assert load_texts(loaded.sources).rules == load_packs(desk / "desk.yaml").rules == loaded.rules


@pytest.mark.slow
def test_inherited_propositions_are_tried_in_their_own_pack_only(desk: Path) -> None:
    """Cases of inherited rules are beside the parent."""
    (desk / "below").mkdir()
    (desk / "below" / "shop.yaml").write_text("pack: shop\nextends: ../desk.yaml\n")
    assert read_packs(desk / "below" / "shop.yaml").propositions == ()
    found = CliRunner().invoke(tracline, ["test", str(desk / "below" / "shop.yaml")])
    assert found.exit_code == 0, found.output
    assert "shop/ask-first      2 violated, 1 holds  ok" in found.output


# ---- errors


def test_a_missing_case_is_an_error_at_the_line_that_names_it(desk: Path) -> None:
    """Each place that names it, in the pack."""
    (desk / "cases" / "asked.jsonl").unlink()
    found = outcome(desk)
    assert found.exit_code == 2
    assert f"{desk / 'desk.yaml'}:15:24: TRL241 no file `cases/asked.jsonl` beside the pack" in found.stderr
    assert f"{desk / 'desk.yaml'}:21:24: TRL241" in found.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no events"),
        ("{", "is not JSON"),
        ("[]", "is not an object"),
        ('{"kind": "end"}', "has no `kind` among user, assistant"),
        ('{"kind": "user", "secret words": 1}', "has no field `secret words`"),
        ('{"kind": "user", "text": 1}', "has a `text` that is no text"),
        ('{"kind": "user", "nested": 1}', "has a `nested` that is neither"),
        ('{"kind": "user", "time": "soon"}', "has a `time` that is no time"),
        ('{"kind": "user", "content": "lost"}', "has no `content` among captured"),
        ('{"kind": "user", "attributes": []}', "has `attributes` that are not texts"),
        ("\n" * 5 + "[" * 10_000, "hasty.jsonl:6:1: TRL242 the event is not JSON"),
    ],
)
def test_an_invalid_case_is_an_error_at_its_line(desk: Path, text: str, words: str) -> None:
    """The error does not show the line, which may be a customer's."""
    put(desk, "hasty", text)
    found = outcome(desk)
    assert found.exit_code == 2
    assert words in found.stderr
    assert "soon" not in found.stderr


def test_a_case_is_limited(desk: Path) -> None:
    """In bytes and in events; it is UTF-8."""
    put(desk, "hasty", '{"kind": "user"}\n' * 10_001)
    assert "more than 10,000 events" in outcome(desk).stderr
    put(desk, "hasty", " " * 4_000_001)
    assert "more than 4,000,000 bytes" in outcome(desk).stderr
    (desk / "cases" / "hasty.jsonl").write_bytes(b"\xff")
    assert "is not UTF-8" in outcome(desk).stderr


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x.jsonl", "a/../../x.jsonl", "x.json", "a//x.jsonl", "~"]
)
def test_a_case_is_below_the_folder_of_its_pack(path: str) -> None:
    """A pack cannot have any other file read."""
    text = PACK.replace("cases/asked.jsonl", path, 1)
    assert [problem.code for problem in problems(text)] in (["TRL241"], ["TRL240"])


@pytest.mark.parametrize(
    ("examples", "code", "words"),
    [
        ("true: [{kind: robot}]", "TRL242", "has no `kind`"),
        ("true: [{text: hello}]", "TRL242", "has no `kind`"),
        ("true: yes", "TRL212", "`true` cannot be a single value"),
        ("true: [[yes]]", "TRL240", "neither a text nor an event"),
        ("ture: [yes]", "TRL211", "unknown field `ture` in the proposition `p`"),
    ],
)
def test_an_invalid_example_of_a_proposition_is_reported(examples: str, code: str, words: str) -> None:
    """At its place, with the fields that there are."""
    found = problems(f'pack: x\npropositions:\n  p:\n    is: text contains "a"\n    {examples}\n')
    assert [problem.code for problem in found] == [code]
    assert words in found[0].message
    assert found[0].location is not None
    assert found[0].location.line == 5


def test_a_text_is_no_example_of_a_proposition_that_reads_none() -> None:
    """It would pass under `false` whatever the proposition means."""
    text = 'pack: x\npropositions:\n  p: {is: tool == "pay", false: [hello]}\n'
    assert [problem.code for problem in problems(text)] == ["TRL243"]


def test_a_proposition_with_examples_needs_a_condition() -> None:
    """Without `is` its name is known: formulas cause no further errors."""
    text = "pack: x\npropositions:\n  p: {true: [a]}\nrules: [{id: r, formula: always not p}]\n"
    (problem,) = problems(text)
    assert (problem.code, problem.message) == ("TRL210", "missing field `is` in the proposition `p`")


@pytest.mark.parametrize("examples", ["violated: []", "violated: [[[]], []]", "holds: []"])
def test_an_example_without_steps_is_named_as_such(examples: str) -> None:
    """The message is on the empty list, and not on the forms of an example."""
    text = (
        f"pack: p\npropositions: {{a: late}}\nrules:\n  - {{id: r, formula: a, examples: {{{examples}}}}}\n"
    )
    with pytest.raises(RuleError) as refused:
        pack_text(text)
    assert [problem.message for problem in refused.value.problems] == ["an example has no steps"]
