"""Regular expressions over many texts: the same answers as one search for each, in fewer and faster passes.

A Unicode word boundary (`\\b`) throws Rust's engine out of its automaton at the first byte beyond ASCII, and
one typographic apostrophe in a text makes the search up to eighty times as slow. Two other spellings stay in
it. Where a text has no letter beyond ASCII, the ASCII boundary stands at the same places. Elsewhere, the
pattern without boundaries tells which texts have to be searched in earnest: all that match also match it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from .label_limits import regex_problems

FOREIGN_LETTER = r"[\w&&[^\x00-\x7F]]"
"""A letter, digit or mark beyond ASCII: part of a word to a Unicode boundary, and not to an ASCII one."""

FAMILY_MIN = 3
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
class Family:
    """Patterns that are searched in the same texts.

    `forms` are of those that have boundaries. `any` matches a text without foreign letters where one of the
    patterns does (any text, if there are no forms); None where it would not help. `alone` are to be left as
    they are: they have no forms, or match an empty text, which stands for one that need not be searched.
    """

    patterns: tuple[str, ...]
    forms: Mapping[str, Forms]
    any: str | None
    alone: frozenset[str]


def family(patterns: Sequence[str]) -> Family:
    """How to search for all of the patterns, which have no `regex_problems`."""
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
    others = tuple(pattern for pattern in patterns if pattern not in alone)
    joined = _any([forms[pattern].plain if pattern in forms else pattern for pattern in others])
    return Family(others, forms, joined, frozenset(alone))


def far(family: Family, texts: pl.Expr) -> pl.Expr:
    """A struct of Booleans, never null: `foreign`, whether the text has a foreign letter, and for each of the
    patterns `p{i}`, whether it has one and the pattern matches.

    Archives hold few such texts in most files: nothing is searched where there are none.
    """
    names = [f"p{place}" for place in range(len(family.patterns))]

    def search(some: pl.Series) -> pl.Series:
        foreign = _is_foreign(some)
        found = _among(foreign, some, lambda those: _found(family, those), len(names))
        columns = {"foreign": foreign, **dict(zip(names, found, strict=True))}
        return pl.DataFrame(columns).to_struct(some.name)

    told = pl.Struct(dict.fromkeys(["foreign", *names], pl.Boolean))
    return texts.map_batches(search, return_dtype=told, is_elementwise=True)


def _is_foreign(texts: pl.Series) -> pl.Series:
    """Which texts have foreign letters; a null has none."""
    wide = (texts.str.len_bytes() != texts.str.len_chars()).fill_null(False)
    (foreign,) = _among(wide, texts, lambda some: [some.str.contains(FOREIGN_LETTER)], 1)
    return foreign


def _found(family: Family, texts: pl.Series) -> list[pl.Series]:
    """Where each of the patterns matches, whatever the texts."""
    found: list[pl.Series] = []
    for pattern in family.patterns:
        weak = family.forms[pattern].weak if pattern in family.forms else ""
        maybe = texts.str.contains(weak)
        found += _among(maybe, texts, lambda some, pattern=pattern: [some.str.contains(pattern)], 1)
    return found


def _among(
    rows: pl.Series, texts: pl.Series, search: Callable[[pl.Series], list[pl.Series]], count: int
) -> list[pl.Series]:
    """The `count` answers of a search of these rows only; false on all others."""
    if not rows.any():
        return [pl.repeat(False, len(texts), eager=True)] * count
    places = rows.to_numpy()
    answers = np.zeros((count, len(texts)), dtype=np.bool_)
    for answer, found in zip(answers, search(texts.filter(rows)), strict=True):
        answer[places] = found.to_numpy()
    return [pl.Series(answer) for answer in answers]


def _respelled(pattern: str, spelling: str) -> str:
    """The pattern with each word boundary in another spelling; `{}` there is what follows its backslash."""

    def respell(found: re.Match[str]) -> str:
        boundary = found["boundary"]
        return found[0] if boundary is None else spelling.replace("{}", boundary)

    return _ESCAPE.sub(respell, pattern)


def _any(patterns: Sequence[str]) -> str | None:
    """A pattern that matches where one of these does, if there is one and it is worth a search of its own."""
    if len(patterns) < FAMILY_MIN or any(map(_has_comment, patterns)):
        return None
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    return joined if _is_valid(joined) else None


def _has_comment(pattern: str) -> bool:
    """Whether it may have a comment, as verbose ones do, which would swallow a parenthesis behind it."""
    return bool(_VERBOSE.search(pattern)) and "#" in _ESCAPE.sub("", pattern)


def _is_valid(pattern: str) -> bool:
    return not any(True for _ in regex_problems(pattern))
