"""Parsing of formulas and operators: spellings, precedence, bounds, expansion, limits."""

from __future__ import annotations

import pytest
from tracline.rules.language.expression_limits import BOUND_MAX, DEPTH_MAX, TEXT_CHARS_MAX
from tracline.rules.language.operators import parse_operators
from tracline.rules.language.parse import Operator, parse_formula, parse_name
from tracline.rules.lint.precedence import precedence_warnings
from tracline.rules.model.formula import FALSE, TRUE, Formula, Op, prop
from tracline.rules.model.keywords import RESERVED, SPELLINGS
from tracline.rules.model.printer import to_text
from tracline.rules.model.problem import RuleError, Snippet

P, Q, R = prop("p"), prop("q"), prop("r")

PRECEDENCE = {
    "not p and q": "(not p) and q",
    "not p until q": "(not p) until q",
    "always p until q": "(always p) until q",
    "p until q until r": "p until (q until r)",
    "p until q since r": "p until (q since r)",
    "p and q until r": "p and (q until r)",
    "p or q and r": "p or (q and r)",
    "p and q and r": "(p and q) and r",
    "p or q or r": "(p or q) or r",
    "p -> q or r": "p -> (q or r)",
    "p -> q -> r": "p -> (q -> r)",
    "p <-> q -> r": "p <-> (q -> r)",
    "p <-> q <-> r": "(p <-> q) <-> r",
    "p until not next q": "p until (not (next q))",
    "next[2] not p and q": "(next[2] (not p)) and q",
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("!p & q | r", "not p and q or r"),
        ("p && q || r", "p and q or r"),
        ("p implies q iff r", "p -> q <-> r"),
        ("X p U N q", "next p until weak_next q"),
        ("F G Y Z p", "eventually always previous weak_previous p"),
        ("p W q R r M p", "p weak_until q release r strong_release p"),
        ("O p S H q WS Y r", "once p since historically q weak_since previous r"),
        ("F[0,3] p and G[1,1] q", "eventually[0,3] p and always[1,1] q"),
        ("O[0,3]p&H[1,1]q", "once[0,3] p and historically[1,1] q"),
        (
            "X[2] p & N[0] p & Y[3] p & Z[1] q",
            "next[2] p and weak_next[0] p and previous[3] p and weak_previous[1] q",
        ),
        ("at_most [ 0 ] q", "at_most[0] q"),
        ("true->false", "true -> false"),
    ],
)
def test_letters_and_signs_are_spellings_of_the_words(text: str, words: str) -> None:
    """Both spellings parse to the same tree, which prints in words."""
    assert to_text(parse_formula(text)) == words
    assert parse_formula(text) == parse_formula(words)


@pytest.mark.parametrize(("text", "grouped"), PRECEDENCE.items())
def test_unary_binds_tightest_then_binary_temporal_then_and_or_arrows(text: str, grouped: str) -> None:
    """A text without parentheses parses like the text with all of them."""
    assert parse_formula(text) == parse_formula(grouped)
    assert to_text(parse_formula(grouped)) == text


def test_bounds_are_as_written() -> None:
    """`X p` has no bounds, `X[1] p` has (1, 1), `at_most[2]` has (0, 2)."""
    assert parse_formula("X p") == Formula(Op.NEXT, (P,))
    assert parse_formula("X[1] p") == Formula(Op.NEXT, (P,), bounds=(1, 1))
    assert parse_formula("F[0,3] p") == Formula(Op.EVENTUALLY, (P,), bounds=(0, 3))
    assert parse_formula("at_most[2] p") == Formula(Op.AT_MOST, (P,), bounds=(0, 2))
    assert parse_formula(f"H[0,{BOUND_MAX}] p").bounds == (0, BOUND_MAX)


def test_constants_and_names_that_begin_like_words() -> None:
    """A name may start with a reserved word or letter; only the whole word is reserved."""
    assert parse_formula("true") == TRUE
    assert parse_formula("false") == FALSE
    for name in ("notice", "order", "Xray", "F1", "until_now", "_true", "in", "matches"):
        assert parse_formula(name) == prop(name)


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_reserved_words_are_not_names(word: str) -> None:
    """Reserved words cannot name propositions, operators or parameters."""
    with pytest.raises(RuleError, match="TRL113"):
        parse_name(word)
    for head in (f"{word}(p)", f"op({word})"):
        _, problems = parse_operators([(Snippet(head), Snippet("p"))])
        assert [problem.code for problem in problems] == ["TRL113"]
    if word not in ("true", "false"):
        with pytest.raises(RuleError, match=r"TRL1(02|13|10)"):
            parse_formula(f"p and {word}")


