"""The warnings of `tracline check`: each with rules that get it, and near misses that do not."""

from __future__ import annotations

import re

import pytest
from tracline.rules.lint.check import check, is_warning
from tracline.rules.model.problem import CODES, Problem
from tracline.rules.packs.load import load_packs, pack_text, shipped_packs

WORDS = (
    *("a", "b", "c", "p", "q", "r", "call", "change", "greet", "handover", "refund", "request", "reply"),
    *("result", "secret", "survey", "user", "verify"),
)
FREE = "".join(f"  {word}: text contains {word!r}\n".replace("'", '"') for word in WORDS)


def warnings(formula: str, extra: str = "", propositions: str = FREE) -> list[Problem]:
    """Return the warnings about a rule over independent propositions, without those about unused ones."""
    text = (
        f"pack: x\npropositions:\n{propositions}rules:\n  - id: r\n    formula: >-\n      {formula}\n{extra}"
    )
    return [problem for problem in check(pack_text(text)) if problem.code != "TRL509"]


POSITIVE = [
    ("TRL501", "always (p -> p)", ""),
    ("TRL501", "eventually (p or not p)", ""),
    ("TRL501", "always (p -> once p)", ""),
    ("TRL501", "(p until q) or not (p until q)", ""),
    ("TRL501", "always p", "    steps: p and q\n"),
    ("TRL501", "always p", "    steps: q and not q\n"),
    ("TRL502", "always (p and not p)", ""),
    ("TRL502", "always (once p and not once p)", ""),
    ("TRL502", "next false", ""),
    ("TRL502", "always eventually next true and not always eventually next true", ""),
    ("TRL502", "always not p", "    steps: p\n"),
    ("TRL504", "always ((call -> eventually result) and not secret)", ""),
    ("TRL504", "always (call -> eventually result) and always not secret", ""),
    ("TRL504", "always (call -> eventually result and not secret)", ""),
    ("TRL504", "always (call -> eventually result) and always (a -> once b)", ""),
    ("TRL504", "eventually survey and always not secret", "    recover: violation\n"),
    ("TRL504", "not (eventually (call and always not result) or eventually secret)", ""),
    ("TRL504", "always not (secret or (call and always not result))", ""),
    ("TRL504", "not (eventually secret or not always (call -> eventually result))", ""),
    ("TRL504", "next (always ((call -> eventually result) and not secret))", ""),
    ("TRL504", "next always not secret and next always (call -> eventually result)", ""),
    ("TRL504", "not weak_next eventually (secret or (call and always not result))", ""),
    ("TRL504", "always[0,5] (not secret and (call -> eventually result))", "    recover: violation\n"),
    ("TRL504", "greet and always (call -> eventually result)", ""),
    ("TRL505", "not refund until verify", ""),
    ("TRL505", "not refund weak_until verify", ""),
    ("TRL505", "F[0,3] greet", ""),
    ("TRL505", "request -> eventually reply", ""),
    ("TRL505", "greet", ""),
    ("TRL505", "greet and next call", ""),
    ("TRL506", "always at_most[2] refund", ""),
    ("TRL506", "at_most[2] refund", ""),
    ("TRL506", "always historically p", ""),
    ("TRL506", "always not once secret", ""),
    ("TRL506", "always never(secret)", ""),
    ("TRL506", "always (at_most[2] refund and (a -> once b))", ""),
    ("TRL507", "always (handover -> weak_next false)", ""),
    ("TRL507", "always (handover -> not next true)", ""),
    ("TRL507", "always (handover -> G[1,3] false)", ""),
    ("TRL507", "eventually (handover and weak_next false)", ""),
    ("TRL507", "always (a -> next (b until weak_next false))", ""),
    ("TRL508", "always p until q", "    recover: none\n"),
    ("TRL508", "always (r -> (not once p since q))", ""),
    ("TRL508", "always (r -> next p until q)", ""),
]


@pytest.mark.slow
@pytest.mark.parametrize(("code", "formula", "extra"), POSITIVE)
def test_a_warning_is_given(code: str, formula: str, extra: str) -> None:
    """The rule has that warning, located at its formula, with a hint."""
    found = [problem for problem in warnings(formula, extra) if problem.code == code]
    assert len(found) == 1
    (problem,) = found
    assert is_warning(problem)
    assert problem.hint
    assert problem.location is not None
    assert problem.location.line == len(WORDS) + 6


