"""Tuples of slices are canonical JSON, by any of the ways in which labels write it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import rfc8785
from tracline.rules.formula import TRUE
from tracline.rules.label import Labeler
from tracline.rules.parse import parse_path
from tracline.rules.rule import Rule, RuleSet, SliceKey
from tracline.schemas.event import Event, Kind
from tracline.schemas.frame import event_frame

from .label_oracle import vast

DOCUMENTS = 5_000
INTEGERS = [0, -1, 5, 10**15, 2**53 - 1, 123456789012345, 1 - 2**53]
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

    Where a number is beyond what is read exactly, the slice cannot be said.
    """
    random = Random(8785)
    documents = [{key: _value(random, 2) for key in random.sample(KEYS, 3)} for _ in range(DOCUMENTS)]
    key = SliceKey((parse_path("args"),), joint=True)
    rule = Rule("p", "r", "", TRUE, "true", {}, for_each=key)
    rows = [Event("s", 0, 0, i, Kind.TOOL_CALL, args=json.dumps(one)) for i, one in enumerate(documents, 1)]
    found = Labeler(RuleSet((rule,), {})).label(event_frame(rows).lazy()).collect()
    vague = [vast(one) for one in documents]
    assert found["su0"].to_list() == vague
    exact = [
        None if unsaid else rfc8785.dumps([one]).decode()
        for one, unsaid in zip(documents, vague, strict=True)
    ]
    assert found["s0"].to_list() == exact
    assert 0 < sum(vague) < DOCUMENTS // 2


def _value(random: Random, depth: int) -> Any:
    """A JSON value with at most that many levels below it."""
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
