"""The language manual, executed: every block and table of docs/language.md is tested."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tracline.rules import Monitor
from tracline.rules.compiler.compile import compile_formula, compile_rule
from tracline.rules.compiler.limits import DEFAULT, TABLE_LETTERS_MAX
from tracline.rules.engine.letters import required_propositions
from tracline.rules.labels.labeler import Labeler
from tracline.rules.language.expression_limits import BOUND_MAX, DEPTH_MAX, NODES_MAX, TEXT_CHARS_MAX
from tracline.rules.language.operators import parse_operators
from tracline.rules.language.parse import parse_formula, parse_predicate
from tracline.rules.model import path_limits, predicate_limits
from tracline.rules.model.formula import evaluate_boolean
from tracline.rules.model.keywords import RESERVED
from tracline.rules.model.machine import APPLIES
from tracline.rules.model.printer import to_text
from tracline.rules.model.problem import RuleError, Snippet
from tracline.rules.model.regex_limits import REGEX_CHARS_MAX
from tracline.rules.model.rule import Rule, RuleSet
from tracline.rules.packs.examples.event_examples import run_propositions
from tracline.rules.packs.examples.label_examples import run_examples
from tracline.rules.packs.inheritance import PARENTS_MAX
from tracline.rules.packs.load import REFERRED_MAX, pack_text, read_packs
from tracline.rules.packs.yaml import document as document
from tracline.rules.reference.slow_stepper import SteppedEvent, judge_slowly
from tracline.schemas.verdict import Unknown

from ..support.truth.predicate_answers import answers, evaluate, event_rows
from ..support.truth.table_witness import table_witnesses

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block: its info string, its lines, and its first line in the manual."""

    info: str
    lines: tuple[str, ...]
    line: int


def _blocks() -> list[Block]:
    found: list[Block] = []
    for match in re.finditer(r"^```(\S.*)\n((?:(?!```).*\n)*)^```$", MANUAL, re.MULTILINE):
        line = MANUAL[: match.start()].count("\n") + 1
        found.append(Block(match[1], tuple(match[2].splitlines()), line))
    return found


BLOCKS = _blocks()
FENCES = MANUAL.count("\n```") // 2


def each(kind: str) -> pytest.MarkDecorator:
    """Run for every block of the kind; the id is its line in the manual."""
    chosen = [block for block in BLOCKS if block.info.split()[0] == kind]
    return pytest.mark.parametrize("block", chosen, ids=[f"line-{block.line}" for block in chosen])


def test_every_block_of_the_manual_is_run() -> None:
    """A test runs every kind of block, and every block is found."""
    kinds = [block.info.split()[0] for block in BLOCKS]
    assert set(kinds) == {"yaml", "label", "trace", "same", "error", "session", "witness"}
    assert len(kinds) == FENCES
    assert kinds.count("trace") >= 25


@each("trace")
def test_a_trace_gets_the_verdicts_that_the_manual_shows(block: Block) -> None:
    """The lines are `propositions | verdict`; `-` is an event without any; `close` ends the session."""
    options = dict(line.split(": ") for line in block.lines if line.startswith("recover: "))
    formula, *steps = [line for line in block.lines if not line.startswith("recover: ")]
    monitor = Monitor(formula, **options)
    for step in steps:
        labels, expected = (part.strip() for part in step.split("|"))
        if labels == "close":
            assert monitor.close() == expected
        else:
            true = {name.strip() for name in labels.split(",")} - {"-"}
            assert monitor.step(true) == expected, step


@each("same")
def test_formulas_that_the_manual_calls_the_same_are_equal(block: Block) -> None:
    """All lines of the block parse to equal formulas."""
    assert len({parse_formula(line) for line in block.lines}) == 1
    assert len(block.lines) > 1