def test_every_spelling_is_in_the_grammar() -> None:
    """Each spelling in the table parses to its operator."""
    for spelling, op in SPELLINGS.items():
        bounds = "[1]" if op is Op.AT_MOST else ""
        texts = (f"p {spelling} q", f"{spelling}{bounds} p", spelling)
        assert op in {tree.op for tree in map(_tree_or_none, texts) if tree}, spelling


def test_lines_and_spaces_only_separate() -> None:
    """A formula may have several lines."""
    assert parse_formula("  always\n (p\t->\r\n   q)\n") == parse_formula("always (p -> q)")


def test_locations_count_from_the_start_of_the_text() -> None:
    """Line and column of a problem are those of the file."""
    with pytest.raises(RuleError) as caught:
        parse_formula("p and\n  q r", source="a.yaml", line=7, column=14)
    location = caught.value.problems[0].location
    assert location is not None
    assert (location.source, location.line, location.column) == ("a.yaml", 8, 5)
    with pytest.raises(RuleError) as caught:
        parse_formula("p q", source="a.yaml", line=7, column=14)
    assert str(caught.value).startswith("a.yaml:7:16: TRL103 ")


def test_all_problems_of_a_formula_come_at_once() -> None:
    """All problems other than syntax errors are reported, in the order of the text."""
    with pytest.raises(RuleError) as caught:
        parse_formula("F[3,1] p and nobody(q) and once F r and s", known={"p", "q", "r"})
    assert [problem.code for problem in caught.value.problems] == ["TRL111", "TRL121", "TRL125", "TRL120"]


@pytest.mark.parametrize(
    "text", ["once F p", "Y (p or X q)", "H (p U q)", "(F p) S q", "at_most[1] N p", "O Y G p"]
)
def test_future_inside_past_is_reported_at_the_future_operator(text: str) -> None:
    """The caret is under the future operator."""
    with pytest.raises(RuleError) as caught:
        parse_formula(text)
    (problem,) = caught.value.problems
    assert problem.code == "TRL125"
    assert problem.location is not None
    assert text[problem.location.start : problem.location.end] in {"F", "X", "U", "N", "G"}


def test_past_inside_future_is_accepted() -> None:
    """A past operator may be anywhere inside a future one."""
    text = "always (p -> once q since r) and eventually at_most[2] p"
    assert to_text(parse_formula(text)) == text


def test_calls_expand_with_their_operands() -> None:
    """Parameters are formulas; other names are the pack's propositions."""
    pair = (Snippet("happened_before(p, q)"), Snippet("historically (q -> once p and r)"))
    operators, _ = parse_operators([pair])
    assert operators["happened_before"].parameters == ("p", "q")
    formula = parse_formula("always happened_before(not q, p)", operators=operators)
    assert to_text(formula) == "always historically (p -> once not q and r)"


def test_parameters_are_replaced_at_once_and_not_one_after_the_other() -> None:
    """Operands with the names of other parameters are not replaced again."""
    swap = Operator("swap", ("p", "q"), parse_formula("q -> p"))
    assert to_text(parse_formula("swap(q, p)", operators={"swap": swap})) == "p -> q"
    assert to_text(parse_formula("swap(swap(p, q), r)", operators={"swap": swap})) == "r -> q -> p"


def test_operators_may_call_each_other_in_any_order() -> None:
    """An operator may use one that is defined after it."""
    pairs = [
        (Snippet("both(p)"), Snippet("twice(p) and once p")),
        (Snippet("twice(p)"), Snippet("p and previous p")),
    ]
    operators, problems = parse_operators(pairs)
    assert problems == ()
    assert to_text(operators["both"].body) == "p and previous p and once p"


def test_a_cycle_of_operators_is_one_problem() -> None:
    """The message shows the cycle; operators outside it are still parsed."""
    pairs = [
        (Snippet("a(p)"), Snippet("b(p)")),
        (Snippet("b(p)"), Snippet("p or a(p)")),
        (Snippet("c(p)"), Snippet("not p")),
    ]
    operators, problems = parse_operators(pairs)
    assert [(problem.code, problem.message) for problem in problems] == [
        ("TRL123", "recursive operator: `a` calls `b` calls `a`")
    ]
    assert to_text(operators["c"].body) == "not p"


