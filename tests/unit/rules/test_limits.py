"""Too large parts of a pack are refused by name, before a parser that recurses or an endless search."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tracline.rules.compiler import compile as compiling
from tracline.rules.compiler import limits
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.compiler.limits import FOLLOWED_STATES_MAX, CompilerLimits, Work
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.engine.monitor import Monitor
from tracline.rules.labels.labeler import Labeler
from tracline.rules.language.parse import parse_formula
from tracline.rules.lint.check import check
from tracline.rules.lint.satisfiability import STEPS_MAX, satisfiable_with_steps
from tracline.rules.model.predicate import And
from tracline.rules.model.problem import RuleError
from tracline.rules.model.rule import Rule
from tracline.rules.packs.load import pack_text
from tracline.schemas.event import Event, Kind
from tracline.schemas.frames.events import event_frame
from tracline.schemas.verdict import Unknown

TRACLINE = Path(sys.executable).with_name("tracline")


def pack(predicate: str = 'kind == "user"', formula: str = "always p", extra: str = "") -> str:
    """Return a pack of one proposition and one rule."""
    head = f"pack: x\npropositions:\n  p: >-\n    {predicate}\n"
    return f"{head}rules:\n  - id: r\n    formula: >-\n      {formula}\n{extra}"


HOSTILE = [
    ("TRL145", pack("args" + ".a" * 10_000 + " == 1")),
    ("TRL145", pack("args" + "[1]" * 128 + " == 1")),
    ("TRL145", pack(extra="    for_each: args" + ".a" * 10_000 + "\n")),
    ("TRL145", pack('args["' + "a" * 1_001 + '"] == 1')),
    ("TRL145", pack('attributes["' + "a" * 1_001 + '"] == "x"')),
    ("TRL142", pack("""args["it's Bob's"] == 1""")),
    ("TRL147", pack(extra=f"    for_each: [{', '.join(f'args.a{i}' for i in range(51))}]\n")),
    ("TRL147", pack(extra=f"    for_each: [[{', '.join(f'args.a{i}' for i in range(51))}]]\n")),
    ("TRL143", pack(" or ".join(f'text contains "{i}"' for i in range(501)))),
    ("TRL144", pack("args.a in [" + ", ".join(map(str, range(1_001))) + "]")),
    ("TRL146", pack('text contains "' + "a" * 4_097 + '"')),
    ("TRL151", pack("not " * 3_000 + "nested")),
    ("TRL151", pack(formula="next " * 3_000 + "p")),
    ("TRL151", pack(formula=" and ".join(["p"] * 3_000))),
    ("TRL141", pack("text matches /((a{1000}){1000})/")),
    ("TRL140", pack("text matches /" + "(" * 1_000 + "a" + ")" * 1_000 + "/")),
    ("TRL204", "a: " + "[" * 100_000 + "]" * 100_000),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "text"), HOSTILE, ids=[f"{i} {code}" for i, (code, _) in enumerate(HOSTILE)]
)
def test_what_yamls_parser_could_not_take_is_refused(code: str, text: str) -> None:
    """The error names the limit, and what to do instead."""
    with pytest.raises(RuleError) as caught:
        pack_text(text)
    assert code in {problem.code for problem in caught.value.problems}
    assert all(problem.hint for problem in caught.value.problems)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pack("args" + ".a" * 127 + " == 1"),
        pack('args["' + "a" * 1_000 + '"] == 1'),
        pack(" or ".join(f'text contains "{i}"' for i in range(500))),
        pack("args.a in [" + ", ".join(map(str, range(1_000))) + "]"),
    ],
    ids=["steps", "key", "questions", "members"],
)
def test_what_is_within_the_limits_is_labelled(text: str) -> None:
    """The largest that is accepted can be planned and asked, of many events and of few."""
    labels = Labeler(pack_text(text))
    events = event_frame([Event("s", 0, 0, 1, Kind.TOOL_CALL, args='{"a": 1}')])
    assert labels.label(events.lazy()).collect().equals(labels.label_few(events))


@pytest.mark.slow
def test_a_path_that_killed_an_audit_is_reported(tmp_path: Path) -> None:
    """A real audit by such a pack ends with a code, and not with a signal."""
    (tmp_path / "x.yaml").write_text(pack("args" + ".a" * 10_000 + " == 1"))
    (tmp_path / "log.json").write_text(json.dumps([{"role": "user", "content": "hello"}]))
    command = [
        TRACLINE,
        "audit",
        tmp_path / "log.json",
        "--rules",
        tmp_path / "x.yaml",
        "--out",
        tmp_path / "o",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 2
    assert "TRL145" in done.stderr


# ---- work

COSTLY = "always not (at_most[20] (p -> p) or always (always[100,130] (q)))"
FREE = "".join(f'  {name}: text contains "{name}"\n' for name in "pqabcdefgh")


def free(formula: str, rules: int = 1) -> str:
    """Return a pack of propositions that are free of each other."""
    lines = "".join(f"  - id: r{i}\n    formula: {formula}\n" for i in range(rules))
    return f"pack: x\npropositions:\n{FREE}rules:\n{lines}"


@pytest.mark.slow
def test_a_rule_that_takes_too_much_work_is_an_error_of_check() -> None:
    """A short rule whose search ran for minutes ends at its budget, with its name and place."""
    problems = check(pack_text(free(COSTLY)))
    [problem] = [each for each in problems if each.code == "TRL301"]
    assert (
        f"rule x/r0 is too large to compile: more than {CompilerLimits().steps_max} of steps of work"
        in problem.message
    )
    assert problem.location is not None


def test_work_is_counted_the_same_each_time() -> None:
    """The steps of a rule hang on the rule alone, whether it was compiled before or not."""
    [rule] = pack_text(free("always (p -> eventually[0,9] q)")).rules
    _, first = compiling.compile_counted(rule)
    _, again = compiling.compile_counted(rule)
    compiling._compiled.cache_clear()
    _, recompiled = compiling.compile_counted(rule)
    assert first == again == recompiled > 0


def test_rules_that_take_too_much_work_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL302, for `check` and for every command that judges by them."""
    rules = pack_text(free("always (p -> eventually[0,9] q)", 3))
    _, steps = compiling.compile_counted(rules.rules[0])
    monkeypatch.setattr(compiling, "RULES_STEPS_MAX", 3 * steps - 1)
    with pytest.raises(RuleError, match="TRL302"):
        compile_rule_set(rules)
    monkeypatch.setattr(compiling, "RULES_STEPS_MAX", 3 * steps)
    assert len(compile_rule_set(rules).machines) == 3


