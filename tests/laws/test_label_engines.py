"""Live events are searched by pydantic's copy of Rust's regex engine, archives by Polars': they agree."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from pydantic_core import SchemaValidator, core_schema
from tracline.rules.labels.few import REMEMBERED_CHARS_MAX, REMEMBERED_MAX, FewLabels, RememberedRows
from tracline.rules.labels.guards import TRUE
from tracline.rules.language.parse import parse_predicate
from tracline.rules.packs.load import load_packs, shipped_packs

CHARACTERS = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
"""All characters of Unicode."""
CLASSES = (
    r"\w",
    r"\d",
    r"\s",
    r".",
    r"[[:alpha:]]",
    *(rf"\p{{{name}}}" for name in ("L", "Lu", "Ll", "M", "N", "P", "S", "Z", "C", "Cn", "Emoji", "Latin")),
    *(rf"(?i){pattern}" for pattern in (r"\p{Lu}", r"[a-z]", r"[à-þ]", "[α-ω]", "[а-я]", r"[^\x00-\x7F]")),
)
RETAIL = Path(__file__).parents[2] / "benchmarks" / "retail.yaml"


def searcher(pattern: str) -> Callable[[str], bool]:
    """Return pydantic's search for a pattern."""
    schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    return SchemaValidator(schema).isinstance_python


@pytest.mark.parametrize("pattern", CLASSES)
def test_both_engines_give_each_character_the_same_classes(pattern: str) -> None:
    """Neither engine has newer tables of Unicode than the other."""
    few = list(map(searcher(pattern), CHARACTERS))
    assert any(few)
    assert few == pl.Series(CHARACTERS).str.contains(pattern).to_list()


def test_both_engines_fold_case_alike() -> None:
    """Of each character with a case, and of whatever Python takes for its other case."""
    cased = [each for each in CHARACTERS if each.lower() != each or each.upper() != each]
    assert len(cased) > 2_000
    for each in cased:
        others = sorted({each, each.lower(), each.upper(), each.title(), each.casefold(), each.swapcase()})
        pattern = f"(?i)^{re.escape(each)}$"
        assert list(map(searcher(pattern), others)) == pl.Series(others).str.contains(pattern).to_list()


@pytest.mark.parametrize("packs", [shipped_packs(), [RETAIL]])
def test_polars_evaluates_nothing_of_the_shipped_packs_for_a_few_events(packs: list[Path]) -> None:
    """A call for a few events is fast because of that."""
    rules = load_packs(packs).rules
    predicates = [predicate for rule in rules for predicate in rule.propositions.values()]
    keys = {rule.for_each: TRUE for rule in rules if rule.for_each is not None}
    assert not FewLabels(predicates, keys).by_polars
    assert FewLabels([parse_predicate("attributes.a matches /b/")], {}).by_polars


def test_a_memory_that_is_full_begins_again() -> None:
    """It is full of many keys, or of long ones."""
    rows = RememberedRows()
    many = range(REMEMBERED_MAX), range(5, REMEMBERED_MAX + 5), range(3 * REMEMBERED_MAX)
    long = [range(start, start + 10) for start in (0, 5, 20)]
    for keys, size in (*((keys, 0) for keys in many), *((keys, REMEMBERED_CHARS_MAX // 11) for keys in long)):
        texts = [str(key).rjust(size) for key in keys]

        def computed(places: list[int], texts: list[str] = texts) -> NDArray[np.uint8]:
            return np.array([[int(texts[place]) % 251] for place in places], dtype=np.uint8)

        assert rows.rows(texts, computed).ravel().tolist() == [key % 251 for key in keys]
