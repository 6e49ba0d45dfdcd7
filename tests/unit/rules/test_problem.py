"""Errors of rule texts: one trigger for each code of an expression, and the format of an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest
from tracline.rules.language.operator_calls import Operator
from tracline.rules.language.operators import parse_operators
from tracline.rules.language.parse import parse_formula, parse_name, parse_path, parse_predicate
from tracline.rules.model.problem import CODES, Problem, RuleError, Snippet, did_you_mean, location_in, render

from ...support.truth.predicate_answers import evaluate

Read = Callable[[str], object]


def defined(*pairs: tuple[str, str]) -> Mapping[str, Operator]:
    """Return the operators of those heads and bodies."""
    operators, problems = parse_operators([(Snippet(head), Snippet(body)) for head, body in pairs])
    if problems:
        raise RuleError(problems)
    return operators


OPERATORS = defined(("hb(p, q)", "historically (q -> once p)"))


def formula(text: str) -> object:
    """Parse a formula of a pack with the operator `hb` and the propositions p, q, request, reply."""
    return parse_formula(text, operators=OPERATORS, known={"p", "q", "request", "reply"})


def head(text: str) -> object:
    """Parse an operator's head."""
    return defined((text, "true"))


def body(text: str) -> object:
    """Parse the body of `loop(p)`."""
    return defined(("loop(p)", text))


def twice(text: str) -> object:
    """Define an operator with the same head two times."""
    return defined((text, "p"), (text, "p"))


def label(text: str) -> object:
    """Parse a predicate and evaluate it on an event."""
    return evaluate(parse_predicate(text), {"kind": "user", "text": "yes"})


