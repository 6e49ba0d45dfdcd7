"""Predicates and slices of one event, answered in plain Python from the words of the language."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import rfc8785
from tracline.rules.model.predicate import And, Leaf, Literal, Not, Or, Path, Predicate
from tracline.rules.model.predicate import Test as Ask
from tracline.rules.model.rule import SliceKey

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


def slice_oracle(key: SliceKey, event: Event) -> tuple[str | None, bool]:
    """Return the slice value and whether it is unknown."""
    found = [member(path, event) for path in key.paths]
    doubts = [doubtful(path, event) for path in key.paths]
    if key.joint:
        doubts = [doubt or vast(value) for value, doubt in zip(found, doubts, strict=True)]
        if any(value is NOTHING and not doubt for value, doubt in zip(found, doubts, strict=True)):
            return None, False
        return (None, True) if any(doubts) else (f"[{','.join(map(canonical, found))}]", False)
    for value, doubt in zip(found, doubts, strict=True):
        if doubt or isinstance(value, list | dict) or (not isinstance(value, Written) and vast(value)):
            return None, True
        if value is not NOTHING:
            return str(scalar(value) if not isinstance(value, Written) else value.text), False
    return None, False


def vast(value: object) -> bool:
    """Return whether it is, or holds, a number of at least 1e16 that is no integer of 64 bits."""
    if isinstance(value, Written):
        return any(map(vast, parsed(value.text) or ()))
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, float) and abs(value) >= 1e16) or any(map(vast, inner))


class Written:
    """A JSON number as the whole of a field: its text stands as it was written."""

    def __init__(self, text: str) -> None:
        self.text = text


def doubtful(path: Path, event: Event) -> bool:
    """Return whether what a path names is unknown."""
    return event["kind"] == "unknown" if path.field == "kind" else unknown(path.field, event)


def member(path: Path, event: Event) -> Any:
    """Return the JSON value that a path names; plain text is a string."""
    raw = event[path.field]
    if path.field not in ("args", "result"):
        value = value_of(path, event)
        return json.dumps(value) if isinstance(value, bool) else value
    document = None if raw is None else parsed(raw)
    if not path.steps:
        if document is None or raw == "null":
            return whole(raw) if raw is not None else NOTHING
        if isinstance(document[0], int | float) or document[0] is None:
            return Written(raw)
        return document[0]
    return reach(document[0], path.steps) if document else NOTHING


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


def canonical(value: Any) -> str:
    """Canonical JSON (RFC 8785) of one member; with integers beyond doubles, compact JSON as it came."""
    if isinstance(value, Written):
        value = parsed(value.text)
        assert value is not None
        value = value[0]
    try:
        return rfc8785.dumps(value).decode()
    except rfc8785.IntegerDomainError:
        return compact(value)


def compact(value: Any) -> str:
    """JSON without spaces, keys in their order."""
    if isinstance(value, list):
        return f"[{','.join(map(compact, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{compact(key)}:{compact(found)}" for key, found in value.items()) + "}"
    return double_text(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
