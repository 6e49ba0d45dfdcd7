"""The places in an event's fields that make a predicate true: what a pattern or a searched text matches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from ..model.predicate import And, Leaf, Or, Predicate, Test
from ..model.printer import path_text
from .plan import ColumnPlan, pattern_of


class TextMatch(NamedTuple):
    """A match: the path of the field, the text there, and the first character of the match and the next."""

    path: str
    text: str
    start: int
    end: int


def matches(predicate: Predicate, events: pl.DataFrame) -> list[list[TextMatch]]:
    """Return for each event the first match of each search of the predicate that finds one.

    Conditions under `not` are no searches: their match makes the predicate false.
    """
    found: list[list[TextMatch]] = [[] for _ in range(len(events))]
    for leaf in dict.fromkeys(_searches(predicate)):
        plan = ColumnPlan()
        value, pattern = plan.value(leaf.path), pattern_of(leaf)
        if pattern is None:
            continue
        rows = plan.apply_now(events).select(
            value.alias("text"),
            value.str.find(pattern).alias("start"),
            value.str.extract(pattern, 0).alias("match"),
        )
        for place, (text, start, match) in enumerate(rows.iter_rows()):
            if start is not None:
                begin = len(text.encode()[:start].decode())
                found[place].append(TextMatch(path_text(leaf.path), text, begin, begin + len(match)))
    return found


def _searches(predicate: Predicate) -> Iterator[Leaf]:
    """Yield the conditions that search a text."""
    match predicate:
        case And(args) | Or(args):
            for arg in args:
                yield from _searches(arg)
        case Leaf(test=Test.MATCHES | Test.CONTAINS):
            yield predicate
        case _:
            return
