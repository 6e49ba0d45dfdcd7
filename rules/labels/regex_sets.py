"""Regex sets: several regular expressions searched in the same texts, in fewer and faster passes.

At a Unicode word boundary (`\\b`) Rust's engine leaves its automaton at the first byte beyond ASCII: one
typographic apostrophe makes the search up to eighty times as slow. Two other spellings avoid that. In a text
without letters beyond ASCII the ASCII boundary matches at the same places. In other texts the pattern
without boundaries matches wherever the pattern does, so that only its matches need the slow search.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from ...schemas.frames.text_views import distinct_places
from ..model.regex_limits import regex_problems
from .automaton.automaton import Automata, automata_of
from .automaton.search import search_ascii
from .scatter import on_rows

NON_ASCII_LETTER = r"[\w&&[^\x00-\x7F]]"
"""A letter, digit or mark beyond ASCII: a word character to a Unicode boundary, and not to an ASCII one."""

REGEX_SET_MIN = 3
"""From this number of patterns on, one search for any of them saves more than it costs."""

AUTOMATON_BYTES_MIN = 1 << 22
"""From so many bytes of texts on, automata save more than it takes to build them."""

DISTINCT_MAX = 0.8
"""Share of the texts that are in different places up to which repeated texts are searched once."""

_ESCAPE = re.compile(r"\\(?P<boundary>b\{[a-z-]+\}|[bB<>])|\\.", re.DOTALL)
_VERBOSE = re.compile(r"\(\?[a-zA-Z-]*x")


@dataclass(frozen=True, slots=True)
class Forms:
    """Two fast spellings of a pattern with boundaries.

    `plain` is equal on texts without non-ASCII letters, `weak` matches wherever the pattern does.
    """

    plain: str
    weak: str


@dataclass(frozen=True, slots=True)
class RegexSet:
    """Patterns that are searched in the same texts.

    `forms` has the patterns with boundaries. `any` matches a text without non-ASCII letters (any text, if
    there are no forms) where one of the patterns does; None where such a search saves nothing.
    """

    patterns: tuple[str, ...]
    forms: Mapping[str, Forms]
    any: str | None

    @property
    def is_faster(self) -> bool:
        """Return whether `search` is faster than one search for each pattern."""
        return bool(self.forms) or self.any is not None


def regex_set(patterns: Sequence[str]) -> RegexSet:
    """Return the regex set of the patterns, which have no `regex_problems`.

    It leaves out patterns that have boundaries and no other spelling, and patterns that match an empty text
    and so every text.
    """
    empty = pl.Series([""])
    alone = {pattern for pattern in patterns if empty.str.contains(pattern).item()}
    forms: dict[str, Forms] = {}
    for pattern in patterns:
        found = Forms(_respelled(pattern, r"(?-u:\{})"), _respelled(pattern, "(?:)"))
        if pattern in alone or found.plain == pattern:
            continue
        if _is_valid(found.plain) and _is_valid(found.weak):
            forms[pattern] = found
        else:
            alone.add(pattern)
    together = tuple(dict.fromkeys(pattern for pattern in patterns if pattern not in alone))
    joined = _any([forms[pattern].plain if pattern in forms else pattern for pattern in together])
    return RegexSet(together, forms, joined)


def search(regexes: RegexSet, texts: pl.Expr) -> pl.Expr:
    """Return a struct of Booleans, never null: `p{i}` is true where pattern `i` matches.

    Texts with non-ASCII letters, of which most files have few, are searched separately.
    """

    def matches(batch: pl.Series) -> pl.Series:
        frame = pl.DataFrame([batch.alias("text")])
        found = _search_many(regexes, frame) if _is_long(batch) else _search(regexes, frame)
        return found.to_struct(batch.name)

    dtype = pl.Struct({name: pl.Boolean() for name in _names(regexes)})
    return texts.map_batches(matches, return_dtype=dtype, is_elementwise=True)


def _is_long(texts: pl.Series) -> bool:
    """Return whether the texts have so many bytes that it pays to prepare the search."""
    return len(texts) > 0 and texts.str.len_bytes().sum() >= AUTOMATON_BYTES_MIN


def _search_many(regexes: RegexSet, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the same as `_search`, of many texts: repeated texts are searched once."""
    distinct = distinct_places(frame["text"])
    repeats = len(distinct.rows) <= DISTINCT_MAX * len(frame)
    searched = frame[distinct.rows] if repeats else frame
    automata = automata_of(regexes.patterns) if regexes.forms else None
    if automata is not None and automata.groups:
        found = _search_automata(regexes, automata, searched)
    else:
        found = _search(regexes, searched)
    return found[distinct.alike] if repeats else found