NEAR_MISSES = [
    ("always (p -> q)", ""),
    ("always (change -> once verify)", ""),
    ("always not secret", ""),
    ("always (call -> eventually result)", ""),
    ("always (call -> next result)", ""),
    ("always (call -> weak_next result)", ""),
    ("always (call -> F[1,16] result)", ""),
    ("always (request -> (not change until reply))", ""),
    ("always (request -> (not change weak_until reply))", ""),
    ("always (a -> weak_next (not a weak_until b))", ""),
    ("always not (call and previous call)", ""),
    ("always (change -> previous (not user since reply))", ""),
    ("always (refund -> at_most[2] refund)", ""),
    ("always not previous once handover", ""),
    ("always (handover -> weak_next always not reply)", ""),
    ("always (p -> weak_next (q release r))", ""),
    ("eventually survey", ""),
    ("eventually (survey and once greet)", ""),
    ("always eventually p", ""),
    ("always (p until q)", ""),
    ("always ((always p) until q)", ""),
    ("always (not p until q)", ""),
    ("always (p -> (q and previous r))", ""),
    ("always (a -> once b) and always (c -> once b)", ""),
    ("always happened_before(p, q)", "    recover: none\n"),
    ("not refund until verify", "    recover: violation\n"),
    ("not refund until verify", "    recover: none\n"),
    ("F[0,3] greet", "    recover: violation\n"),
    ("always ((call -> eventually result) and not secret)", "    recover: none\n"),
    ("always p", "    steps: p or q\n"),
    ("next (always (not p and not q))", ""),
    ("next always not p and next always not q", ""),
    ("always[0,5] (not p and not q)", "    recover: violation\n"),
    ("not (eventually p or eventually q)", ""),
    ("not (eventually (p and always not q) or eventually (r and always not q))", ""),
    ("always ((a or b) -> next c)", ""),
    ("always (a <-> next b)", ""),
]


@pytest.mark.parametrize(("formula", "extra"), NEAR_MISSES)
def test_a_sensible_rule_has_no_warning(formula: str, extra: str) -> None:
    """Correct rules, and the spellings that the hints suggest, have no warnings."""
    assert warnings(formula, extra) == []


@pytest.mark.parametrize(
    ("formula", "spelling"),
    [
        ("always at_most[2] refund", "always (refund -> at_most[2] refund)"),
        ("always historically (p -> q)", "always (p -> q)"),
        ("always not once secret", "always not secret"),
        ("always happened_before(p, q)", "always (q -> once p)"),
        ("always (handover -> weak_next false)", "always not previous once handover"),
        ("not refund until verify", "always (refund -> once verify)"),
        ("not refund until verify", "recover: violation"),
        ("greet", "always greet"),
        ("always ((call -> eventually result) and not secret)", "always (call -> eventually result)"),
        ("always ((call -> eventually result) and not secret)", "always not secret"),
        ("always not (secret or (call and always not result))", "always (call -> eventually result)"),
        ("request -> eventually reply", "always (request -> eventually reply)"),
        ("always p until q", "always (p until q)"),
    ],
)
def test_the_hint_has_the_spelling(formula: str, spelling: str) -> None:
    """A hint has a rewritten formula, which has no warning itself."""
    assert any(f"`{spelling}`" in problem.hint for problem in warnings(formula))
    if spelling.startswith("always"):
        assert warnings(spelling) == []


@pytest.mark.parametrize(
    "formula", [*dict.fromkeys(formula for _, formula, _ in POSITIVE), "eventually (handover and next true)"]
)
def test_a_hint_names_only_propositions_of_the_rule(formula: str) -> None:
    """No hint names a proposition that the rule does not have."""
    for problem in warnings(formula):
        spelled = " ".join(re.findall("`(.*?)`", problem.hint))
        named = set(re.findall(r"[a-z_]+", spelled)) & set(WORDS)
        assert named <= set(re.findall(r"[a-z_]+", formula)), problem.hint


def test_conjuncts_about_the_first_events_lose_nothing() -> None:
    """A rule about a fixed number of events gets only the warning that it restarts."""
    assert [problem.code for problem in warnings("greet and next call")] == ["TRL505"]


