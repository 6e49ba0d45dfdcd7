"""Numbers compare as in Python's exact arithmetic, however many digits they have."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tracline.rules.language.parse import parse_predicate
from tracline.rules.model.problem import RuleError

from ..predicate_answers import answers, event_rows
from .label_inputs import numerals

ORDER = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def nearest(numeral: str) -> Fraction | float:
    """Return the double nearest to a numeral; beyond all doubles, infinity."""
    double = float(numeral)
    return double if math.isinf(double) else Fraction(double)


def of_json(numeral: str) -> Fraction | float | None:
    """Return the value of a number in JSON: an exact 64-bit integer, else the nearest double or None."""
    if numeral.lstrip("-").isdigit() and -(2**63) <= int(numeral) < 2**64:
        return Fraction(int(numeral))
    value = nearest(numeral)
    return None if value in (math.inf, -math.inf) else value


def shortest(numeral: str) -> str:
    """Return the text of a number in JSON, as Python writes it; none beyond all doubles."""
    value = of_json(numeral)
    is_integer = numeral.lstrip("-").isdigit() and -(2**63) <= int(numeral) < 2**64
    return "" if value is None else str(value) if is_integer else repr(float(value))


def of_string(numeral: str) -> Fraction | float:
    """Return the value of a number in a string: an integer below 2**127 exactly, else the nearest double."""
    whole = numeral.lstrip("-").isdigit() and abs(int(numeral)) < 2**127
    return Fraction(int(numeral)) if whole else nearest(numeral)


def of_literal(numeral: str) -> Fraction | float:
    """Return the value of a number in a pack: an integer exactly, else the nearest double."""
    return Fraction(int(numeral)) if numeral.lstrip("-").isdigit() else nearest(numeral)


def is_literal(numeral: str) -> bool:
    """Return whether a pack can have it."""
    if numeral.lstrip("-").isdigit():
        return abs(int(numeral)) < 2**63
    return not math.isinf(float(numeral))


several = st.lists(numerals, min_size=1, max_size=60)


@settings(max_examples=60)
@given(several, st.lists(numerals.filter(is_literal), min_size=1, max_size=5))
@example(["9007199254740992", "-9007199254740992", "9007199254740993"], [f"{2**53}", f"-{2**53}"])
@example(["0.30000000000000004", "0.3", "3e23", "18446744073709551616", "123456789012345678901234"],
         ["0.30000000000000004", "3e23", "18446744073709551616.0", "1.2345678901234568e23"])  # fmt: skip
@example(["1e400", "-1e400", "1e-400", "1.7976931348623157e308"], ["1e-400", "1.7976931348623157e308"])
def test_a_comparison_of_numbers_is_that_of_their_values(values: list[str], literals: list[str]) -> None:
    """All six comparisons, of JSON numbers and of strings that hold one."""
    documents = [f'{{"n":{value},"s":{json.dumps(value)}}}' for value in values]
    documents = [text if of_json(value) is not None else text.replace(f'"n":{value},', "")
                 for text, value in zip(documents, values, strict=True)]  # fmt: skip
    asked = [(name, sign, literal) for name in "ns" for sign in ORDER for literal in literals]
    questions = [parse_predicate(f"args.{name} {sign} {literal}") for name, sign, literal in asked]
    found = answers(questions, event_rows([{"kind": "tool_call", "args": text} for text in documents]))
    for (name, sign, literal), answer in zip(asked, found, strict=True):
        right = of_literal(literal)
        for value, holds in zip(values, answer, strict=True):
            left = of_json(value) if name == "n" else of_string(value)
            assert holds is (left is not None and ORDER[sign](left, right)), (name, value, sign, literal)


@settings(max_examples=60)
@given(several)
def test_the_text_of_a_number_is_that_of_its_value(values: list[str]) -> None:
    """An integer has its digits; another number the shortest text that reads back as its double."""
    documents = [f'{{"n":{value}}}' for value in values]
    texts = [shortest(value) for value in values]
    plain = [text for text in texts if text and "e" not in text and text not in ("0", "-0", "0.0", "-0.0")]
    questions = [parse_predicate(f'args.n == "{text}"') for text in plain]
    found = answers(questions, event_rows([{"kind": "tool_call", "args": text} for text in documents]))
    for text, answer in zip(plain, found, strict=True):
        assert answer == [text == text_value for text_value in texts]


@pytest.mark.parametrize("numeral", ["1e400", "-1e400", "9223372036854775808", "12345678901234567890"])
def test_a_literal_that_no_number_holds_is_refused(numeral: str) -> None:
    """TRL152, with what to write instead."""
    with pytest.raises(RuleError) as caught:
        parse_predicate(f"args.n > {numeral}")
    (problem,) = caught.value.problems
    assert problem.code == "TRL152"
    assert ("1e19" in problem.hint) == numeral.isdigit()
