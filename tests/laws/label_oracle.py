"""Predicates and slices of one event, answered in plain Python from the words of the language."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tracline.rules.model.predicate import (
    And,
    Contained,
    Elements,
    Fold,
    Leaf,
    ListCondition,
    Literal,
    Measured,
    Not,
    Or,
    Path,
    Predicate,
    Quantified,
    Quantifier,
    Tally,
)
from tracline.rules.model.predicate import Test as Ask

Event = dict[str, Any]
"""The fields of an event by name."""


CONTAINER = object()
NOTHING = None
DEPTH_MAX = 127


def oracle(predicate: Predicate, event: Event) -> bool | None:
    """True, false, or None for unknown (Kleene)."""
    match predicate:
        case Literal(value):
            return value
        case Not(arg):
            inner = oracle(arg, event)
            return None if inner is None else not inner
        case And(args):
            found = [oracle(arg, event) for arg in args]
            return False if False in found else None if None in found else True
        case Or(args):
            found = [oracle(arg, event) for arg in args]
            return True if True in found else None if None in found else False
        case Leaf():
            return oracle_leaf(predicate, event)
        case _:
            return oracle_list(predicate, event)


def oracle_leaf(leaf: Leaf, event: Event) -> bool | None:
    """Return one question."""
    field = leaf.path.field
    if field == "kind":
        if event["kind"] == "unknown" and leaf.test is Ask.NE:
            equal = oracle_leaf(Leaf(leaf.path, Ask.EQ, leaf.operands), event)
            return None if equal is None else not equal
        if event["kind"] == "unknown" and "unknown" not in leaf.operands:
            return None if {"user", "assistant"} & set(leaf.operands) else False
        return holds(leaf, event["kind"])
    if leaf.against is not None:
        return field_oracle(leaf, leaf.against, event)
    compared = leaf.test not in (Ask.MATCHES, Ask.CONTAINS, Ask.STARTS_WITH, Ask.IS_NULL)
    whole_container = compared and not leaf.path.steps and is_document(leaf.path.field, event)
    answer = False if whole_container else holds(leaf, value_of(leaf.path, event))
    if not unknown(field, event):
        return answer
    if leaf.test is Ask.IS_NULL:
        return None if answer else False
    searched = leaf.test in (Ask.MATCHES, Ask.CONTAINS, Ask.STARTS_WITH)
    return True if searched and answer and event["content"] == "truncated" else None


def field_oracle(leaf: Leaf, against: Path, event: Event) -> bool | None:
    """Return a comparison of two fields of an event."""
    if unknown(leaf.path.field, event) or unknown(against.field, event):
        return None
    left, right = (
        CONTAINER if not path.steps and is_document(path.field, event) else value_of(path, event)
        for path in (leaf.path, against)
    )
    if {NOTHING, CONTAINER} & {left, right}:
        return False
    if leaf.test is Ask.NE:
        return not compared_values(Ask.EQ, str(left), str(right))
    return compared_values(leaf.test, str(left), str(right))


def compared_values(test: Ask, left: str, right: str) -> bool:
    """Compare two values: as numbers where both are, as texts where neither is."""
    number = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"
    numeric = [re.fullmatch(number, text) is not None for text in (left, right)]
    if numeric == [False, False]:
        return ordered(test, left, right)
    if numeric != [True, True]:
        return False
    whole_numbers = [
        re.fullmatch("-?[0-9]+", text) and -(2**127) <= int(text) < 2**127 for text in (left, right)
    ]
    read: Any = int if all(whole_numbers) else float
    return {
        Ask.EQ: read(left) == read(right),
        Ask.LT: read(left) < read(right),
        Ask.LE: read(left) <= read(right),
        Ask.GT: read(left) > read(right),
        Ask.GE: read(left) >= read(right),
    }[test]


def oracle_list(condition: ListCondition, event: Event) -> bool | None:
    """Return a condition on a list."""
    match condition:
        case Quantified(quantifier, elements, where):
            found = element_answers(elements, where, event)
            if not isinstance(found, list):
                return found
            decisive = quantifier is Quantifier.ANY
            return decisive if decisive in found else None if None in found else not decisive
        case Contained(path, elements):
            if unknown(path.field, event) or unknown(elements.list.field, event):
                return None
            value = CONTAINER if not path.steps and is_document(path.field, event) else value_of(path, event)
            items = [scalar(item) for item in items_of(elements, event) or []]
            known = [
                item
                for item in items
                if value not in (NOTHING, CONTAINER) and item not in (NOTHING, CONTAINER)
            ]
            return any(compared_values(Ask.EQ, str(item), str(value)) for item in known)
        case Measured(tally, test, operands, against):
            left = tally_oracle(tally, event)
            if against is None:
                if not isinstance(left, str):
                    return left
                tests = (
                    [(Ask.EQ, operand) for operand in operands] if test is Ask.IN else [(test, operands[0])]
                )
                return any(number_holds(each, left, operand) for each, operand in tests)
            right: object = None
            if isinstance(against, Tally):
                right = tally_oracle(against, event)
            elif not unknown(against.field, event):
                right = (
                    CONTAINER
                    if not against.steps and is_document(against.field, event)
                    else value_of(against, event)
                )
                right = False if right in (NOTHING, CONTAINER) else right
            if left is None or right is None:
                return None
            if left is False or right is False:
                return False
            if test is Ask.NE:
                return not compared_values(Ask.EQ, str(left), str(right))
            return compared_values(test, str(left), str(right))


def number_holds(test: Ask, text: str, operand: object) -> bool:
    """Return a comparison of a number with a literal."""
    return not ordered(Ask.EQ, text, operand) if test is Ask.NE else ordered(test, text, operand)


def items_of(elements: Elements, event: Event) -> list[Any] | None:
    """Return what is at the steps in each element of a list, or None where there is no list."""
    here, steps = elements.list, elements.list.steps
    if here.field == "element":
        found = reach(event["element"][0], steps)
    else:
        document = None if event[here.field] is None else parsed(event[here.field])
        found = NOTHING if document is None else reach(document[0], steps)
    return [reach(item, elements.steps) for item in found] if isinstance(found, list) else None


def element_answers(elements: Elements, where: Predicate, event: Event) -> list[bool | None] | bool | None:
    """Return the answers of a condition on each element; None if unknown, False if there is no list."""
    if unknown(elements.list.field, event):
        return None
    items = items_of(elements, event)
    return False if items is None else [oracle(where, {**event, "element": [item]}) for item in items]


def tally_oracle(tally: Tally, event: Event) -> str | bool | None:
    """Return the number of a list as text; None if unknown, False if there is none."""
    found = element_answers(tally.elements, tally.where or Literal(True), event)
    if not isinstance(found, list):
        return found
    if tally.fold is Fold.COUNT:
        return None if None in found else str(found.count(True))
    values = [scalar(item) for item in items_of(tally.elements, event) or []]
    texts = [str(value) for value in values if value is not NOTHING and value is not CONTAINER]
    number = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"
    if len(texts) < len(values) or not all(re.fullmatch(number, text) for text in texts):
        return False
    total, infinite = Fraction(0), set[float]()
    for text in texts:
        whole_number = re.fullmatch("-?[0-9]+", text) and abs(int(text)) < 2**127
        double = float(text)
        if whole_number:
            total += int(text)
        elif double in (float("inf"), float("-inf")):
            infinite.add(double)
        else:
            total += Fraction(repr(double))
    if infinite:
        return False if len(infinite) > 1 else "1e999" if infinite == {float("inf")} else "-1e999"
    return str(total) if total.denominator == 1 else repr(float(total))


def is_document(field: str, event: Event) -> bool:
    """Return whether the whole of `args` or `result` is a JSON object or array."""
    if field not in ("args", "result") or event[field] is None:
        return False
    document = parsed(event[field])
    return document is not None and isinstance(document[0], dict | list)


def unknown(field: str, event: Event) -> bool:
    """Return whether the event's kind has the field and what it held is not wholly known."""
    has = {
        "text": ("user", "assistant", "unknown"),
        "tool": ("tool_call", "tool_result"),
        "args": ("tool_call", "tool_result"),
        "result": ("tool_result",),
    }
    if event["kind"] not in has.get(field, ()):
        return False
    if event[field] is None:
        return event["kind"] == "unknown" or event["content"] != "captured"
    return field != "tool" and event["content"] in ("truncated", "redacted")


