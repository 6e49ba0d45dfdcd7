"""Plain JSON objects, and texts that nearly are: what is written of them in one pass is canonical JSON."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import polars as pl
import rfc8785
from tracline.rules.labels.objects.object_loop import DEPTH_MAX, MEMBERS_MAX
from tracline.rules.labels.objects.plain_objects import plain_objects

TEXTS = ["a", "b", "ab", "a b", "a!", "", 'z"', "x\n", "é", "1", "{}", ",:", "\x7f", "😀", "\\", " "]
NUMBERS = [0, -0.0, 1, -1, 10**15, 123456789012345, 0.1, -0.5, 0.05, 263.3, 1e21, 1.5e-7, 100.0, 1 / 3]
SEPARATORS = [(",", ":"), (", ", ": "), (" ,", " : ")]
MARKS = ["", *'{}[],:"0.-e tn']


def documents(random: Random, count: int) -> list[str]:
    """Return the texts of random objects in several layouts."""
    return [
        json.dumps(
            _object(random, 3), ensure_ascii=random.random() < 0.5, separators=random.choice(SEPARATORS)
        )
        for _ in range(count)
    ]


def written(texts: list[str]) -> list[tuple[str, str]]:
    """Return the texts that are plain objects, each with what is written of it."""
    found = zip(texts, plain_objects(pl.Series(texts)), strict=True)
    return [(text, form) for text, form in found if form is not None]


def test_what_is_written_of_an_object_is_its_canonical_form() -> None:
    """Objects with keys in any order, numbers and strings of every sort; a quarter of them are plain."""
    texts = documents(Random(1), 8_000)
    found = written(texts)
    assert len(found) > len(texts) // 5
    for text, form in found:
        assert rfc8785.dumps(json.loads(text)).decode() == form


def test_what_is_no_json_or_repeats_a_key_is_not_plain() -> None:
    """Texts of objects with a character more, a character less, or cut."""
    random = Random(2)
    for text, form in written([_damaged(random, text) for text in documents(random, 20_000)]):
        assert rfc8785.dumps(json.loads(text, object_pairs_hook=_once)).decode() == form


def test_limits() -> None:
    """Objects of more levels or members than there is memory for are left to the ordinary way."""
    deep = ["{" + '"a":{' * depth + "}" * depth + "}" for depth in (DEPTH_MAX - 1, DEPTH_MAX)]
    wide = [json.dumps({f"{i:03}": i for i in range(count)}) for count in (MEMBERS_MAX, MEMBERS_MAX + 1)]
    assert [text for text, _ in written([*deep, *wide])] == [deep[0], wide[0]]


def _object(random: Random, depth: int) -> dict[str, Any]:
    return {random.choice(TEXTS): _value(random, depth - 1) for _ in range(random.randrange(6))}


def _value(random: Random, depth: int) -> Any:
    """Return a JSON value with at most that many levels below it."""
    match random.randrange(6 if depth else 4):
        case 0:
            return random.choice(NUMBERS)
        case 1:
            return random.choice(TEXTS)
        case 2:
            return random.choice([True, False, None])
        case 3:
            return random.randrange(-(10**6), 10**6) / random.choice([1, 10, 1000])
        case 4:
            return _object(random, depth)
        case _:
            return [_value(random, depth - 1) for _ in range(random.randrange(4))]


def _damaged(random: Random, text: str) -> str:
    """Return a text with one mark put in or in the place of a character, or cut."""
    place = random.randrange(len(text))
    rest = random.choice([text[place:], text[place + 1 :], ""])
    return text[:place] + random.choice(MARKS) + rest


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs)
    return found