# what is wrong, read as what: the code, the text under the caret, and what the hint must name
TRIGGERS: list[tuple[str, Read, str, str, str]] = [
    ("TRL101", formula, "  ", "", "always (request"),
    ("TRL101", parse_predicate, "", "", 'kind == "user"'),
    ("TRL101", parse_path, "", "", "args.order_id"),
    ("TRL102", formula, "p and", "and", "after `and`"),
    ("TRL102", formula, "and p", "and", "before it"),
    ("TRL102", formula, "p until or q", "until", "after `until`"),
    ("TRL102", formula, "always ()", ")", "between them"),
    ("TRL102", formula, "p and F", "F", "choose another"),
    ("TRL102", parse_predicate, "nested and", "and", "after `and`"),
    ("TRL102", parse_predicate, "kind ==", "==", "after `==`"),
    ("TRL102", parse_predicate, "tool in []", "[]", '["search"'),
    ("TRL102", parse_predicate, 'tool in ["a",]', "]", '["search"'),
    ("TRL103", formula, "p q", "q", "`and`, `or` or `->`"),
    ("TRL103", formula, "p hb q", "hb", "name(p, q)"),
    ("TRL103", parse_predicate, 'kind == "user" nested', "nested", "`and` or `or`"),
    ("TRL103", parse_predicate, 'kind "user"', '"user"', "`==`"),
    ("TRL103", parse_predicate, 'tool in ["a" "b"]', '"b"', "`,`"),
    ("TRL103", head, "op(p q)", "q", "happened_before(p, q)"),
    ("TRL104", formula, "always (p -> q", "(", "`)`"),
    ("TRL104", formula, "(p and q]", "(", "`)` before `]`"),
    ("TRL104", parse_predicate, "nested and (late", "(", "`)`"),
    ("TRL105", formula, "p and q)", ")", "leave it out"),
    ("TRL105", parse_predicate, "nested)", ")", "leave it out"),
    ("TRL106", parse_predicate, 'kind == "user', '"user', '`"`'),
    ("TRL106", parse_predicate, "text matches /yes", "/yes", "`/`"),
    ("TRL107", formula, "p => q", "=>", "`->`"),
    ("TRL107", formula, "p <=> q", "<=>", "`<->`"),
    ("TRL107", formula, "p AND q", "AND", "`and`"),
    ("TRL107", formula, "p adn q", "adn", "`and`"),
    ("TRL107", formula, "eventualy p", "eventualy", "`eventually`"),
    ("TRL107", formula, "globally p", "globally", "`always`"),
    ("TRL107", formula, "[] p", "[]", "`always`"),
    ("TRL107", formula, "p ∧ q", "∧", "`and`"),
    ("TRL107", parse_predicate, 'kind = "user"', "=", "`==`"),
    ("TRL107", parse_predicate, "kind == 'user'", "'user'", '`"user"`'),
    ("TRL107", parse_predicate, "kind == “user”", "“user”", "straight double quotes"),
    ("TRL107", parse_predicate, 'tool startswith "a"', "startswith", "`starts with`"),
    ("TRL107", parse_predicate, 'tool <> "a"', "<>", "`!=`"),
    ("TRL108", formula, "foo-bar", "-", "`foo_bar`"),
    ("TRL108", formula, "p; q", ";", "leave it out"),
    ("TRL108", formula, "naïve and p", "naïve", "a to z"),
    ("TRL108", parse_predicate, "args.order-id == 1", "-", '`["order-id"]`'),
    ("TRL108", parse_name, "large refund", "large refund", "large_refund"),
    ("TRL109", formula, "p and 1", "1", "`true` or `false`"),
    ("TRL109", formula, "p, q", ",", "`and`"),
    ("TRL109", parse_predicate, '"user" == kind', '"user"', 'kind == "user"'),
    ("TRL109", parse_predicate, "args.n > 1 < 3", "<", "`and`"),
    ("TRL109", parse_predicate, 'kind is "user"', '"user"', "`is null`"),
    ("TRL109", parse_predicate, 'text not contains "a"', "not", "`not text contains ...`"),
    ("TRL109", parse_predicate, 'tool in "a"', '"a"', "["),
    ("TRL109", parse_predicate, "text == /yes/", "/yes/", "matches"),
    ("TRL109", parse_predicate, 'lower(text) == "a"', "lower", "(?i)"),
    ("TRL109", parse_predicate, "args.items.0 == 1", "0", "`[0]`"),
    ("TRL109", parse_path, "args[*]", "[", "`[0]`"),
    ("TRL110", formula, "F[2] p", "[2]", "`F[0,2]`"),
    ("TRL110", formula, "next[0,3] p", "[0,3]", "`next[3]`"),
    ("TRL110", formula, "at_most p", "at_most", "at_most[2] p"),
    ("TRL110", formula, "F[0,] p", "]", "F[0,3]"),
    ("TRL110", formula, "always[-1,2] p", "-", "always[0,3]"),
    ("TRL110", formula, "F<=3 p", "<=", "F[0,3]"),
    ("TRL111", formula, "F[3,1] p", "[3,1]", "`F[1,3]`"),
    ("TRL112", formula, "p U[0,3] q", "[0,3]", "eventually[0,3] q"),
    ("TRL112", formula, "p since[0,3] q", "[0,3]", "once[0,3] q"),
    ("TRL112", formula, "not[2] p", "[", "eventually[0,3] p"),
    ("TRL112", formula, "p[2]", "[", "eventually[0,3] p"),
    ("TRL113", formula, "R -> p", "R", "another name"),
    ("TRL113", formula, "p and until", "until", "another name"),
    ("TRL113", head, "F(p)", "F", "another name"),
    ("TRL113", head, "op(p, X)", "X", "another name"),
    ("TRL113", parse_name, "once", "once", "another name"),
    ("TRL114", formula, 'kind == "user"', "==", "propositions:"),
    ("TRL114", formula, "p and text matches /a/", "matches", "propositions:"),
    ("TRL114", formula, "p = q", "=", "`<->`"),
    ("TRL114", parse_predicate, "once nested", "once", "formula:"),
    ("TRL114", parse_predicate, 'kind == "user" until nested', "until", "formula:"),
    ("TRL114", parse_predicate, "nested -> late", "->", "not p or q"),
    ("TRL115", parse_predicate, r'text contains "\d"', r'"\d"', "`\\\\`"),
    ("TRL115", parse_predicate, r'text contains "\ud800"', r'"\ud800"', "`\\\\`"),
    ("TRL120", formula, "p and reqest", "reqest", "did you mean `request`?"),
    ("TRL121", formula, "bh(p, q)", "bh", "`hb`"),
    ("TRL121", formula, "Always(p)", "Always", "did you mean `always`?"),
    ("TRL121", formula, "p(q)", "p", "proposition"),
    ("TRL122", formula, "hb(p)", "hb(p)", "`hb(p, q)`"),
    ("TRL122", formula, "p and hb", "hb", "`hb(p, q)`"),
    ("TRL123", body, "p and loop(p)", "loop", "without calling itself"),
    ("TRL124", head, "op(p, p)", "p", "different name"),
    ("TRL125", formula, "once F p", "F", "always (reply -> once request)"),
    ("TRL125", formula, "hb(F p, q)", "hb(F p, q)", "no future operators"),
    ("TRL126", twice, "op(p)", "op", "another name"),
    ("TRL130", parse_predicate, 'tol == "a"', "tol", "did you mean `tool`?"),
    ("TRL130", parse_path, "arg.order_id", "arg", "did you mean `args`?"),
    ("TRL131", parse_predicate, "text.x is null", ".x", "`text` itself"),
    ("TRL131", parse_predicate, "attributes is null", "attributes", 'attributes["tenant"]'),
    ("TRL132", parse_predicate, 'kind == "tool"', '"tool"', "`tool_call`"),
    ("TRL132", parse_predicate, 'content in ["cut"]', '"cut"', "`captured`"),
    ("TRL133", parse_predicate, "kind == user", "user", '`"user"`'),
    ("TRL133", parse_predicate, "tool == 3", "3", '`"3"`'),
    ("TRL133", parse_predicate, "args.x in [args.y]", "args.y", "string"),
    ("TRL133", parse_predicate, "args.x == null", "null", "`is null`"),
    ("TRL133", parse_predicate, 'text matches "yes"', '"yes"', "`/yes/`"),
    ("TRL133", parse_predicate, "args.x > true", "true", "`==`"),
    ("TRL133", parse_predicate, "nested == 1", "1", "alone"),
    ("TRL134", parse_predicate, "error", "error", "`error is not null`"),
    ("TRL134", parse_predicate, "args.done", "args.done", "`args.done == true`"),
    ("TRL135", parse_predicate, "kind matches /u/", "kind matches /u/", "`in`"),
    ("TRL135", parse_predicate, "kind is null", "kind is null", 'kind == "user"'),
    ("TRL135", parse_predicate, "nested < true", "nested < true", "`not nested`"),
    ("TRL136", parse_predicate, ".age < 12", ".age", "any(args.items, .price > 3)"),
    ("TRL136", parse_predicate, 'any(args.x, tool == "a")', "tool", "out of the parentheses"),
    ("TRL136", parse_predicate, "any(args.x, nested)", "nested", "out of the parentheses"),
    ("TRL136", parse_predicate, "any(args.x, any(args.y, . == 1))", "args.y", "any(.seats, ...)"),
    ("TRL136", parse_predicate, "any(args.x, any(.z, . in args.y))", "args.y", "begin with a dot"),
    ("TRL136", parse_predicate, "sum(args.x, .price) > .total", ".total", "any(args.items"),
    ("TRL137", parse_predicate, "any(tool, . == 1)", "tool", "`tool in [...]`"),
    ("TRL137", parse_predicate, 'any(attributes["x"], . == 1)', 'attributes["x"]', "`args` and `result`"),
    ("TRL137", parse_predicate, "sum(args.x, .a > 3) > 1", ".a > 3", "`sum(args.x, .price)`"),
    ("TRL137", parse_predicate, "count(args.x[*].a) > 1", "args.x[*].a", "`count(args.x)`"),
    ("TRL137", parse_predicate, "any(args.x[*].y[*], . == 1)", "args.x[*].y[*]", "any(.legs"),
    ("TRL137", parse_predicate, "count(args.x) in args.y", "count(args.x)", "any(args.y"),
    ("TRL133", parse_predicate, 'count(args.x) == "3"', '"3"', "`count(args.x) > 0`"),
    ("TRL133", parse_predicate, "count(args.x) == nested", "nested", "args.total"),
    ("TRL133", parse_predicate, "args.y in [count(args.x)]", "count(args.x)", "`==`"),
    ("TRL133", parse_predicate, "count(args.x) in [1, args.y]", "args.y", "number"),
    ("TRL133", parse_predicate, "count(args.x) in [1, true]", "true", "`count(args.x) > 0`"),
    ("TRL134", parse_predicate, "count(args.x)", "count(args.x)", "`count(args.x) > 0`"),
    ("TRL134", parse_predicate, "any(args.x, .paid)", ".paid", "`.paid == true`"),
    ("TRL135", parse_predicate, "kind in args.kinds", "kind", "`kind == ...`"),
    ("TRL150", formula, "p".ljust(70_000), "", "split it"),
    ("TRL151", formula, "not " * 200 + "p", "not", "next[5] p"),
    ("TRL152", formula, "F[0,99999999999999999999999] p", "99999999999999999999999", "1000"),
    ("TRL152", parse_predicate, "args.x > 1e999", "1e999", "1.79"),
    (
        "TRL153",
        formula,
        "|".join(["(" + "&".join(["(" + "|".join("p" * 10) + ")"] * 20) + ")"] * 70),
        "",
        "split",
    ),
]