@pytest.mark.parametrize(
    ("question", "impossible"),
    [
        ("false", True),
        ('kind == "user" and kind == "tool_call"', True),
        ('kind == "user" and tool == "refund"', True),
        ('tool == "refund" and tool in ["search", "book"]', True),
        ('kind == "tool_call" and result contains "error"', True),
        ("args.amount > 100 and args.amount < 50", True),
        ('kind == "user" or kind == "tool_call"', False),
        ('kind == "tool_call" and tool == "refund"', False),
        ('tool in ["search", "book"] and not tool == "book"', False),
        ("args.amount > 50 and args.amount < 51", False),
        ('text matches /a/ and text matches /b/ and not text contains "c"', False),
    ],
)
def test_a_proposition_that_can_never_be_true(question: str, impossible: bool) -> None:
    """Conditions that exclude each other are reported at the proposition, with the rules that use it."""
    found = warnings("always (p -> once q)", propositions=f"  p: nested\n  q: {question}\n")
    reported = [problem for problem in found if problem.code == "TRL503"]
    assert bool(reported) == impossible
    for problem in reported:
        assert problem.location is not None
        assert (problem.location.line, problem.location.column) == (4, 6)
        assert "`r`" in problem.hint


VACUOUS = [
    ('tool not in ["refund"]', "user messages, which never have `tool`"),
    ('nested and not tool == "refund"', "user messages, which never have `tool`"),
    ('not text contains "no"', "tool calls, which never have `text`"),
    ('error is null and not result starts with "Error"', "user messages, which never have `result`"),
    ("args.amount is null", "user messages, which never have `args`"),
    ('not (tool == "refund" and args.amount > 100)', "user messages, which never have `tool`"),
    ('kind == "user" or tool not in ["refund"]', "assistant messages, which never have `tool`"),
    ('kind == "tool_call" and tool == "a" or tool not in ["b"]', "user messages, which never have `tool`"),
    ('kind == "tool_call" and tool not in ["refund"]', None),
    ('kind in ["user", "tool_call"] and tool not in ["refund"]', None),
    ('kind != "user" and tool not in ["refund"]', None),
    ('not (kind == "tool_call" and tool == "refund")', None),
    ('result is not null and tool not in ["refund"]', None),
    ('text contains "x" and tool not in ["refund"]', None),
    ('call_id == "c" and not result contains "x"', "tool calls, which never have `result`"),
    ('tool != "refund"', None),
    ("tool is null", None),
    ("error is null and not nested", None),
    ('tool in ["a"] or not tool in ["a"]', None),
]


@pytest.mark.parametrize(("condition", "expected"), VACUOUS)
def test_a_proposition_that_is_vacuously_true(condition: str, expected: str | None) -> None:
    """TRL510: a condition under `not` is true of events without the field, unless the kind is tested, too."""
    found = warnings("always (p -> once q)", propositions=f"  p: nested\n  q: {condition}\n")
    vacuous = [problem for problem in found if problem.code == "TRL510"]
    assert [problem.message for problem in vacuous] == (
        [] if expected is None else [f"proposition `q` can be true of {expected}"]
    )
    for problem in vacuous:
        assert problem.location is not None
        assert (problem.location.line, problem.location.column) == (4, 6)
        assert "`r`" in problem.hint


def test_events_outside_steps_cause_no_vacuity() -> None:
    """An event that `steps` excludes causes no vacuity."""
    asked = '  p: nested\n  q: tool not in ["refund"]\n  call: kind == "tool_call"\n'
    for steps, codes in (("call", []), ("call or p", ["TRL510"]), ("q", ["TRL510"])):
        found = warnings("always (p -> once q)", f"    steps: {steps}\n", propositions=asked)
        assert [problem.code for problem in found if problem.code == "TRL510"] == codes


def test_the_search_in_a_large_predicate_is_limited() -> None:
    """A long search gives no warning: any of forty expressions may match."""
    for count, codes in ((4, ["TRL510"]), (40, [])):
        matched = " and ".join(f"error matches /{i}/" for i in range(count))
        asked = f'  p: nested\n  q: {matched} and not tool == "refund"\n'
        found = warnings("always (p -> once q)", propositions=asked)
        assert [problem.code for problem in found if problem.code == "TRL510"] == codes