@pytest.mark.slow
@each("label")
def test_a_condition_gets_the_value_that_the_manual_shows(block: Block) -> None:
    """The block has an event as JSON, then `predicate => true, false or unknown`."""
    answers = {"true": True, "false": False, "unknown": None}
    event: Mapping[str, object] = {}
    for line in filter(None, block.lines):
        if line.startswith("{"):
            event = _event(line)
            continue
        question, answer = line.rsplit("=>", 1)
        assert evaluate(parse_predicate(question), event) is answers[answer.strip()], line


@each("error")
def test_a_mistake_gets_the_error_that_the_manual_shows(block: Block) -> None:
    """The block has `formula:` or `predicate:`, then the exact message."""
    lines = list(block.lines)
    pairs: list[tuple[Snippet, Snippet]] = []
    while lines[0].startswith("operators: "):
        head, body = lines.pop(0).removeprefix("operators: ").split("): ", 1)
        pairs.append((Snippet(f"{head})"), Snippet(body)))
    operators, _ = parse_operators(pairs)
    kind, text = lines[0].split(": ", 1)
    read: dict[str, Callable[[str], object]] = {
        "formula": lambda text: parse_formula(text, operators=operators),
        "predicate": parse_predicate,
    }
    with pytest.raises(RuleError) as caught:
        read[kind](text)
    assert str(caught.value) == "\n".join(lines[1:])


@each("yaml")
def test_the_examples_of_the_manuals_packs_pass(block: Block, tmp_path: Path) -> None:
    """Every pack is accepted, and the examples of its rules and propositions pass."""
    file = tmp_path / "pack.yaml"
    file.write_text("\n".join(block.lines), "utf-8")
    assert [run for run in run_propositions(read_packs(file).propositions) if not run.passed] == []
    for rule in _pack(block).rules:
        runs = list(run_examples(rule, compile_rule(rule)))
        assert {run.expected for run in runs} == {"violated", "holds"}
        assert [run for run in runs if not run.passed] == []


@each("session")
def test_a_session_gets_the_verdicts_that_the_manual_shows(block: Block) -> None:
    """The block has events as JSON, each with its verdicts of a rule of the pack above or the named one."""
    expected: list[tuple[int | str, str]] = []
    events: list[dict[str, Any]] = []
    for line in block.lines:
        if line.startswith("{"):
            events.append(_event(line))
        elif line.startswith("close => "):
            expected.append(("close", line.removeprefix("close => ")))
        else:
            expected.append((len(events) - 1, line.removeprefix("=> ")))
    rule, rule_set = _rule(block)
    outcome = judge_slowly(
        compile_rule(rule), _seen(rule, rule_set, events), sliced=rule.for_each is not None
    )
    found: list[tuple[int | str, str]] = [
        (finding.at, _finding(finding.verdict, finding.slice)) for finding in outcome.findings
    ]
    found += [("close", _finding(finding.verdict, finding.slice)) for finding in outcome.closing]
    assert found == expected


@each("witness")
def test_a_verdict_gets_the_witness_that_the_manual_shows(block: Block) -> None:
    """The block has a formula, the propositions at each event, then the witness of the last verdict.

    `event N | true there | residual`; for a past condition, its text, its value and the event, or `-`.
    """
    formula, *lines = block.lines
    steps = [line for line in lines if "|" not in line]
    labels = [{name.strip() for name in step.split(",")} - {"-"} for step in steps]
    rule = Rule("p", "r", "", parse_formula(formula), formula, {})
    found = table_witnesses(rule, compile_rule(rule), labels, [len(labels) - 1])[len(labels) - 1]
    shown = [
        f"event {step_event.place + 1} | {', '.join(step_event.true) or '-'} | {step_event.residual}"
        for step_event in found.events
    ]
    for bit in found.history:
        event = "-" if bit.place is None else f"event {bit.place + 1}"
        shown.append(f"{bit.formula} | {str(bit.value).lower()} | {event}")
    assert shown == [line for line in lines if "|" in line]