def test_a_question_about_many_sorts_of_events_is_given_up() -> None:
    """The search for satisfiable propositions has a budget; after it a proposition counts as satisfiable."""
    questions = [f"(args.k{i} == {i} or args.k{i} > {i})" for i in range(30)]
    text = " and ".join([*questions, "args.k1 == 99", "args.k1 == 98"])
    [rule] = pack_text(pack(text)).rules
    predicate = rule.propositions["p"]
    assert isinstance(predicate, And)
    holds, steps = satisfiable_with_steps(predicate)
    assert holds
    assert STEPS_MAX < steps < 2 * STEPS_MAX


def test_work_names_the_rule() -> None:
    """The budget is spent step by step, and the error names where."""
    work = Work("x/r", limits.CompilerLimits(steps_max=10))
    work.spend(10)
    with pytest.raises(limits.TooLarge, match="rule x/r"):
        work.spend(1)


def test_the_order_of_conditions_changes_no_label() -> None:
    """Of two guards that are equal but for their order one stays: both went, and the labels with them."""
    text = """pack: x
propositions:
  p: kind == "user" and agent == "a" and text contains "x"
  q: agent == "a" and kind == "user" and text contains "x"
  s: agent == "b" and text contains "x"
rules: [{id: r, formula: always (p or q or s)}]
"""
    labels = Labeler(pack_text(text))
    events = event_frame([Event("s", 0, 0, 1, Kind.USER, agent="a", text="x")])
    many, few = labels.label(events.lazy()).collect(), labels.label_few(events)
    assert many["t0"].to_list() == few["t0"].to_list() == [0b11]


@pytest.mark.slow
def test_a_machine_of_more_than_64_states_cannot_follow() -> None:
    """TRL304 names the remedy; with `unknown: stop` the rule compiles, and 64 states can follow."""
    rule = Rule("p", "late", "", parse_formula("always (p -> F[0,70] q)"), "", {})
    with pytest.raises(RuleError, match="TRL304") as caught:
        compile_rule(rule)
    assert "`unknown: stop`" in caught.value.problems[0].hint
    machine = compile_rule(replace(rule, unknown=Unknown.STOP))
    assert len(machine.next) > FOLLOWED_STATES_MAX
    largest = replace(rule, formula=parse_formula("always (p -> F[0,62] q)"))
    assert len(compile_rule(largest).next) == FOLLOWED_STATES_MAX
    monitor = Monitor(rule.formula)
    monitor.step({"p"})
    with pytest.raises(RuleError, match="TRL304"):
        monitor.step(set(), unknown={"q"})