def test_propositions_that_exclude_each_other_are_known() -> None:
    """An impossible event violates no rule."""
    exclusive = '  p: kind == "user"\n  q: kind == "tool_call"\n'
    assert [problem.code for problem in warnings("always not (p and q)", propositions=exclusive)] == [
        "TRL501"
    ]
    assert warnings("always not (p and previous q)", propositions=exclusive) == []


def test_unused_names() -> None:
    """Unused propositions and transitions are reported; those of a pack without rules are not."""
    text = "pack: x\npropositions: {a: nested, b: late}\ntransitions: {t: not previous t}\n"
    used = check(pack_text(text + "rules:\n  - {id: r, formula: always a}\n"))
    assert [problem.message for problem in used] == [
        "unused proposition `b`",
        "unused transition `t`",
    ]
    assert check(pack_text(text)) == ()
    section = "predict: {propositions: [b], memory: {m: once t}}\nrules:\n  - {id: r, formula: always a}\n"
    assert check(pack_text(text + section)) == ()


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("args.items.length > 2", "write `count(args.items)` if `args.items` is a list"),
        ("result.length == 0", "write `count(result)` if `result` is a list"),
        ("any(args.orders, .items.length > 2)", "write `count(.items)` if `.items` is a list"),
        ("args.length > 2", None),
        ("any(args.boxes, .length > 2)", None),
    ],
)
def test_a_path_to_a_length_is_no_count(condition: str, shown: str | None) -> None:
    """A key `length` in JSON is reported with the spelling of a count; an argument may have that name."""
    found = warnings("always not p", propositions=f'  p: kind == "tool_result" and {condition}\n')
    lengths = [problem.hint for problem in found if problem.code == "TRL513"]
    assert len(lengths) == (shown is not None)
    assert all(str(shown) in hint for hint in lengths)


@pytest.mark.parametrize(
    "condition",
    [
        "any(args.items, .age < 3 and .age > 5)",
        "count(args.items) < 0",
        "count(args.items, .age < 3 and .age > 5) > 0",
        'any(args.items, .x == 1) and args.items == "x"',
        'kind == "user" and any(args.items, .x == 1)',
        "any(args.items, any(.legs, false))",
    ],
)
def test_a_condition_on_a_list_that_no_event_meets_is_reported(condition: str) -> None:
    """Elements, counts and the list itself are considered."""
    found = warnings("always not p", propositions=f"  p: '{condition}'\n")
    assert "TRL503" in [problem.code for problem in found]


def test_the_negation_of_a_condition_on_a_list_is_true_of_messages() -> None:
    """It is true of every event without the list, as that of any field."""
    found = warnings("always not p", propositions="  p: not any(args.items, .x == 1)\n")
    assert "TRL510" in [problem.code for problem in found]


@pytest.mark.slow
def test_a_rule_that_is_too_large_is_an_error() -> None:
    """A rule that the compiler rejects is an error at the formula, not a warning."""
    big = "always (p -> X[14] q)"
    (problem,) = warnings(big)
    assert problem.code == "TRL301"
    assert not is_warning(problem)
    assert problem.location is not None
    assert problem.location.text.strip() == big


def test_operators_and_transitions_are_checked_too() -> None:
    """Surprising precedence is reported in every formula of a pack."""
    text = (
        "pack: x\npropositions: {a: nested, b: late}\noperators:\n  f(p, q): once p since q\n"
        "transitions:\n  t: previous (once a since b)\nrules:\n  - id: r\n    formula: always f(a, t)\n"
    )
    locations = [
        (problem.location.line, problem.location.column)
        for problem in check(pack_text(text))
        if problem.code == "TRL508" and problem.location
    ]
    assert locations == [(4, 12), (6, 16)]


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_packs())
def test_shipped_packs_have_no_warning(name: str) -> None:
    """The shipped packs have no warnings."""
    assert check(load_packs([name])) == ()


def test_every_warning_is_triggered() -> None:
    """A test triggers every warning of the table."""
    lint_codes = {code for code in CODES if re.fullmatch(r"TRL5\d\d", code)}
    assert lint_codes == {code for code, *_ in POSITIVE} | {
        *("TRL503", "TRL509", "TRL510", "TRL513"),
        *("TRL511", "TRL512"),  # tests/unit/rules/test_extend.py
    }