@pytest.mark.slow
def test_the_tables_of_comparisons_are_right() -> None:
    """Every cell of the tables under "How values compare": `yes` is true, `no` is false, none is unknown."""
    cells = 0
    for field, kind in (("args", "tool_call"), ("result", "tool_result")):
        for rows in _tables(f"`{field}` is"):
            conditions = [parse_predicate(cell.strip("`")) for cell in rows[0][1:]]
            matches = [re.match(r"`(.*?)`( \(broken\))?$", first) for first, *_ in rows[2:]]
            events = [{"kind": kind, "tool": "t", field: written[1]} for written in matches if written]
            found = answers(conditions, event_rows(events))
            for (first, *expected), *given in zip(rows[2:], *found, strict=True):
                assert given == [{"yes": True, "no": False}[cell] for cell in expected], first
                cells += len(given)
    print(f"the manual: {cells} answers in tables")
    assert cells >= 300


def test_words_and_signs_of_the_table_are_the_same_operators() -> None:
    """Words and signs in one row of the table parse to the same formula."""
    for _, words, signs in _table("", "words", "letters and signs")[2:]:
        groups = zip(words.split(" · "), signs.split(" · "), strict=False)
        for word, group in groups:
            for sign in re.findall(r"`(.*?)`", group.replace("\\|", "|")):
                word_text = re.findall(r"`(.*?)`", word)[0].replace("[k]", "[3]")
                assert parse_formula(sign) == parse_formula(word_text)
                assert to_text(parse_formula(sign)) == to_text(parse_formula(word_text))


def test_the_words_and_limits_are_those_of_the_language() -> None:
    """The list of reserved words is complete, and the limits have their values."""
    section = MANUAL.split("## Reserved words")[1].split("A name starts")[0]
    assert set(re.findall(r"`(\w+)`", section)) == RESERVED
    limits = [int(cell.replace(",", "")) for _, cell in _table("limit", "value")[2:]]
    of_files = [document.TEXT_CHARACTERS_MAX, document.NODES_MAX, document.DEPTH_MAX, document.ALIASES_MAX]
    assert limits == [TEXT_CHARS_MAX, DEPTH_MAX, BOUND_MAX, NODES_MAX, *of_files, PARENTS_MAX, REFERRED_MAX]


def test_the_limits_of_predicates_are_those_of_the_engine() -> None:
    """The table has every limit of predicates and slices with its value."""
    values = [int(cell.replace(",", "")) for _, cell in _table("limit of a predicate", "value")[2:]]
    assert values == [
        predicate_limits.LEAVES_MAX,
        predicate_limits.MEMBERS_MAX,
        predicate_limits.LITERAL_CHARS_MAX,
        REGEX_CHARS_MAX,
        path_limits.PATH_STEPS_MAX,
        predicate_limits.LISTS_MAX,
        path_limits.KEY_CHARS_MAX,
        predicate_limits.SLICE_PATHS_MAX,
    ]


def test_the_limits_of_machines_are_those_of_the_compiler() -> None:
    """The table has every limit of the compiler with its value, by the name that the error gives it."""
    rows = _table("limit of a machine", "value")[2:]
    values = [int(cell.replace(",", "")) for _, cell in rows]
    assert values == [*astuple(DEFAULT), TABLE_LETTERS_MAX]
    sources = "".join(path.read_text("utf-8") for path in sorted((ROOT / "rules/compiler").glob("*.py")))
    named = set(re.findall(r'exceeded\([^,()]+, "(.+?)"', sources))
    assert named == {name for cell, _ in rows for name in re.findall(r"`(.+?)`", cell) if name != "next"}


def test_a_left_side_about_the_future_applies_from_the_first_event() -> None:
    """The rule under `applies_to` applies at once; a rule about the present does not."""
    for text, applies in (("always (eventually refund -> once agrees)", True), ("always (a -> F b)", False)):
        assert f"`{text}`" in MANUAL or not applies
        machine = compile_formula(parse_formula(text))
        assert bool(machine.step(0, machine.word(()))[1] & APPLIES) == applies