@pytest.mark.parametrize(("code", "read", "text", "under", "hint"), TRIGGERS)
def test_each_mistake_has_its_code_location_and_hint(
    code: str, read: Read, text: str, under: str, hint: str
) -> None:
    """The first problem has the code, a caret under the mistake, and a hint."""
    with pytest.raises(RuleError) as caught:
        read(text)
    problem = caught.value.problems[0]
    assert problem.code == code
    assert hint in problem.hint
    assert problem.location is not None
    marked = problem.location.text[problem.location.start : problem.location.end]
    assert marked.startswith(under) if code in ("TRL151", "TRL150", "TRL153") else marked.strip() == under


def test_every_code_of_an_expression_has_a_trigger() -> None:
    """The triggers above and the codes 100 to 139 and 150 to 199 of the table are the same."""
    expression_codes = {code for code in CODES if re.fullmatch(r"TRL1([0-35-9]\d)", code)}
    assert expression_codes == {code for code, *_ in TRIGGERS}


def test_an_error_is_drawn_with_its_line_a_caret_and_a_hint() -> None:
    """`file:line:column: CODE message`, then the line, the caret and the hint."""
    with pytest.raises(RuleError) as caught:
        parse_formula("always (p ->\n   q => p)", source="pack.yaml", line=12, column=14)
    assert str(caught.value).splitlines() == [
        "pack.yaml:13:6: TRL107 unknown operator `=>`",
        "     q => p)",
        "       ^^",
        "  hint: write `->`",
    ]


