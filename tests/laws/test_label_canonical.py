"""Tuples of slices are canonical JSON, by any of the ways in which labels write it."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import polars as pl
import pytest
import rfc8785
from tracline.rules.labels.labeler import Labeler
from tracline.rules.labels.slices import FEW_ROWS
from tracline.rules.language.parse import parse_path
from tracline.rules.model.formula import TRUE
from tracline.rules.model.rule import Rule, RuleSet, SliceKey
from tracline.schemas.event import Event, Kind
from tracline.schemas.frames.events import event_frame

from .slice_oracle import vast

DOCUMENTS = 5_000
INTEGERS = [0, -1, 5, 10**15, 2**53 - 1, 123456789012345, 1 - 2**53]
LONG_INTEGERS = [2**53, 2**53 + 1, -(2**53) - 1, 2**63, 2**64 - 1, -(2**63), 10**16 + 1]
DOUBLES = [
    0.1,
    100.0,
    1e16,
    1e-4,
    1e-5,
    1e-6,
    1e-7,
    1e21,
    1e22,
    -0.0,
    5e-324,
    123456789012345.6,
    10.50,
    7.000021,
]
TEXTS = [
    "1e+20",
    ":1e+20",
    "a",
    "é",
    "😀",
    "\uffff",
    "x\ny",
    '"q"',
    "\\",
    ":1.0,",
    "[1e5",
    "\x7f",
    "\u2028",
    "1",
    "null",
    "{}",
]
KEYS = ["a", "b", "A", "a b", "", "é", "😀", "\ufb01", "\uff0c"]


def test_any_arguments_are_written_as_rfc_8785_has_it() -> None:
    """Nested or flat, with numbers and keys of every sort: the slice is the canonical array of it.

    If a number is beyond what is read exactly, the slice cannot be named.
    """
    random = Random(8785)
    documents = [{key: _value(random, 2) for key in random.sample(KEYS, 3)} for _ in range(DOCUMENTS)]
    found = _sliced(documents)
    vague = [vast(document) for document in documents]
    assert found["su0"].to_list() == vague
    exact = [
        None if is_unknown else rfc8785.dumps([document]).decode()
        for document, is_unknown in zip(documents, vague, strict=True)
    ]
    assert found["s0"].to_list() == exact
    assert 0 < sum(vague) < DOCUMENTS // 2


@pytest.mark.parametrize("count", [FEW_ROWS, DOCUMENTS])
def test_integers_of_64_bits_keep_their_digits_in_any_order_of_keys(count: int) -> None:
    """Beside the largest integers, too, an object is one slice however it is written."""
    random = Random(64)
    documents = [
        {key: random.choice([*LONG_INTEGERS, *INTEGERS, *TEXTS]) for key in random.sample(KEYS, 3)}
        for _ in range(count)
    ]
    reversed_ = [dict(reversed(document.items())) for document in documents]
    found, again = _sliced(documents), _sliced(reversed_)
    assert not found["su0"].any()
    assert found["s0"].to_list() == again["s0"].to_list() == list(map(_exact, documents))


def _sliced(documents: list[dict[str, Any]]) -> pl.DataFrame:
    """Return the labels of calls with these arguments, by a rule for each of them."""
    key = SliceKey((parse_path("args"),), joint=True)
    rule = Rule("p", "r", "", TRUE, "true", {}, for_each=key)
    rows = [
        Event("s", 0, 0, i, Kind.TOOL_CALL, args=json.dumps(document))
        for i, document in enumerate(documents, 1)
    ]
    labeler, frame = Labeler(RuleSet((rule,), {})), event_frame(rows)
    found = labeler.label(frame.lazy()).collect()
    assert labeler.label_few(frame).equals(found)
    return found


def _exact(document: dict[str, Any]) -> str:
    """Return the canonical array of a flat object: RFC 8785, with marks where it has no integers so large."""
    marked = {key: f"<{value}>" if value in LONG_INTEGERS else value for key, value in document.items()}
    return re.sub('"<(-?[0-9]+)>"', r"\1", rfc8785.dumps([marked]).decode())


def _value(random: Random, depth: int) -> Any:
    """Return a JSON value with at most that many levels below it."""
    sort = random.randrange(6 if depth else 4)
    match sort:
        case 0:
            return random.choice(INTEGERS)
        case 1:
            return random.choice(DOUBLES)
        case 2:
            return random.choice(TEXTS)
        case 3:
            return random.choice([True, False, None])
        case 4:
            return [_value(random, depth - 1) for _ in range(random.randrange(4))]
        case _:
            return {random.choice(KEYS): _value(random, depth - 1) for _ in range(random.randrange(4))}