def test_the_manuals_table_of_fields_is_complete() -> None:
    """The table has exactly the fields of predicates."""
    from tracline.rules.model.fields import FIELDS

    named = [re.findall(r"`(\w+)`", row[0]) for row in _table("field", "holds")[2:]]
    assert sorted(name for names in named for name in names) == sorted(FIELDS)


def test_links_inside_the_manual_have_targets() -> None:
    """Every `#anchor` is a heading."""
    anchors = {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", MANUAL, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#(.*?)\)", MANUAL)) <= anchors


def _table(*header: str) -> list[list[str]]:
    """Return the rows, as cells, of the first table with these first header cells."""
    return _tables(*header)[0]


def _tables(*header: str) -> list[list[list[str]]]:
    """Return the rows, as cells, of each table with these first header cells."""
    tables: list[list[list[str]]] = []
    inside = False
    for line in MANUAL.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
        if not inside and cells and tuple(cells[: len(header)]) == header:
            tables.append([])
            inside = True
        inside = inside and bool(cells)
        if inside:
            tables[-1].append(cells)
    assert tables, f"no table begins with {header}"
    return tables


def _event(line: str) -> dict[str, Any]:
    """Return the event of a line of JSON, whose `args` and `result` may be JSON values instead of text."""
    event: dict[str, Any] = json.loads(line)
    for name in ("args", "result"):
        if name in event and not isinstance(event[name], str):
            event[name] = json.dumps(event[name])
    return event


def _pack(block: Block) -> RuleSet:
    return pack_text("\n".join(block.lines) + "\n")


def _rule(block: Block) -> tuple[Rule, RuleSet]:
    """Return the rule that a session block names, of the nearest pack above it or of the named one."""
    _, rule_id, *rest = block.info.split()
    packs = [_pack(each) for each in BLOCKS if each.info.startswith("yaml") and each.line < block.line]
    chosen = [pack for pack in packs if pack.rules[0].pack == rest[1]] if rest else packs[-1:]
    (rule,) = [rule for rule in chosen[0].rules if rule.id == rule_id]
    return rule, chosen[0]


def _seen(rule: Rule, rule_set: RuleSet, events: Sequence[Mapping[str, Any]]) -> list[SteppedEvent]:
    """Return the events as the rule sees them."""
    keys = Labeler(RuleSet((rule,), rule_set.sources))
    slices = keys.label(event_rows(events).lazy()).collect().to_dicts()
    seen: list[SteppedEvent] = []
    for event, columns in zip(events, slices, strict=True):
        answers = {name: evaluate(predicate, event) for name, predicate in rule.propositions.items()}
        true = frozenset(name for name, answer in answers.items() if answer)
        unknown = frozenset(name for name, answer in answers.items() if answer is None)
        stepped = SteppedEvent(true, value=columns.get("s0"), value_unknown=bool(columns.get("su0")))
        readings = _readings(rule, true, unknown)
        if rule.unknown is Unknown.FOLLOW:
            seen.append(replace(stepped, readings=readings))
            continue
        passes = {reading is not None for reading in readings}
        seen.append(
            replace(
                stepped,
                steps=passes.pop() if len(passes) == 1 else None,
                unknown=bool(unknown & required_propositions(rule)),
            )
        )
    return seen


def _readings(rule: Rule, true: frozenset[str], unknown: frozenset[str]) -> tuple[frozenset[str] | None, ...]:
    """Return the true propositions of each completion, None where `steps` does not include the event."""
    cases = [
        true.union(subset)
        for size in range(len(unknown) + 1)
        for subset in combinations(sorted(unknown), size)
    ]
    return tuple(case if rule.steps is None or evaluate_boolean(rule.steps, case) else None for case in cases)


def _finding(verdict: str, value: str | None) -> str:
    return verdict if value is None else f"{verdict}, slice {value}"
