"""The answers of predicates, read off the labels that everything else reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
from tracline.rules.labels.few import WORD_BITS
from tracline.rules.labels.labeler import Labeler
from tracline.rules.model.formula import TRUE
from tracline.rules.model.predicate import Predicate
from tracline.rules.model.rule import Rule, RuleSet
from tracline.schemas.frames.events import EVENT_SCHEMA

Answer = bool | None
"""None is unknown."""


def answers(predicates: Sequence[Predicate], events: pl.DataFrame) -> list[list[Answer]]:
    """For each predicate its answer at each event, as files and live events are labelled."""
    labels = _labeler(predicates)
    many, few = labels.label(events.lazy()).collect(), labels.label_few(events)
    # A second call answers from what the first one has remembered.
    for again in (few, labels.label_few(events)):
        assert again.equals(many)
    return _answers(few, len(predicates))


def few_answers(predicates: Sequence[Predicate], events: pl.DataFrame) -> list[list[Answer]]:
    """For each predicate its answer at each event, as live events are labelled."""
    return _answers(_labeler(predicates).label_few(events), len(predicates))


def evaluate(predicate: Predicate, event: Mapping[str, object]) -> Answer:
    """The predicate's answer at one event (as for `event_rows`), as files and live events are labelled."""
    ((answer,),) = answers([predicate], event_rows([event]))
    return answer


def event_rows(events: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """Events, each given by the names of its fields, as an event frame.

    Those left out are null, `content` is `captured` and flags are false.
    """
    plain = {"content": "captured", "nested": False, "late": False, "history": False}
    schema: Any = EVENT_SCHEMA
    rows = [{**dict.fromkeys(EVENT_SCHEMA), **plain, **event} for event in events]
    return pl.DataFrame(rows, schema=schema)


def _labeler(predicates: Sequence[Predicate]) -> Labeler:
    propositions = {f"p{place}": predicate for place, predicate in enumerate(predicates)}
    return Labeler(RuleSet((Rule("p", "r", "", TRUE, "true", propositions),), {}))


def _answers(labelled: pl.DataFrame, count: int) -> list[list[Answer]]:
    """The bits of the words, proposition by proposition."""
    found: list[list[Answer]] = []
    for number in range(count):
        word, bit = divmod(number, WORD_BITS)
        true, unknown = ([value >> bit & 1 for value in labelled[f"{letter}{word}"]] for letter in "tu")
        found.append(
            [None if not_known else is_true == 1 for is_true, not_known in zip(true, unknown, strict=True)]
        )
    return found