def test_a_long_line_is_cut_to_the_caret() -> None:
    """The shown part of a line is short, and the caret is under the mistake."""
    text = "aaaa and " * 30 + "b c" + " and dddd" * 30
    with pytest.raises(RuleError) as caught:
        parse_formula(text)
    _, line, carets, _ = str(caught.value).splitlines()
    assert len(line) < 115
    assert line[carets.index("^")] == "c"
    assert line.startswith("  ... ")
    assert line.endswith(" ...")


def test_carets_stand_under_wide_characters() -> None:
    """A character that takes two columns moves the caret by two."""
    problem = Problem("TRL108", "odd", "none", location_in('text == "日本" x', 13, 14))
    _, line, carets, _ = render(problem).splitlines()
    assert line == '  text == "日本" x'
    assert carets == "  " + " " * 15 + "^"


def test_errors_show_no_control_characters() -> None:
    """Escapes and direction marks in a text are shown as replacement characters."""
    with pytest.raises(RuleError) as caught:
        parse_formula("p \x1b[31m\u202e q", source="a\x1b[2J.yaml")
    assert "\x1b" not in str(caught.value)
    assert "\u202e" not in str(caught.value)


def test_a_hint_has_the_nearest_known_word_or_the_known_words() -> None:
    """A similar word is suggested, ignoring case; otherwise the known words are listed."""
    assert did_you_mean("refnd", ["refund", "reply"]) == "did you mean `refund`?"
    assert did_you_mean("OK", ["ok"]) == "did you mean `ok`?"
    assert did_you_mean("zzz", ["b", "a"]) == "known: `a`, `b`"
    assert did_you_mean("zzz", []) == "none is defined"
    assert did_you_mean("zzz", [f"n{i:02}" for i in range(20)]).endswith("and others")


def test_a_problem_with_a_code_outside_the_table_cannot_be_made() -> None:
    """A code outside the table is a programming error."""
    with pytest.raises(AssertionError):
        Problem("TRL999", "odd", "none")