def value_of(path: Path, event: Event) -> object:
    """Return the scalar as text, a Boolean of a flag, CONTAINER, or NOTHING."""
    raw = event[path.field]
    if path.field == "element":
        return scalar(reach(raw[0], path.steps))
    if path.field == "attributes":
        return (raw or {}).get(path.steps[0])
    if path.field not in ("args", "result") or raw is None:
        return raw
    document = parsed(raw)
    if not path.steps:
        return document[0] if isinstance(document, list) and isinstance(document[0], str) else whole(raw)
    here = NOTHING if document is None else reach(document[0], path.steps)
    return scalar(here)


def whole(raw: str) -> str | None:
    """Return a whole field that is no JSON string: its text, unless that is JSON's null."""
    return None if raw == "null" else raw


def parsed(raw: str) -> list[Any] | None:
    """Return the JSON value in a list, or None where the text is broken."""

    def integer(digits: str) -> int | float:
        value = int(digits)
        return number(digits) if not -(2**63) <= value < 2**64 or digits == "-0" else value

    def number(digits: str) -> float:
        value = float(digits)
        if value in (float("inf"), float("-inf")):
            raise ValueError
        return value

    def never(_: str) -> None:
        raise ValueError

    try:
        value = json.loads(raw, parse_int=integer, parse_float=number, parse_constant=never)
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        return None
    return [value] if depth(value) <= DEPTH_MAX else None