def test_an_invalid_operator_is_one_problem_and_its_calls_none() -> None:
    """Calls of an operator with an invalid body are not reported."""
    pairs = [(Snippet("bad(p)"), Snippet("p and")), (Snippet("good(p)"), Snippet("bad(p)"))]
    operators, problems = parse_operators(pairs)
    assert [problem.code for problem in problems] == ["TRL102"]
    assert set(operators) == {"bad", "good"}


def test_an_operator_that_hides_future_inside_past_is_reported_at_the_call() -> None:
    """The message shows the expansion, whether the operator or its operand has the future operator."""
    pairs = [
        (Snippet("before(p, q)"), Snippet("historically (q -> once p)")),
        (Snippet("answered(p, q)"), Snippet("always (p -> eventually q)")),
    ]
    operators, _ = parse_operators(pairs)
    with pytest.raises(RuleError) as caught:
        parse_formula("p and before(F p, q)", operators=operators)
    assert "expands to `historically (q -> once eventually p)`" in caught.value.problems[0].message
    with pytest.raises(RuleError) as caught:
        parse_formula("once answered(p, q)", operators=operators)
    assert "expands to `always (p -> eventually q)`" in caught.value.problems[0].message


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "not " * 5_000 + "p",
        "(" * 20_000 + "p" + ")" * 20_000,
        "(" * 20_000,
        " and ".join(["p"] * 5_000),
        " -> ".join(["p"] * 5_000),
        " until ".join(["p"] * 5_000),
        " U (".join(["p"] * 5_000) + ")" * 4_999,
        "p <-> " * 5_000 + "p",
        "X" + "[1] X" * 5_000 + " p",
    ],
)
def test_no_depth_of_nesting_exhausts_the_stack(text: str) -> None:
    """Deep nesting is an error (or, with only parentheses, valid); Python's stack is never the limit."""
    outcome = _outcome(text)
    assert outcome == P or outcome in ({"TRL151"}, {"TRL104"}, {"TRL102"})


def test_the_limit_on_depth_is_exact() -> None:
    """A hundred levels are parsed and printed, one more is an error."""
    deep = "X[1] " * DEPTH_MAX + "p"
    assert parse_formula(deep) == parse_formula(to_text(parse_formula(deep)))
    with pytest.raises(RuleError, match="TRL151"):
        parse_formula(f"X[1] {deep}")
    chain = " and ".join(["p"] * (DEPTH_MAX + 1))
    assert to_text(parse_formula(chain)) == chain
    with pytest.raises(RuleError, match="TRL151"):
        parse_formula(f"{chain} and p")


@pytest.mark.slow
def test_operators_that_double_are_rejected_before_they_are_built() -> None:
    """Thirty operators that each use their parameter twice would make a billion nodes."""
    pairs = [(Snippet("f0(p)"), Snippet("p and p"))]
    pairs += [(Snippet(f"f{i}(p)"), Snippet(f"f{i - 1}(p) and f{i - 1}(p)")) for i in range(1, 30)]
    _, problems = parse_operators(pairs)
    assert {problem.code for problem in problems} == {"TRL153"}


def test_the_limit_on_length_is_exact() -> None:
    """Spaces count; one more character is an error."""
    text = "p".ljust(TEXT_CHARS_MAX)
    assert parse_formula(text) == P
    with pytest.raises(RuleError, match="TRL150"):
        parse_formula(text + " ")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("always p until q", 1),
        ("(always p) until q", 0),
        ("always (p until q)", 0),
        ("not p until q", 0),
        ("F[0,3] p U q", 1),
        ("always p -> q", 1),
        ("once p -> q", 0),
        ("eventually p and eventually q", 0),
        ("(once p since q) and (Y q S r)", 2),
        ("not always p until q", 1),
        ("p until", 0),
    ],
)
def test_formulas_of_surprising_precedence(text: str, count: int) -> None:
    """A unary temporal operator left of a binary one, or `always` left of an arrow, gets a warning."""
    warnings = precedence_warnings(Snippet(text))
    assert [problem.code for problem in warnings] == ["TRL508"] * count
    assert [problem.location.start for problem in warnings if problem.location] == sorted(
        problem.location.start for problem in warnings if problem.location
    )


def _outcome(text: str) -> Formula | set[str]:
    try:
        return parse_formula(text)
    except RuleError as error:
        return {problem.code for problem in error.problems}


def _tree_or_none(text: str) -> Formula | None:
    try:
        return parse_formula(text)
    except RuleError:
        return None
