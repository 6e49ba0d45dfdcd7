"""The matches that `tracline label` marks: they are what makes a search true."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tracline.rules.labels.labeler import Labeler
from tracline.rules.labels.matches import matches
from tracline.rules.language.parse import parse_predicate
from tracline.rules.model.formula import TRUE
from tracline.rules.model.rule import Rule, RuleSet
from tracline.schemas.event import Event, Kind
from tracline.schemas.frames.events import event_frame

SEARCHES = {
    'text contains "ab"': "ab",
    "text matches /a+b?/": None,
    "text matches /(?i)é|B{2}/": None,
    "text matches /^a|b$/": None,
    r"text matches /\bab\b/": None,
}
TEXTS = st.text(alphabet="aAbBéÉ \n\U0001f600", max_size=12)


@given(st.lists(TEXTS, min_size=1, max_size=8), st.sampled_from(sorted(SEARCHES)))
def test_a_match_is_found_exactly_where_the_search_is_true(texts: list[str], search: str) -> None:
    """The place is inside the text, and holds the searched text."""
    predicate = parse_predicate(search)
    events = event_frame([Event("s", 0, 0, at + 1, Kind.USER, text=text) for at, text in enumerate(texts)])
    labeler = Labeler(RuleSet((Rule("p", "r", "", TRUE, "", {"q": predicate}),), {}))
    true = [bool(word & 1) for word in labeler.label_few(events)["t0"]]
    found = matches(predicate, events)
    assert [bool(each) for each in found] == true
    for text, each in zip(texts, found, strict=True):
        for match in each:
            assert match.text == text
            assert 0 <= match.start <= match.end <= len(text)
            assert SEARCHES[search] in (None, text[match.start : match.end])


@given(st.lists(TEXTS, min_size=1, max_size=8))
def test_conditions_under_not_are_not_marked(texts: list[str]) -> None:
    """A match there makes the predicate false."""
    predicate = parse_predicate('text contains "a" and not text contains "b"')
    events = event_frame([Event("s", 0, 0, at + 1, Kind.USER, text=text) for at, text in enumerate(texts)])
    for text, each in zip(texts, matches(predicate, events), strict=True):
        assert [text[match.start : match.end] for match in each] == (["a"] if "a" in text else [])
