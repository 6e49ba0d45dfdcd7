"""A regex set and its other spellings match where each pattern matches by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.rules.labels.labeler import Labeler
from tracline.rules.labels.regex_sets import REGEX_SET_MIN, regex_set
from tracline.rules.language.parse import parse_predicate
from tracline.rules.model.predicate import And, Leaf
from tracline.rules.model.predicate import Path as Field
from tracline.rules.model.predicate import Test as Ask
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.event import Event, Kind
from tracline.schemas.frames.events import event_frame

from ..predicate_answers import answers
from ..support.synthetic_events import synthetic_events

PATTERNS = (
    r"\bno\b",
    r"(?i)\b(ok|sk)\b",
    r"o\B",
    r"\Bk|k\B",
    r"\b",
    r"^$",
    r"no|\b$",
    r"\b{start}é?n",
    r"\<k",
    r"k\>",
    r"(?-u:\bk)",
    r"\\b",
    r"[\\b]k",
    r"k\b+n?",
    r"(?x) \b n o # a comment",
    r"(?x) \bn o | \#",
    r"(?P<it>k)",
    r"(?P<it>n)o\b",
    r"[^n]\b.",
    r"é",
    "o",
)
ALPHABET = "noknsK #\\b’é\u0301\u200d\u212a\u017f中٣😀\n"
texts = st.none() | st.text(ALPHABET, max_size=6)
text = Field("text")


searches = st.one_of(
    st.sampled_from(PATTERNS).map(lambda pattern: Leaf(text, Ask.MATCHES, (pattern,))),
    st.text(ALPHABET, max_size=3).map(lambda part: Leaf(text, Ask.CONTAINS, (part,))),
)
GUARDS: dict[str, Callable[[Event], bool]] = {
    'kind == "user"': lambda event: event.kind is Kind.USER,
    'kind == "user" and not nested': lambda event: event.kind is Kind.USER and not event.nested,
    'kind == "user" and late': lambda event: event.kind is Kind.USER and event.late,
    "nested": lambda event: event.nested,
    "true": lambda _: True,
}
guarded = st.tuples(st.sampled_from(sorted(GUARDS)), searches)
rows = st.tuples(texts, st.sampled_from([Kind.USER, Kind.ASSISTANT]), st.booleans(), st.booleans())


@settings(max_examples=400)
@given(st.lists(guarded, min_size=1, max_size=6), st.lists(rows, min_size=1))
def test_searching_together_changes_no_answer(asked: list[tuple[str, Leaf]], texts: list[Any]) -> None:
    """Boundaries, letters beyond ASCII, empty matches, comments, guards: as one search of each for itself."""
    events = [
        Event("s", 0, 0, i, kind, text=text, nested=nested, late=late)
        for i, (text, kind, nested, late) in enumerate(texts, 1)
    ]
    questions = [And((parse_predicate(guard), search)) for guard, search in asked]
    found = answers(questions, event_frame(events))
    alone = pl.Series([row[0] for row in texts], dtype=pl.String)
    for (guard, search), answered in zip(asked, found, strict=True):
        literal = search.test is Ask.CONTAINS
        matches = alone.str.contains(str(search.operands[0]), literal=literal).fill_null(False)
        passes = map(GUARDS[guard], events)
        assert answered == [match and let for match, let in zip(matches, passes, strict=True)]


@pytest.mark.parametrize("pattern", [r"\bno\b", r"o\>", r"\b{start}n"])
def test_boundaries_have_fast_spellings(pattern: str) -> None:
    """A pattern with boundaries is not left to the slow engine, alone or in a set."""
    assert pattern in regex_set([pattern]).forms
    others = [f"x{i}" for i in range(REGEX_SET_MIN - 1)]
    assert regex_set([pattern, *others]).any is not None


def test_a_few_events_have_the_labels_that_an_archive_of_them_has() -> None:
    """Early answers about events in memory are those about a file."""
    events = next(iter(synthetic_events(3_000, seed=3)))
    for packs in (shipped_packs(), [Path(__file__).parents[2] / "benchmarks" / "retail.yaml"]):
        labels = Labeler(load_packs(packs))
        whole, few = labels.label(events.lazy()).collect(), labels.label_few(events)
        words = [name for name in whole.columns if name[0] in "tu"]
        assert few.select(words).equals(whole.select(words))
        assert few.schema == whole.schema
