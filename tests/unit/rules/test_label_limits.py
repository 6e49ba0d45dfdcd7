"""Expressions that the language can write and its engine cannot run are refused at their place."""

from __future__ import annotations

import polars as pl
import pytest
from tracline.rules.labels.labeler import Labeler
from tracline.rules.language.parse import parse_path, parse_predicate
from tracline.rules.model.formula import TRUE
from tracline.rules.model.predicate import (
    ELEMENT,
    Contained,
    Elements,
    Leaf,
    Path,
    Predicate,
    Quantified,
    Quantifier,
)
from tracline.rules.model.predicate import Test as Ask
from tracline.rules.model.problem import RuleError
from tracline.rules.model.regex_limits import REGEX_CHARS_MAX, regex_problems
from tracline.rules.model.rule import Rule, RuleSet, SliceKey

from ...support.truth.predicate_answers import evaluate

PATTERNS = [
    *("(", "(?=a)", r"\1", "x{2,1}", r"\K", r"\Z", "*a", "a{1000000}", "(a{1000}){1000}", r"(?-u)\xff"),
    *("(?i)yes", r"\bno\b", r"\d{3,16}", r"\p{Greek}", "[a-z&&[^b]]", "(?<n>x)", "^$", "(?s).", "a|b", "é"),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_regular_expression_is_refused_exactly_when_polars_would(pattern: str) -> None:
    """Checking uses another library than matching; both accept the same."""
    try:
        pl.Series([""]).str.contains(pattern)
        accepted = True
    except pl.exceptions.ComputeError:
        accepted = False
    assert (not list(regex_problems(pattern))) == accepted


def test_a_bad_regular_expression_is_shown_with_its_reason_and_place() -> None:
    """TRL140 names what the engine does not know, under a caret."""
    with pytest.raises(RuleError) as caught:
        parse_predicate("text matches /(?=yes)/")
    (problem,) = caught.value.problems
    assert problem.code == "TRL140"
    assert "look-around" in problem.message
    assert problem.location is not None
    assert problem.location.column == 14


@pytest.mark.parametrize("pattern", ["a{1000}" * 2 + "{1000}", "a" * (REGEX_CHARS_MAX + 1)])
def test_a_regular_expression_that_is_too_large_is_refused(pattern: str) -> None:
    """TRL141 guards both the text and what it compiles to."""
    with pytest.raises(RuleError, match="TRL141"):
        parse_predicate(f"text matches /{pattern}/")


def test_a_key_that_has_no_spelling_is_refused() -> None:
    """TRL142: JSONPath as Polars reads it cannot name a key with a backslash, nor a huge index."""
    with pytest.raises(RuleError, match="TRL142"):
        parse_path(r'args["a\\b"]')
    with pytest.raises(RuleError, match="TRL142"):
        evaluate(Leaf(Path("args", (2**32,)), Ask.IS_NULL), {"kind": "tool_call"})


def test_lists_nest_only_so_deep() -> None:
    """TRL148: each level is a plan of its own; what is inside counts as conditions (TRL143), too."""
    assert parse_predicate("any(args.a, any(.b, any(.c, any(.d, any(.e, . == 1)))))")
    with pytest.raises(RuleError, match="TRL148"):
        parse_predicate("any(args.a, any(.b, any(.c, any(.d, any(.e, any(.f, . == 1))))))")
    with pytest.raises(RuleError, match="TRL143"):
        parse_predicate(f"any(args.a, {' or '.join(['. == 1'] * 501)})")
    with pytest.raises(RuleError, match="TRL146"):
        parse_predicate(f'any(args.a, . == "{"x" * 5_000}")')


@pytest.mark.parametrize(
    "predicate",
    [
        Leaf(Path(ELEMENT, ("a",)), Ask.EQ, (1,)),
        Quantified(Quantifier.ANY, Elements(Path("args")), Leaf(Path("tool"), Ask.EQ, ("x",))),
        Quantified(Quantifier.ANY, Elements(Path("args")), Contained(Path("tool"), Elements(Path("result")))),
    ],
)
def test_elements_are_read_in_their_list_only(predicate: Predicate) -> None:
    """TRL136: a condition that was built in Python cannot confuse elements and fields."""
    with pytest.raises(RuleError, match="TRL136"):
        evaluate(predicate, {"kind": "tool_call", "args": "[1]"})


def test_a_backslash_in_an_attribute_is_no_problem() -> None:
    """Attributes are looked up by name, not by JSONPath."""
    predicate = parse_predicate(r'attributes["a\\b"] == "x"')
    assert evaluate(predicate, {"kind": "user", "attributes": {"a\\b": "x"}}) is True


def test_labels_refuse_what_was_built_without_parsing() -> None:
    """A rule set made in Python is checked when its labels are planned, its slice paths included."""
    bad = Leaf(Path("text"), Ask.MATCHES, ("(",))
    key = SliceKey((Path("args", ("a\\b",)),), joint=False)
    with pytest.raises(RuleError) as caught:
        Labeler(RuleSet((Rule("p", "r", "", TRUE, "true", {"bad": bad}, for_each=key),), {}))
    assert [problem.code for problem in caught.value.problems] == ["TRL140", "TRL142"]
