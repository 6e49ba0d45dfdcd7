"""Automata find in texts what Rust's engine finds, whatever the pattern and the script."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tracline.rules.labels import regex_sets
from tracline.rules.labels.automaton.ascii_syntax import read_pattern
from tracline.rules.labels.automaton.automaton import PATTERNS_TRIED_MAX, Automata, automata_of
from tracline.rules.labels.automaton.search import search_ascii
from tracline.rules.labels.labeler import Labeler
from tracline.rules.labels.plan import pattern_of
from tracline.rules.labels.regex_sets import regex_set, search
from tracline.rules.model.predicate import leaves
from tracline.rules.model.regex_limits import regex_problems
from tracline.rules.packs.load import load_packs, shipped_packs

from ..support.synthetic_events import synthetic_events

RETAIL = Path(__file__).parents[2] / "benchmarks" / "retail.yaml"
ASCII = "akKsS1_ -.\n"
ALPHABET = ASCII + "éÉ’\u00a0ſ\u212a中ø\u0301😀"

verbose = st.lists(
    st.sampled_from(
        [
            *("a", "k", " ", "\n", "# no\n", r"\ ", r"\#", "(", ")", "|", "+", "?", r"\b", "{2}", "-"),
            *("[ak]", "[a- k]", "[a- ]", "[a-k ]", r"[\d- ]", "[- a]", "[^ ]"),
        ]
    ),
    max_size=9,
)
single = st.sampled_from(
    [
        *"akSs1_ é-中",
        *(r"\.", r"\-", r"\ ", r"\n", ".", "^", "$", r"\b", r"\b", r"\B", r"\A", r"\z"),
        *(r"\d", r"\w", r"\s", r"\D", r"\W", r"\S"),
        *(
            "[ak]",
            "[^a]",
            "[a-z_]",
            r"[^\w]",
            r"[\s.]",
            "[ -]",
            "[K-\u212a]",
            "[^s]",
            "[0-9A-Fé]",
            r"[\d\-k]",
        ),
        *("ſ", "\u212a", r"[^\ss]", "[.*+]", "ka", "as", "no ", r"\bk", r"k\b"),
    ]
)
repeated = st.sampled_from(["", "", "", "*", "+", "?", "*?", "{2}", "{0,2}", "{1,}", "{0}", "{1,2}?"])
opened = st.sampled_from(["(", "(?:", "(?i:", "(?s:", "(?-i:", "(?si-s:", "(?P<it>", "(?i)(", "(?U:"])


def grouped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return patterns one level around others."""
    turns = st.lists(st.tuples(inner, repeated).map("".join), max_size=4).map("".join)
    alternatives = st.lists(turns, min_size=1, max_size=3).map("|".join)
    groups = st.tuples(opened, alternatives, repeated).map(lambda part: f"{part[0]}{part[1]}){part[2]}")
    return st.one_of(turns, groups)


patterns = st.one_of(
    st.recursive(single, grouped, max_leaves=8),
    st.tuples(st.sampled_from(["(?x)", "(?ix) ", "(?x:a )"]), verbose.map("".join)).map("".join),
    st.tuples(st.sampled_from(["(?i)", "(?s)", ""]), st.recursive(single, grouped, max_leaves=6)).map(
        "".join
    ),
)
ascii_texts = st.lists(st.none() | st.text(ASCII, max_size=9), min_size=1, max_size=9)
texts = st.lists(st.none() | st.text(ALPHABET, max_size=9), min_size=1, max_size=9)


@settings(max_examples=1_000)
@given(st.lists(patterns, min_size=1, max_size=3), texts)
def test_automata_find_what_the_engine_finds(asked: list[str], texts: list[str | None]) -> None:
    """Each pattern by itself and with others, in texts with and without characters beyond ASCII."""
    valid = [pattern for pattern in asked if not any(True for _ in regex_problems(pattern))]
    assume(valid)
    column = pl.Series(texts, dtype=pl.String)
    automata = automata_of(tuple(valid))
    assume(automata.groups)
    found = search_ascii(automata, column)
    beyond = [text is not None and not text.isascii() for text in texts]
    assert found.beyond_ascii.tolist() == beyond
    for place, matches in found.matches.items():
        expected = column.str.contains(valid[place]).fill_null(False).to_list()
        known = [
            (match, right) for match, right, wide in zip(matches, expected, beyond, strict=True) if not wide
        ]
        if place in automata.weak:
            assert all(match or not right for match, right in known)
        else:
            assert all(match == right for match, right in known), valid[place]


SHORT = (
    r"(?i)\b(no|stop|never mind)\b",
    r"\b(?:1[ -]?){3}1\b",
    r"^k\b|\bas+ k$",
    r"\Bk|s\B",
    r"[^a-k]\b.",
    r"(k|ka|kas)+1?$",
    r"(?:^|\s)s(?i)K",
    r"^$",
)


def test_automata_find_what_the_engine_finds_in_all_short_texts() -> None:
    """All texts of up to five characters of an alphabet."""
    column = pl.Series(["".join(text) for size in range(6) for text in product("ks1 -a", repeat=size)])
    found = search_ascii(automata_of(SHORT), column)
    assert set(found.matches) == set(range(len(SHORT)))
    for place, matches in found.matches.items():
        assert matches.tolist() == column.str.contains(SHORT[place]).to_list(), SHORT[place]


