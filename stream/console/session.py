"""A session's page: its events, what each rule said and asked at each, and what explains the verdicts."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...rules.engine.judge import CompiledRules
from ...rules.model.rule import Rule
from ...schemas.event import Event
from ...schemas.verdict import Verdict
from . import queries
from .formatting import instant
from .queries import StoredHistoryBit, StoredWitnessEvent, VerdictDetails
from .replay import EVENTS_REPLAYED_MAX, RuleReplay, RuleSteps, replay

EVENTS_A_PAGE = 40
RECORDS_SHOWN_MAX = 200
"""Verdicts of one occurrence that its page names, the first."""


@dataclass(frozen=True, slots=True)
class RuleAtEvent:
    """A rule at an event."""

    rule: Rule
    marks: RuleSteps


@dataclass(frozen=True, slots=True)
class EventExplanation:
    """The chosen verdict's witness at an event: the event of the witness, and the history that it changed."""

    event: StoredWitnessEvent | None
    bits: tuple[StoredHistoryBit, ...]


@dataclass(frozen=True, slots=True)
class EventView:
    """An event with everything that is shown beside it.

    `news` are the rules to which it made a difference, `same` the others that saw it. `verdicts` are the
    records at it.
    """

    event: Event
    news: tuple[RuleAtEvent, ...]
    same: tuple[RuleAtEvent, ...]
    verdicts: tuple[VerdictDetails, ...]
    explained: EventExplanation | None

    @property
    def is_breach(self) -> bool:
        """Return whether a rule was violated here, or left unmet."""
        return any(record.verdict is not Verdict.UNJUDGED for record in self.verdicts)


@dataclass(frozen=True, slots=True)
class Page:
    """Which events of how many are shown."""

    number: int
    pages: int
    first: int
    last: int


def session_view(
    compiled: CompiledRules, db: sqlite3.Connection, session_id: str, query: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return what the session's page shows, None where the session or the occurrence was never judged.

    The address may choose an `occurrence` (else the latest), a `rule` as `pack/id`, a `verdict` whose
    witness is marked, and a `page` of events.
    """
    known = queries.occurrences(db, session_id)
    asked = query.get("occurrence")
    began = known[0] if asked is None and known else instant(asked or "")
    occurrence = None if began is None else queries.occurrence(db, session_id, began)
    if began is None or occurrence is None:
        return None
    records = queries.records_of(db, session_id, began, RECORDS_SHOWN_MAX)
    chosen = next((record for record in records if record.id == query.get("verdict")), None)
    rule = _rule(compiled, query.get("rule"))
    page = _page(occurrence.events, query.get("page"), chosen)
    # Without its beginning a session cannot be told again.
    whole = occurrence.first == 1
    replayed = queries.events(db, session_id, began, EVENTS_REPLAYED_MAX) if whole else []
    courses = replay(compiled, replayed)
    shown = queries.events(db, session_id, began, page.last - page.first + 1, skip=page.first - 1)
    return {
        "session": occurrence,
        "others": [other for other in known if other != began],
        "breaches": [record for record in records if record.verdict is not Verdict.UNJUDGED],
        "unjudged": [record for record in records if record.verdict is Verdict.UNJUDGED],
        "cut": len(records) == RECORDS_SHOWN_MAX,
        "records_max": RECORDS_SHOWN_MAX,
        "chosen": chosen,
        "rule": rule,
        "page": page,
        "told": [_told(compiled, event, courses, records, chosen, rule) for event in shown],
        "courses": [(compiled.rules[course.number], course) for course in courses],
        "told_again": len(replayed),
    }


def _rule(compiled: CompiledRules, asked: str | None) -> Rule | None:
    return next((rule for rule in compiled.rules if f"{rule.pack}/{rule.id}" == asked), None)


def page_of(seq: int) -> int:
    """The page on which the event with that place stands."""
    return (seq - 1) // EVENTS_A_PAGE + 1


def _page(events: int, asked: str | None, chosen: VerdictDetails | None) -> Page:
    """The page that is asked for; else that of the chosen verdict; else the first."""
    pages = max(1, -(-events // EVENTS_A_PAGE))
    number = 1 if chosen is None else page_of(chosen.seq)
    if asked is not None and asked.isascii() and asked.isdigit() and len(asked) < 10:
        number = int(asked)
    number = min(max(number, 1), pages)
    return Page(number, pages, (number - 1) * EVENTS_A_PAGE + 1, min(number * EVENTS_A_PAGE, events))


def _told(
    compiled: CompiledRules,
    event: Event,
    courses: Sequence[RuleReplay],
    records: Sequence[VerdictDetails],
    chosen: VerdictDetails | None,
    only: Rule | None,
) -> EventView:
    readings = [
        RuleAtEvent(compiled.rules[course.number], course.marks[event.seq - 1])
        for course in courses
        if event.seq <= len(course.marks) and only in (None, compiled.rules[course.number])
    ]
    seen = [reading for reading in readings if reading.marks.shown]
    return EventView(
        event=event,
        news=tuple(reading for reading in seen if only is not None or reading.marks.is_news),
        same=tuple(reading for reading in seen if only is None and not reading.marks.is_news),
        verdicts=tuple(record for record in records if record.seq == event.seq),
        explained=_explained(event, chosen),
    )


def _explained(event: Event, chosen: VerdictDetails | None) -> EventExplanation | None:
    """Return what the chosen verdict's witness says of the event."""
    if chosen is None or chosen.witness is None:
        return None
    found = next((one for one in chosen.witness.events if one.event_id == event.event_id), None)
    bits = tuple(bit for bit in chosen.witness.history if bit.event_id == event.event_id)
    return EventExplanation(found, bits) if found or bits else None