def _search(regexes: RegexSet, frame: pl.DataFrame) -> pl.DataFrame:
    """Return where each of the patterns matches, by Rust's engine."""
    non_ascii = _has_non_ascii(frame["text"]) if regexes.forms else None
    if non_ascii is None or not non_ascii.any():
        return _search_plain(regexes, frame)
    plain = on_rows(~non_ascii, frame, lambda rows: _search_plain(regexes, rows))
    unicode = on_rows(non_ascii, frame, lambda rows: _search_unicode(regexes, rows))
    pairs = zip(plain.iter_columns(), unicode.iter_columns(), strict=True)
    return pl.DataFrame([left | right for left, right in pairs])


def _search_automata(regexes: RegexSet, automata: Automata, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the same as `_search`: automata search ASCII texts, and Rust's engine what they leave."""
    found = search_ascii(automata, frame["text"])
    rest = tuple(place for place in range(len(regexes.patterns)) if place not in found.matches)
    columns = {place: pl.Series(matches) for place, matches in found.matches.items()}

    def search_again(rows: pl.Series, places: Iterable[int]) -> None:
        """Search these rows for the patterns at these places."""
        chosen = tuple(places)
        part = _part(tuple(regexes.patterns[place] for place in chosen))
        searched = on_rows(rows, frame, lambda rows: _search(part, rows))
        columns.update(zip(chosen, searched.iter_columns(), strict=True))

    for place in automata.weak:
        search_again(columns[place], [place])
    if found.beyond_ascii.any():
        ascii_only = dict(columns)
        search_again(pl.Series(found.beyond_ascii), ascii_only)
        columns.update((place, matches | columns[place]) for place, matches in ascii_only.items())
    if rest:
        search_again(pl.repeat(True, len(frame), eager=True), rest)
    names = _names(regexes)
    return pl.DataFrame([columns[place].alias(name) for place, name in enumerate(names)])


@lru_cache(maxsize=256)
def _part(patterns: tuple[str, ...]) -> RegexSet:
    """Return a regex set of some patterns of another one."""
    return regex_set(patterns)


def _names(regexes: RegexSet) -> list[str]:
    return [f"p{place}" for place in range(len(regexes.patterns))]


def _has_non_ascii(texts: pl.Series) -> pl.Series:
    """Return which texts have non_ascii letters; a null has none."""
    wide = (texts.str.len_bytes() != texts.str.len_chars()).fill_null(False)
    if not wide.any():
        return wide
    frame = pl.DataFrame([texts.alias("text")])
    searches = [pl.col("text").str.contains(NON_ASCII_LETTER)]
    return on_rows(wide, frame, lambda rows: rows.select_seq(searches)).to_series()


def _search_plain(regexes: RegexSet, frame: pl.DataFrame) -> pl.DataFrame:
    """Return where each of the patterns matches in texts without non-ASCII letters."""
    text, forms = pl.col("text"), regexes.forms
    spelled = [forms[pattern].plain if pattern in forms else pattern for pattern in regexes.patterns]
    searches = [
        text.str.contains(pattern).fill_null(False).alias(name)
        for pattern, name in zip(spelled, _names(regexes), strict=True)
    ]
    if regexes.any is None:
        return frame.select_seq(searches)
    candidates = frame["text"].str.contains(regexes.any).fill_null(False)
    return on_rows(candidates, frame, lambda rows: rows.select_seq(searches))


def _search_unicode(regexes: RegexSet, frame: pl.DataFrame) -> pl.DataFrame:
    """Return where each of the patterns matches in any texts but nulls."""
    text = pl.col("text")
    found: list[pl.Series] = []
    for pattern, name in zip(regexes.patterns, _names(regexes), strict=True):
        searches = [text.str.contains(pattern).alias(name)]
        form = regexes.forms.get(pattern)
        if form is None:
            found.append(frame.select_seq(searches).to_series())
        else:
            candidates = frame["text"].str.contains(form.weak)
            column = on_rows(candidates, frame, lambda rows, searches=searches: rows.select_seq(searches))
            found.append(column.to_series())
    return pl.DataFrame(found)


def _respelled(pattern: str, spelling: str) -> str:
    """Return the pattern with each word boundary in another spelling; `{}` is what followed its backslash."""

    def respell(found: re.Match[str]) -> str:
        boundary = found["boundary"]
        return found[0] if boundary is None else spelling.replace("{}", boundary)

    return _ESCAPE.sub(respell, pattern)


def _any(patterns: Sequence[str]) -> str | None:
    """Return a pattern that matches where one of these does, None where it is invalid or saves nothing."""
    if len(patterns) < REGEX_SET_MIN or any(map(_has_comment, patterns)):
        return None
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    return joined if _is_valid(joined) else None


def _has_comment(pattern: str) -> bool:
    """Return whether a verbose pattern may have a comment, which would include a parenthesis after it."""
    return bool(_VERBOSE.search(pattern)) and "#" in _ESCAPE.sub("", pattern)


def _is_valid(pattern: str) -> bool:
    return not any(True for _ in regex_problems(pattern))
