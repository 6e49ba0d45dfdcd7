"""Canonical text is that of RFC 8785 wherever there is one, and one text for each value beyond it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.schemas import event
from tracline.schemas.canonical_json import LEVELS_MAX, canonical_json
from tracline.schemas.event import canonical_text

from .quick_draws import quickly

SAFE = 2**53 - 1
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
CLEAN = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ANY = st.text(st.characters(), max_size=5)
BLANKS = st.text(" \t\n\r", max_size=2)


def values(scalars: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """JSON values with these scalars and keys."""
    return st.recursive(
        st.none() | st.booleans() | keys | scalars,
        lambda scalar: st.lists(scalar, max_size=4) | st.dictionaries(keys, scalar, max_size=4),
        max_leaves=12,
    )


def shuffled(value: Any, random: Random) -> Any:
    """Return the same value with the keys of its objects in another order."""
    if isinstance(value, list):
        return [shuffled(item, random) for item in value]
    if not isinstance(value, dict):
        return value
    items = [(key, shuffled(item, random)) for key, item in value.items()]
    random.shuffle(items)
    return dict(items)


def as_doubles(read: Any, value: Any) -> Any:
    """Return what was read, with a double wherever the value has one: its text may look like an integer."""
    match value:
        case list():
            return [as_doubles(*pair) for pair in zip(read, value, strict=True)]
        case dict():
            return {key: as_doubles(read[key], item) for key, item in value.items()}
        case float():
            return float(read)
    return read


@given(quickly(values(st.integers(-SAFE, SAFE) | DOUBLES, CLEAN)), BLANKS, st.booleans())
@settings(max_examples=500, deadline=None)
def test_what_has_an_rfc_8785_form_has_these_bytes(value: Any, blank: str, ascii_only: bool) -> None:
    """Both ways to a canonical text, the fast one and the total one, give what rfc8785 gives."""
    separators = f"{blank},{blank}", f"{blank}:"
    text = f"{blank}{json.dumps(value, separators=separators, ensure_ascii=ascii_only)}{blank}"
    expected = rfc8785.dumps(json.loads(text)).decode()
    assert canonical_text(text) == canonical_json(text) == expected


@given(quickly(values(st.integers() | st.integers(-(2**70), 2**70) | DOUBLES, ANY)), st.integers(0, 99))
@settings(max_examples=500, deadline=None)
def test_any_value_has_one_text_that_holds_it(value: Any, seed: int) -> None:
    """Key order and spaces change nothing; the text reads as the value, to the last digit, and is its own."""
    value = json.loads(json.dumps(value))
    text = canonical_text(json.dumps(value))
    assert canonical_text(json.dumps(shuffled(value, Random(seed)), indent=2)) == text
    assert canonical_text(text) == canonical_json(text) == text
    assert as_doubles(json.loads(text), value) == value
    text.encode()


@given(st.integers(-(10**6), 10**6).filter(bool), st.integers(1, 420))
def test_integers_of_one_value_have_one_text(digits: int, zeros: int) -> None:
    """`1e2`, `100` and `100.0` are one number, however large; in doubles each as RFC 8785 has it."""
    spelled = f"{digits}{'0' * zeros}", f"{digits}e{zeros}", f"{digits}0.0E{zeros - 1:+}"
    assert len({canonical_text(spelling) for spelling in spelled}) == 1


@given(st.integers(2**53, 2**1200))
def test_an_integer_differs_from_its_neighbours(value: int) -> None:
    """No digit of an integer is lost: ids that differ by one stay two."""
    assert len({canonical_text(str(number)) for number in (value - 1, value, value + 1, -value)}) == 4


@given(
    st.lists(
        st.sampled_from([*'[]{},:" -019.eE\\u\n', "true", "null", "NaN", "Infinity", '"a":']), max_size=9
    )
)
@settings(max_examples=1_000)
def test_text_is_json_where_python_reads_it(parts: list[str]) -> None:
    """The total way refuses what Python's parser refuses, and nothing else."""
    text = "".join(parts)
    try:
        json.loads(text)
    except ValueError:
        assert canonical_json(text) is None
        assert canonical_text(text) == text
    else:
        assert canonical_json(text) is not None


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('{"b": 1.0, "a": 9007199254740993}', '{"a":9007199254740993,"b":1}'),
        ("[9007199254740992, -9007199254740993]", "[9007199254740992,-9007199254740993]"),
        ("[1000000000000000000000, 1e21, 1152921504606846976]", "[1e+21,1e+21,1152921504606846976]"),
        ("[1e400, -10.50e400, 1E-400, 0e999]", "[1e+400,-1.05e+401,0,0]"),
        ("[1e9999999999999999999]", "[1e9999999999999999999]"),
        ('{"z": NaN, "a": [Infinity, -Infinity]}', '{"a":[Infinity,-Infinity],"z":NaN}'),
        (
            r'{"\ud83d": "\uDE00", "\ud83d\ude00": 9007199254740993}',
            '{"\\ud83d":"\\ude00","😀":9007199254740993}',
        ),
        ('{"\ufb01": 1e999, "😀": 2}', '{"😀":2,"\ufb01":1e+999}'),
        ('{"a": 1, "a": 9007199254740993}', '{"a":9007199254740993}'),
    ],
)
def test_what_rfc_8785_leaves_out_has_a_form_too(text: str, canonical: str) -> None:
    """Large integers, numbers beyond doubles, what is no JSON number, halves of characters, equal keys."""
    assert canonical_text(text) == canonical