def depth(value: Any) -> int:
    """Return how many arrays and objects are around the innermost value, or are it."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def scalar(value: object) -> object:
    """Return a JSON value's text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int):
        return json.dumps(value)
    return double_text(value) if isinstance(value, float) else CONTAINER


def double_text(value: float) -> str:
    """Return the shortest decimal of a double, plain between 1e-5 and 1e16."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    plain = "".join(map(str, digits))
    minus = "-" if sign else ""
    if plain == "0":
        return minus + "0.0"
    point = len(plain) + exponent
    if 0 < point <= 16:
        whole_part = plain[:point].ljust(point, "0")
        return f"{minus}{whole_part}.{plain[point:] or '0'}"
    if -5 < point <= 0:
        return f"{minus}0.{'0' * -point}{plain}"
    rest = f".{plain[1:]}" if len(plain) > 1 else ""
    return f"{minus}{plain[0]}{rest}e{'+' if point > 0 else ''}{point - 1}"


def holds(leaf: Leaf, value: object) -> bool:
    """Return the question asked of a value."""
    if leaf.test is Ask.IS_NULL:
        return value is NOTHING
    if leaf.test is Ask.IS_TRUE:
        return value is True
    if value is NOTHING or value is CONTAINER:
        return False
    text = str(value)
    first = leaf.operands[0]
    match leaf.test:
        case Ask.MATCHES:
            return re.search(str(first).replace("$", r"\Z"), text) is not None
        case Ask.CONTAINS:
            return str(first) in text
        case Ask.STARTS_WITH:
            return text.startswith(str(first))
        case Ask.IN:
            return any(holds(Leaf(leaf.path, Ask.EQ, (operand,)), value) for operand in leaf.operands)
        case Ask.NE:
            return not holds(Leaf(leaf.path, Ask.EQ, leaf.operands), value)
        case _:
            return ordered(leaf.test, text, first)


def ordered(test: Ask, text: str, operand: object) -> bool:
    """`==` and the four of order: with strings by text, with numbers by value."""
    left: Any = text.encode()
    right: Any = (json.dumps(operand) if isinstance(operand, bool) else str(operand)).encode()
    if isinstance(operand, int | float) and not isinstance(operand, bool):
        if not re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", text):
            return False
        digits = re.fullmatch(r"-?[0-9]+", text) and abs(int(text)) < 2**127
        left = Fraction(int(text)) if digits else float(text)
        right = Fraction(operand)
        if left in (float("inf"), float("-inf")):
            return test in ((Ask.GT, Ask.GE) if left > 0 else (Ask.LT, Ask.LE))
        left = Fraction(left)
    return {
        Ask.EQ: left == right,
        Ask.LT: left < right,
        Ask.LE: left <= right,
        Ask.GT: left > right,
        Ask.GE: left >= right,
    }[test]


def reach(here: Any, way: tuple[str | int, ...]) -> Any:
    """Return what stands at the end of the steps, or NOTHING."""
    for step in way:
        if isinstance(step, str):
            there = isinstance(here, dict) and step in here
        else:
            there = isinstance(here, list) and step < len(here)
        if not there:
            return NOTHING
        here = here[step]
    return here
