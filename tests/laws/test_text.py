"""Laws of printing and parsing: printed text parses to the same tree, and prints the same again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.rules.language.parse import parse_formula, parse_path, parse_predicate
from tracline.rules.model.formula import BOUNDED, FUTURE, PAST, STEPPED, Formula, Op, prop
from tracline.rules.model.keywords import RESERVED
from tracline.rules.model.predicate import And, Leaf, Literal, Not, Or, Path, Predicate
from tracline.rules.model.predicate import Test as Asks
from tracline.rules.model.printer import path_text, predicate_text, to_text
from tracline.rules.model.problem import Problem, RuleError

from ..differential.formulas import BINARY

UNARY = (Op.NOT, *STEPPED, *BOUNDED, Op.AT_MOST)

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(lambda name: name not in RESERVED)
leaves = st.one_of(st.sampled_from([Formula(Op.TRUE), Formula(Op.FALSE)]), names.map(prop))


@st.composite
def bounds_of(draw: st.DrawFn, op: Op) -> tuple[int, int] | None:
    """Return bounds that the operator may have."""
    number = st.integers(0, 1000)
    if op is Op.AT_MOST:
        return 0, draw(number)
    if op not in STEPPED | BOUNDED or draw(st.booleans()):
        return None
    low = draw(number)
    return (low, low) if op in STEPPED else (low, draw(st.integers(low, 1000)))


def trees(unary: tuple[Op, ...], binary: tuple[Op, ...]) -> st.SearchStrategy[Formula]:
    """Return formulas with only these operators."""

    def grow(inner: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
        single = st.sampled_from(unary).flatmap(
            lambda op: st.builds(lambda arg, bounds: Formula(op, (arg,), "", bounds), inner, bounds_of(op))
        )
        two = st.builds(lambda op, p, q: Formula(op, (p, q)), st.sampled_from(binary), inner, inner)
        return single | two

    return st.recursive(leaves, grow, max_leaves=12)


past = trees(
    tuple(op for op in UNARY if op not in FUTURE),
    tuple(op for op in BINARY if op not in FUTURE),
)
formulas = st.one_of(
    past,
    trees(tuple(op for op in UNARY if op not in PAST), tuple(op for op in BINARY if op not in PAST)),
    st.builds(lambda op, p: Formula(op, (p,)), st.sampled_from([Op.ALWAYS, Op.EVENTUALLY, Op.NEXT]), past),
)

steps = st.one_of(
    st.integers(0, 99), st.text(max_size=6).filter(lambda key: key.isprintable() and "\\" not in key)
)
json_paths = st.builds(
    lambda field, keys: Path(field, tuple(keys)),
    st.sampled_from(["args", "result"]),
    st.lists(steps, max_size=3),
)
scalars = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.floats(-1e18, 1e18, allow_nan=False),
    st.booleans(),
)
regexes = st.lists(st.sampled_from(["a", "/", r"\\", r"\.", r"\b", "(?i)", '"', " ", "é"]), min_size=1).map(
    "".join
)
ordered = st.sampled_from([Asks.LT, Asks.LE, Asks.GT, Asks.GE])
questions = st.one_of(
    st.builds(lambda p, t, v: Leaf(p, t, (v,)), json_paths, st.sampled_from([Asks.EQ, Asks.NE]), scalars),
    st.builds(
        lambda p, t, v: Leaf(p, t, (v,)),
        json_paths,
        ordered,
        scalars.filter(lambda v: not isinstance(v, bool)),
    ),
    st.builds(
        lambda p, vs: Leaf(p, Asks.IN, tuple(vs)), json_paths, st.lists(scalars, min_size=1, max_size=4)
    ),
    st.builds(lambda p, r: Leaf(p, Asks.MATCHES, (r,)), json_paths, regexes),
    st.builds(
        lambda t, v: Leaf(Path("text"), t, (v,)),
        st.sampled_from([Asks.CONTAINS, Asks.STARTS_WITH]),
        st.text(st.characters(codec="utf-8"), max_size=5),
    ),
    st.sampled_from([Leaf(Path("nested"), Asks.IS_TRUE), Leaf(Path("error"), Asks.IS_NULL), Literal(True)]),
)


def _join(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(inner.map(Not), several.map(And), several.map(Or))


signs = [*"pqFGU()[]!&|<->=,.01\"'/ \n\\é", "and ", "not ", "matches /", "args.", "in ", "kind "]
texts = st.lists(st.sampled_from(signs), max_size=30).map("".join)

predicates = st.recursive(questions, _join, max_leaves=8)


@given(formulas)
@settings(max_examples=300)
def test_a_printed_formula_reads_back_as_the_same_tree(formula: Formula) -> None:
    """`parse_formula(to_text(f)) == f`, bounds and the grouping of equal operators included."""
    assert parse_formula(to_text(formula)) == formula


@given(formulas, st.data())
@settings(max_examples=100)
def test_no_parenthesis_of_a_printed_formula_can_be_left_out(formula: Formula, data: st.DataObject) -> None:
    """Without any one pair of its parentheses the text is another formula."""
    text = to_text(formula)
    opened = [i for i, char in enumerate(text) if char == "("]
    if not opened:
        return
    first = data.draw(st.sampled_from(opened))
    last = _partner(text, first)
    without = f"{text[:first]} {text[first + 1 : last]} {text[last + 1 :]}"
    assert _tree_or_none(without) != formula


@given(formulas)
@settings(max_examples=100)
def test_signs_and_letters_mean_the_same_as_words(formula: Formula) -> None:
    """A formula in letters and signs parses to the same tree as its words."""
    letters = {"next": "X", "weak_next": "N", "eventually": "F", "always": "G", "until": "U"}
    letters |= {"weak_until": "W", "release": "R", "strong_release": "M", "previous": "Y", "once": "O"}
    letters |= {"weak_previous": "Z", "historically": "H", "since": "S", "weak_since": "WS"}
    letters |= {"not": "!", "and": "&&", "or": "|", "->": "implies", "<->": "iff"}
    tokens = to_text(formula).replace("(", "( ").replace(")", " )").replace("[", " [").split()
    assert parse_formula(" ".join(letters.get(token, token) for token in tokens)) == formula


@given(predicates)
@settings(max_examples=300)
def test_a_printed_predicate_reads_back_as_the_same_tree(predicate: Predicate) -> None:
    """`parse_predicate(predicate_text(p)) == p`, strings with any characters included."""
    assert parse_predicate(predicate_text(predicate)) == predicate


@given(json_paths)
@settings(max_examples=100)
def test_a_printed_path_reads_back_as_the_same_path(path: Path) -> None:
    """`parse_path(path_text(p)) == p`, odd keys included."""
    assert parse_path(path_text(path)) == path


@given(texts)
@settings(max_examples=400)
def test_any_text_is_read_or_refused_with_a_place_and_a_hint(text: str) -> None:
    """Tokens of the language in any order parse, or raise RuleError with a location in the text."""
    for parse in (parse_formula, parse_predicate, parse_path):
        for problem in _problems(parse, text):
            assert problem.hint
            assert problem.location is not None
            assert 0 <= problem.location.start <= len(text)
            assert "^" in str(problem) or not text.strip()


def test_of_all_small_formulas_just_those_with_future_inside_past_are_refused() -> None:
    """Of the 7,760 formulas of up to four nodes 5,968 are accepted, and print and parse as themselves."""
    accepted = refused = 0
    for formula in _small(4):
        text = to_text(formula)
        if _nests_future_in_past(formula, inside_past=False):
            with pytest.raises(RuleError) as caught:
                parse_formula(text)
            assert {problem.code for problem in caught.value.problems} == {"TRL125"}
            refused += 1
        else:
            assert parse_formula(text) == formula
            accepted += 1
    assert (accepted, refused) == (5_968, 1_792)


def _problems(parse: Callable[[str], object], text: str) -> tuple[Problem, ...]:
    try:
        parse(text)
    except RuleError as error:
        return error.problems
    return ()


def _small(nodes: int) -> list[Formula]:
    """Return all formulas of up to so many nodes over p, q, true, false and all operators but `at_most`."""
    sizes: dict[int, list[Formula]] = {1: [prop("p"), prop("q"), Formula(Op.TRUE), Formula(Op.FALSE)]}
    for size in range(2, nodes + 1):
        ones = [Formula(op, (arg,)) for op in UNARY if op is not Op.AT_MOST for arg in sizes[size - 1]]
        twos = [
            Formula(op, pair)
            for op in BINARY
            for left in range(1, size - 1)
            for pair in product(sizes[left], sizes[size - 1 - left])
        ]
        sizes[size] = ones + twos
    return [formula for each in sizes.values() for formula in each]


def _nests_future_in_past(formula: Formula, *, inside_past: bool) -> bool:
    if inside_past and formula.op in FUTURE:
        return True
    inside = inside_past or formula.op in PAST
    return any(_nests_future_in_past(arg, inside_past=inside) for arg in formula.args)


def _partner(text: str, opening: int) -> int:
    depth = 0
    for i in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise AssertionError(f"the bracket at {opening} is never closed")


def _tree_or_none(text: str) -> Formula | None:
    try:
        return parse_formula(text)
    except RuleError:
        return None
