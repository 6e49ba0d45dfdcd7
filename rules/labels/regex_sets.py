"""Regular expressions over many texts: the same answers as one search for each, in fewer and faster passes.

A Unicode word boundary (`\\b`) throws Rust's engine out of its automaton at the first byte beyond ASCII, and
one typographic apostrophe in a text makes the search up to eighty times as slow. Two other spellings stay in
it. Where a text has no letter beyond ASCII, the ASCII boundary stands at the same places. Elsewhere, the
pattern without boundaries tells which texts have to be searched in earnest: all that match also match it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from .limits import regex_problems
from .scatter import of_some

FOREIGN_LETTER = r"[\w&&[^\x00-\x7F]]"
"""A letter, digit or mark beyond ASCII: part of a word to a Unicode boundary, and not to an ASCII one."""

REGEX_SET_MIN = 3
"""From so many patterns on, one search for any of them saves more than it costs."""

_ESCAPE = re.compile(r"\\(?P<boundary>b\{[a-z-]+\}|[bB<>])|\\.", re.DOTALL)
_VERBOSE = re.compile(r"\(\?[a-zA-Z-]*x")


@dataclass(frozen=True, slots=True)
class Forms:
    """Two fast spellings of a pattern with boundaries: `plain` is equal on text without foreign letters,
    `weak` matches wherever the pattern does.
    """

    plain: str
    weak: str


@dataclass(frozen=True, slots=True)
class RegexSet:
    """Patterns that are searched in the same texts.

    `forms` are of those that have boundaries. `any` matches a text without foreign letters where one of the
    patterns does (any text, if there are no forms); None where it would not help.
    """

    patterns: tuple[str, ...]
    forms: Mapping[str, Forms]
    any: str | None

    @property
    def helps(self) -> bool:
        """Return whether a `search` is faster than asking for each pattern."""
        return bool(self.forms) or self.any is not None


def regex_set(patterns: Sequence[str]) -> RegexSet:
    """Return how to search for the patterns, which have no `regex_problems`.

    Those that are better left as they are stand in no set: they have boundaries and no other spelling, or
    match an empty text, so that in their company all texts would match.
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
    others = tuple(dict.fromkeys(pattern for pattern in patterns if pattern not in alone))
    joined = _any([forms[pattern].plain if pattern in forms else pattern for pattern in others])
    return RegexSet(others, forms, joined)


def search(regexes: RegexSet, texts: pl.Expr) -> pl.Expr:
    """A struct of Booleans, never null: for each of the patterns `p{i}`, whether it matches.

    Texts with foreign letters, of which most files hold few, are searched by themselves.
    """

    def found(some: pl.Series) -> pl.Series:
        frame = pl.DataFrame([some.alias("text")])
        foreign = _is_foreign(some) if regexes.forms else None
        if foreign is None or not foreign.any():
            return _near(regexes, frame).to_struct(some.name)
        near = of_some(~foreign, frame, lambda rows: _near(regexes, rows))
        far = of_some(foreign, frame, lambda rows: _far(regexes, rows))
        told = [one | other for one, other in zip(near.iter_columns(), far.iter_columns(), strict=True)]
        return pl.DataFrame(told).to_struct(some.name)

    told = pl.Struct({name: pl.Boolean() for name in _names(regexes)})
    return texts.map_batches(found, return_dtype=told, is_elementwise=True)


def _names(regexes: RegexSet) -> list[str]:
    return [f"p{place}" for place in range(len(regexes.patterns))]


def _is_foreign(texts: pl.Series) -> pl.Series:
    """Which texts have foreign letters; a null has none."""
    wide = (texts.str.len_bytes() != texts.str.len_chars()).fill_null(False)
    if not wide.any():
        return wide
    frame = pl.DataFrame([texts.alias("text")])
    ask = [pl.col("text").str.contains(FOREIGN_LETTER)]
    return of_some(wide, frame, lambda rows: rows.select_seq(ask)).to_series()


def _near(regexes: RegexSet, frame: pl.DataFrame) -> pl.DataFrame:
    """Return where each of the patterns matches in texts without foreign letters."""
    text = pl.col("text")
    spelled = [regexes.forms[one].plain if one in regexes.forms else one for one in regexes.patterns]
    each = [
        text.str.contains(pattern).fill_null(False).alias(name)
        for pattern, name in zip(spelled, _names(regexes), strict=True)
    ]
    if regexes.any is None:
        return frame.select_seq(each)
    suspect = frame["text"].str.contains(regexes.any).fill_null(False)
    return of_some(suspect, frame, lambda rows: rows.select_seq(each))


def _far(regexes: RegexSet, frame: pl.DataFrame) -> pl.DataFrame:
    """Return where each of the patterns matches, whatever the texts, which are no nulls."""
    text = pl.col("text")
    found: list[pl.Series] = []
    for pattern, name in zip(regexes.patterns, _names(regexes), strict=True):
        ask = [text.str.contains(pattern).alias(name)]
        form = regexes.forms.get(pattern)
        if form is None:
            found.append(frame.select_seq(ask).to_series())
        else:
            maybe = frame["text"].str.contains(form.weak)
            found.append(of_some(maybe, frame, lambda rows, ask=ask: rows.select_seq(ask)).to_series())
    return pl.DataFrame(found)


def _respelled(pattern: str, spelling: str) -> str:
    """The pattern with each word boundary in another spelling; `{}` there is what follows its backslash."""

    def respell(found: re.Match[str]) -> str:
        boundary = found["boundary"]
        return found[0] if boundary is None else spelling.replace("{}", boundary)

    return _ESCAPE.sub(respell, pattern)


def _any(patterns: Sequence[str]) -> str | None:
    """A pattern that matches where one of these does, if there is one and it is worth a search of its own."""
    if len(patterns) < REGEX_SET_MIN or any(map(_has_comment, patterns)):
        return None
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    return joined if _is_valid(joined) else None


def _has_comment(pattern: str) -> bool:
    """Whether it may have a comment, as verbose ones do, which would swallow a parenthesis behind it."""
    return bool(_VERBOSE.search(pattern)) and "#" in _ESCAPE.sub("", pattern)


def _is_valid(pattern: str) -> bool:
    return not any(True for _ in regex_problems(pattern))
