"""The measured rules of the house: what breaks one may only shrink, and `allowances.toml` with it."""

from __future__ import annotations

import pytest

from .allowances import SECTIONS, allowed, counted, split

SHOWN_MAX = 30


@pytest.mark.parametrize("section", SECTIONS)
def test_what_breaks_a_rule_only_shrinks(section: str) -> None:
    """Each count is the one that is allowed: more is a fault, and less lowers the allowance for good."""
    hits = list(SECTIONS[section]())
    found, before = counted(hits), allowed(section)
    grown = {key: (before.get(key, 0), count) for key, count in found.items() if count > before.get(key, 0)}
    shrunk = {key: (count, found.get(key, 0)) for key, count in before.items() if found.get(key, 0) < count}
    places = [f"{hit.path}:{hit.line}: {hit.text}" for hit in hits if hit.key in grown]
    assert not grown, "\n".join([f"{section}: more than allowed: {grown}", *places[:SHOWN_MAX]])
    assert not shrunk, (
        f"{section}: less than allowed, which is good: {shrunk}; lower the allowance with\n"
        "  python -m tests.unit.house.allowances --write"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("_heardSpan_two", ["heard", "span", "two"]),
        ("JSONPath", ["json", "path"]),
        ("SAID_MAX", ["said", "max"]),
    ],
)
def test_identifiers_are_split_into_words(name: str, words: list[str]) -> None:
    """At underscores and at capitals; an abbreviation is one word."""
    assert split(name) == words
