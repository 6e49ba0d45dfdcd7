"""Phrases of policies and other languages: the hint is the right spelling, or states that there is none."""

from __future__ import annotations

import re

import pytest
from tracline.rules.language.parse import parse_formula, parse_predicate
from tracline.rules.language.phrases import FORMULA, PREDICATE
from tracline.rules.model.problem import RuleError

FORMULAS = {
    "always (a before b)": "b -> once a",
    "never a after b": "a -> not once b",
    "no refund before yes": "refund -> once yes",
    "refund only after yes": "refund -> once yes",
    "a after b": "a -> once b",
    "refund only if approved": "refund -> once approved",
    "never leak": "always not leak",
    "count(p) <= 2": "p -> at_most[2] p",
    "always (count(p) < 2)": "p -> at_most[1] p",
    "count(p) < 1": "always not p",
    "count(p) >= 1": "once p",
    "count(p) >= 2": "once (p and previous once p)",
    "count(p) > 2": "once (p and previous once (p and previous once p))",
    "count(p) > 1000": "p -> at_most[2] p",
    "count(p) == 2": "p -> at_most[2] p",
    "count(p) == 0": "always not p",
    "p at most 2 times": "p -> at_most[2] p",
    "always (asks -> replies within 3 turns)": "eventually[0,3] replies",
    "asks -> replies within 5 minutes": "eventually[0,3] p",
    "eventually[0,5s] p": "eventually[0,3] p",
    "always (p -> eventually within 5m q)": "eventually[0,3] p",
    "F[0,5m] q": "eventually[0,3] p",
    "at most 2 p": "p -> at_most[2] p",
    "always (a followed by b)": "a -> next eventually b",
    "after a, b": "a -> next eventually b",
    "p exactly once": "p -> at_most[1] p",
    "p exactly 0 times": "always not p",
    "p occurs at least 2 times": "once (p and previous once p)",
}
PREDICATES = {
    "text matches /yes|ok/i": "/(?i)yes|ok/",
    'text ends with "b/y.e"': r"text matches /b\/y\.e$/",
    'text contains ["a", "b"]': 'text contains "a" or text contains ...',
    'text contains any ["a", "b"]': 'text contains "a" or text contains ...',
    'text starts with ["a", "b"]': 'text starts with "a" or text starts with ...',
    "text contains /yes/": "text matches /yes/",
    "any(args.passengers.age < 12)": "any(args.passengers, .age < ...)",
    "all(args.passengers)": "all(args.passengers, .price > 3)",
    "any(p in args.passengers, p.age < 12)": "any(args.passengers, .price > 3)",
    "every(args.passengers, .age < 12)": "all(args.passengers, .price > 3)",
    "count(args.flights > 4)": "count(args.flights) > 4",
    "max(args.items, .price) > 100": "any(args.items, .price > 100)",
    "max(args.items, .price) <= 100": "all(args.items, .price <= 100)",
    "min(args.prices) < 100": "any(args.prices, . < 100)",
    "avg(args.items, .price) > 100": "sum(args.items, .price) > 100",
    "args.items[*].price > 3": "any(args.items, .price > ...)",
    "args.items[] == 3": "any(args.items, . == ...)",
    "len(args.items) > 4": "count(args.items) > 4",
    "len(text) > 4": "text matches /(?s)^.{500}/",
    'kind == "user" and args.age > 5 minutes': 'args.day < "2026-05-01"',
    "args.total > args.price + 30": "sum(args.items, .price) > 100",
    "args.total == 100 * count(args.items)": "sum(args.items, .price) > 100",
    "args.time > result.time - 24h": "sum(args.items, .price) > 100",
}


@pytest.mark.parametrize("text", FORMULAS)
def test_a_phrase_in_a_formula_gets_its_right_spelling(text: str) -> None:
    """The hint begins with a formula that can be pasted."""
    with pytest.raises(RuleError) as caught:
        parse_formula(text)
    assert "TRL107" in str(caught.value)
    written = re.findall(r"`([^`]*)`", str(caught.value).split("hint: ")[1])
    assert written[0] == FORMULAS[text]
    parse_formula(written[0])


@pytest.mark.parametrize("text", PREDICATES)
def test_a_phrase_in_a_condition_gets_its_right_spelling(text: str) -> None:
    """The hint has the condition, or the regular expression, that can be written."""
    with pytest.raises(RuleError) as caught:
        parse_predicate(text)
    assert "TRL107" in str(caught.value)
    written = re.findall(r"`([^`]*)`", str(caught.value).split("hint: ")[1])
    assert written[0] == PREDICATES[text]
    if "..." not in written[0]:
        parse_predicate(f"text matches {written[0]}" if written[0].startswith("/") else written[0])


def test_every_phrase_has_a_test() -> None:
    """Each pattern matches one of the texts above."""
    for phrases, texts in ((FORMULA, FORMULAS), (PREDICATE, PREDICATES)):
        assert [phrase.message for phrase in phrases if not any(map(phrase.pattern.search, texts))] == []


@pytest.mark.parametrize(
    ("text", "hint"), [("time > 3", "cannot be expressed yet"), ("text.length > 3", "`text matches /(?s)")]
)
def test_fields_that_there_are_not_yet_are_named(text: str, hint: str) -> None:
    """The hint states what cannot be expressed, instead of fields with similar names."""
    with pytest.raises(RuleError) as caught:
        parse_predicate(text)
    assert hint in caught.value.problems[0].hint