@settings(max_examples=300)
@given(st.lists(patterns, min_size=1, max_size=4), texts)
def test_a_regex_set_finds_the_same_with_automata(asked: list[str], texts: list[str | None]) -> None:
    """Automata leave other characters, other syntax and patterns that are large to Rust's engine."""
    asked = [*asked, r"\bk", r"\p{L}\b", r"\b(?:\d[ -]?){15}\d\b", r"(a.{12}k)+\b"]
    regexes = regex_set([pattern for pattern in asked if not any(True for _ in regex_problems(pattern))])
    texts = [*texts, "1" * 16, "x" + "1-" * 16, "4000 1234-5678 9010 k", "a" + "k " * 13]
    column = pl.Series("text", texts, dtype=pl.String)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regex_sets, "AUTOMATON_BYTES_MIN", 0)
        found = column.to_frame().select(search(regexes, pl.col("text"))).to_series().struct.unnest()
    for pattern, matches in zip(regexes.patterns, found.iter_columns(), strict=True):
        assert matches.to_list() == column.str.contains(pattern).fill_null(False).to_list(), pattern


@pytest.mark.parametrize(
    "pattern",
    [r"\p{L}", "[[:alpha:]]", "[a&&b]", "[a--b]", "(?x)[a k]", "(?x)[a- k]", "(?x)[a- ]", "(?m)^a", r"\x41"],
)
def test_other_syntax_has_no_automaton(pattern: str) -> None:
    """Rust's engine searches for what is not read."""
    assert not any(True for _ in regex_problems(pattern))
    assert read_pattern(pattern) is None


def test_a_pattern_that_is_too_large_is_searched_without_its_boundaries_or_not_at_all() -> None:
    """A card number may begin at each digit; a gap of any characters has too many states."""
    automata = automata_of((r"\bno\b", r"\b(?:\d[ -]?){15}\d\b", r"a.{12}k"))
    assert [places for _, places in automata.groups] == [(0, 1)]
    assert automata.weak == {1}


def test_hostile_patterns_have_no_automaton() -> None:
    """Building stops early where patterns have many nodes, and few of many patterns are tried."""
    for pattern in (r"(a?){1000}\b", r"((a{0,30}b){0,10}c){0,3}", r".{0,1000}k"):
        assert [places for _, places in automata_of((pattern, "zz")).groups] == [(1,)]
    many = automata_of(tuple(f"word{number}" for number in range(500)))
    assert {place for _, places in many.groups for place in places} == set(range(PATTERNS_TRIED_MAX))


def test_anchored_patterns_have_automata_beside_others_only() -> None:
    """Rust's engine finds out after a few characters that an anchored pattern does not match."""
    assert automata_of((r"^no\b", r"(?:^a|^\Wb)+", r"(^k)")).groups != ()
    assert automata_of((r"^no\b", r"(?:^a|^\Wb)", r"(^k)")).groups == ()


def test_most_patterns_that_ship_have_automata() -> None:
    """The patterns of the shipped packs and of the benchmark have automata, the large ones weakly."""
    for packs in (shipped_packs(), [RETAIL]):
        found = Labeler(load_packs(packs)).predicates
        asked = dict.fromkeys(pattern_of(leaf) for each in found for leaf in leaves(each))
        patterns = tuple(pattern for pattern in asked if pattern is not None)
        searched = {place for _, places in automata_of(patterns).groups for place in places}
        assert len(searched) >= 0.7 * len(patterns)


def test_labels_are_the_same_with_automata(monkeypatch: pytest.MonkeyPatch) -> None:
    """The labels of the shipped packs and of the benchmark, of texts of two scripts."""
    events = next(iter(synthetic_events(6_000, seed=5)))
    events = events.with_columns(
        text=pl.when(pl.col("seq") % 5 == 0).then(pl.col("text") + " é sí ’no’").otherwise("text")
    )
    for packs in (shipped_packs(), [RETAIL]):
        labels = Labeler(load_packs(packs))
        expected = labels.label(events.lazy()).collect()
        with monkeypatch.context() as patch:
            patch.setattr(regex_sets, "AUTOMATON_BYTES_MIN", 0)
            assert labels.label(events.lazy()).collect().equals(expected)


@settings(max_examples=100)
@given(st.lists(texts, min_size=1, max_size=4), st.lists(st.integers(0, 30), min_size=20, max_size=40))
def test_repeated_texts_are_searched_once_with_the_same_matches(
    parts: list[list[str | None]], places: list[int]
) -> None:
    """Texts of several scripts in one place each, as the entries of a Parquet dictionary are."""
    long = [
        None if text is None else text + " a text longer than a view: no k" for part in parts for text in part
    ]
    column = pl.Series("text", long, dtype=pl.String).gather([place % len(long) for place in 20 * places])
    regexes = regex_set([r"\bno k", r"k\b", r"(?i)\bA\b", r"é|\bS"])
    searched: list[int] = []
    search_plain = regex_sets._search

    def counting(asked: regex_sets.RegexSet, frame: pl.DataFrame) -> pl.DataFrame:
        searched.append(len(frame))
        return search_plain(asked, frame)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regex_sets, "AUTOMATON_BYTES_MIN", 0)
        patch.setattr(regex_sets, "DISTINCT_MAX", 1.0)
        patch.setattr(regex_sets, "_search", counting)
        patch.setattr(regex_sets, "automata_of", lambda _: Automata((), frozenset()))
        found = column.to_frame().select(search(regexes, pl.col("text"))).to_series().struct.unnest()
    # Of texts whose places look alike to the cache, some are searched again.
    assert len(searched) == 1
    assert searched[0] < len(column) / 2
    for pattern, matches in zip(regexes.patterns, found.iter_columns(), strict=True):
        assert matches.to_list() == column.str.contains(pattern).fill_null(False).to_list(), pattern