def nested(levels: int, inner: str) -> str:
    """Return JSON text with that many levels, the innermost an object."""
    return f"{'[' * (levels - 1)}{inner}{']' * (levels - 1)}"


def test_a_deep_text_stands_as_it_is() -> None:
    """Up to the limit keys are in order; beyond it a text is its own form, whatever the caller's stack is."""
    spelled, canonical = '{"b": "]", "a": "\\"["}', '{"a":"\\"[","b":"]"}'
    assert canonical_text(nested(LEVELS_MAX, spelled)) == nested(LEVELS_MAX, canonical)
    for levels in (LEVELS_MAX + 1, 3_000, 50_000):
        assert canonical_text(nested(levels, spelled)) == nested(levels, spelled)
    assert canonical_text(nested(3_000, spelled)[:-1]) == nested(3_000, spelled)[:-1]


def test_brackets_in_texts_are_no_levels() -> None:
    """Only brackets outside of strings nest."""
    text = f'{{"b": "{"[" * 300}", "a": [{"[]," * 300}1]}}'
    assert canonical_text(text) == f'{{"a":[{"[]," * 300}1],"b":"{"[" * 300}"}}'


NEAR_LIMITS = st.from_regex(r"-?(0|[1-9][0-9]{0,16})(\.[0-9]{1,17})?([eE][-+]?[0-9]{1,2})?", fullmatch=True)
WRITTEN = st.text(st.sampled_from('abé"\\/u0019eE.-{}[]:,\n\x7f 😀'), max_size=8).map(json.dumps)


MEMBERS = st.lists(
    st.tuples(WRITTEN, NEAR_LIMITS | WRITTEN | st.sampled_from(["true", "null", "{}", "[1.5, -0]"]))
)


@given(quickly(st.lists(MEMBERS, min_size=20, max_size=20)))
@settings(max_examples=200, deadline=None)
def test_texts_near_the_limits_of_the_fast_path_have_these_bytes(
    objects: list[list[tuple[str, str]]],
) -> None:
    """Numbers of every spelling and texts that look like numbers, in 4,000 objects with any names."""
    for members in objects:
        text = f"{{{', '.join(f'{name}: {value}' for name, value in members)}}}"
        try:
            expected = rfc8785.dumps(json.loads(text)).decode()
        except ValueError:
            expected = canonical_json(text)
        assert canonical_text(text) == expected, text


@pytest.mark.parametrize(
    ("text", "is_fast"),
    [
        ('{"order_id": "A-0042", "amount": 12.50, "items": [1, true, null]}', True),
        ('{"at": "10:30. Then"}', True),
        ('{"amount": 1.0}', False),
        ('{"amount": 1e3}', False),
        ('{"amount": -0}', False),
        ('{"é": 1}', False),
        ('{"a": "\\ud83d"}', False),
        ('{"number": 12345678901234567}', False),
    ],
)
def test_most_arguments_need_no_slow_path(text: str, is_fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and numbers as agents write them are canonical by orjson alone; others are not tried with it."""
    monkeypatch.setattr(event, "json" if is_fast else "orjson", None)
    canonical_text(f"{text} ")
