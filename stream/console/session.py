"""A session's page: its events, the rules' steps at each, and the witness of a verdict."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...rules.engine.judge import CompiledRules
from ...rules.engine.status import event_labels
from ...rules.explanation.breach import explain_breach
from ...rules.explanation.timeline import pasts
from ...rules.model.problem import RuleError
from ...rules.model.rule import Rule
from ...schemas.event import Event
from ...schemas.records.verdict_record import VerdictRecord, WitnessEvent, WitnessHistory
from ...schemas.time import parse_time
from ...schemas.verdict import Verdict
from . import queries
from .replay import EVENTS_REPLAYED_MAX, RuleReplay, RuleSteps, replay
from .risks import HEIGHT, PATHS_SHOWN, RISKS_SHOWN_MAX, WIDTH, SessionRisks
from .statuses import SLICES_SHOWN_MAX, FollowedRule, followed_rule

EVENTS_A_PAGE = 40
RECORDS_SHOWN_MAX = 200
"""Verdicts of one occurrence that its page lists, the first ones."""


@dataclass(frozen=True, slots=True)
class RuleAtEvent:
    """The steps of a rule at an event."""

    rule: Rule
    steps: RuleSteps


@dataclass(frozen=True, slots=True)
class EventExplanation:
    """The part of the chosen verdict's witness at an event: the witness event, and the history it changed."""

    event: WitnessEvent | None
    bits: tuple[WitnessHistory, ...]


@dataclass(frozen=True, slots=True)
class EventView:
    """An event with everything shown beside it.

    `changed` are the rules that it changed, `same` the others that it stepped. `verdicts` are the verdicts at
    it.
    """

    event: Event
    changed: tuple[RuleAtEvent, ...]
    same: tuple[RuleAtEvent, ...]
    verdicts: tuple[VerdictRecord, ...]
    explained: EventExplanation | None

    @property
    def is_breach(self) -> bool:
        """Return whether a rule is violated or unmet at this event."""
        return any(record.verdict is not Verdict.UNJUDGED for record in self.verdicts)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of events: its number, and the first and last event on it."""

    number: int
    pages: int
    first: int
    last: int


def session_view(
    compiled: CompiledRules,
    db: sqlite3.Connection,
    session_id: str,
    query: Mapping[str, str],
    risks: SessionRisks | None = None,
) -> dict[str, Any] | None:
    """Return the context of the session's page, None where the store has no such session or occurrence.

    The address may choose an `occurrence` (else the latest), a `rule` as `pack/id`, a `verdict` whose
    witness is marked, and a `page` of events.
    """
    known = queries.occurrences(db, session_id)
    asked = query.get("occurrence")
    began = known[0] if asked is None and known else parse_time(asked or "")
    occurrence = None if began is None else queries.occurrence(db, session_id, began)
    if began is None or occurrence is None:
        return None
    records = queries.records_of(db, session_id, began, RECORDS_SHOWN_MAX)
    chosen = next((record for record in records if record.id == query.get("verdict")), None)
    rule = _rule(compiled, query.get("rule"))
    page = _page(occurrence.events, query.get("page"), chosen)
    # A session without its first events cannot be replayed.
    whole = occurrence.first == 1
    replayed = queries.events(db, session_id, began, EVENTS_REPLAYED_MAX) if whole else []
    replays = replay(compiled, replayed)
    shown = queries.events(db, session_id, began, page.last - page.first + 1, skip=page.first - 1)
    return {
        "session": occurrence,
        "others": [start for start in known if start != began],
        "breaches": [record for record in records if record.verdict is not Verdict.UNJUDGED],
        "unjudged": [record for record in records if record.verdict is Verdict.UNJUDGED],
        "cut": len(records) == RECORDS_SHOWN_MAX,
        "records_max": RECORDS_SHOWN_MAX,
        "chosen": chosen,
        "sentence": None if chosen is None else sentence_of(compiled, chosen, replayed),
        "rule": rule,
        "followed": None if rule is None else _followed(compiled, rule, replayed, occurrence),
        "slices_shown": SLICES_SHOWN_MAX,
        "page": page,
        "events": [_event_view(compiled, event, replays, records, chosen, rule) for event in shown],
        "replays": [(compiled.rules[replay.number], replay) for replay in replays],
        "replayed": len(replayed),
        **_risks(risks, db, occurrence, replayed, is_latest=began == known[0]),
    }


def _risks(
    risks: SessionRisks | None,
    db: sqlite3.Connection,
    occurrence: queries.OccurrenceSummary,
    events: Sequence[Event],
    *,
    is_latest: bool,
) -> dict[str, Any]:
    """Return the risks of a session over its events, and those of an open one now."""
    if risks is None:
        return {"has_risks": False}
    state = None if occurrence.closed or not is_latest else queries.followed(db, occurrence.session_id)
    now, drawn = risks.now(state, PATHS_SHOWN, RISKS_SHOWN_MAX), risks.drawn(events)
    shown = {(each.current.pack, each.current.rule) for each in now}
    shown |= {(each.course.pack, each.course.rule) for each in drawn}
    return {
        "has_risks": True,
        "risks_now": now,
        "courses": drawn,
        "drifted": sorted(shown & risks.drifted(db)),
        "risk_width": WIDTH,
        "risk_height": HEIGHT,
    }


def _followed(
    compiled: CompiledRules, rule: Rule, events: Sequence[Event], occurrence: queries.OccurrenceSummary
) -> FollowedRule | None:
    """Return the statuses of the followed rule; a session that is replayed in part is open."""
    is_closed = occurrence.closed and len(events) == occurrence.events
    return followed_rule(compiled, compiled.rules.index(rule), events, is_closed=is_closed)


def sentence_of(compiled: CompiledRules, record: VerdictRecord, events: Sequence[Event] = ()) -> str | None:
    """Return a sentence on what broke the rule; None if it is unjudged or another version of it judged.

    `events` are the first events of the session, if they are known.
    """
    rules = enumerate(zip(compiled.rules, compiled.digests, strict=True))
    judged_by = (record.pack, record.rule, record.rule_digest)
    number = next((at for at, (rule, digest) in rules if (rule.pack, rule.id, digest) == judged_by), None)
    if number is None or record.witness is None:
        return None
    try:
        is_whole = bool(events) and events[0].seq == 1
        known = pasts(compiled, event_labels(compiled, events), number) if is_whole else {}
    except RuleError:
        known = {}
    return explain_breach(compiled.rules[number], record, known.get(record.slice))


def _rule(compiled: CompiledRules, asked: str | None) -> Rule | None:
    return next((rule for rule in compiled.rules if f"{rule.pack}/{rule.id}" == asked), None)


def page_of(seq: int) -> int:
    """Return the number of the page that shows the event."""
    return (seq - 1) // EVENTS_A_PAGE + 1


def _page(events: int, asked: str | None, chosen: VerdictRecord | None) -> Page:
    """Return the requested page, else that of the chosen verdict, else the first."""
    pages = max(1, -(-events // EVENTS_A_PAGE))
    number = 1 if chosen is None else page_of(chosen.seq)
    if asked is not None and asked.isascii() and asked.isdigit() and len(asked) < 10:
        number = int(asked)
    number = min(max(number, 1), pages)
    return Page(number, pages, (number - 1) * EVENTS_A_PAGE + 1, min(number * EVENTS_A_PAGE, events))


def _event_view(
    compiled: CompiledRules,
    event: Event,
    replays: Sequence[RuleReplay],
    records: Sequence[VerdictRecord],
    chosen: VerdictRecord | None,
    only: Rule | None,
) -> EventView:
    rules = [
        RuleAtEvent(compiled.rules[replay.number], replay.steps[event.seq - 1])
        for replay in replays
        if event.seq <= len(replay.steps) and only in (None, compiled.rules[replay.number])
    ]
    stepped = [rule for rule in rules if rule.steps.shown]
    return EventView(
        event=event,
        changed=tuple(rule for rule in stepped if only is not None or rule.steps.is_change),
        same=tuple(rule for rule in stepped if only is None and not rule.steps.is_change),
        verdicts=tuple(record for record in records if record.seq == event.seq),
        explained=_explained(event, chosen),
    )


def _explained(event: Event, chosen: VerdictRecord | None) -> EventExplanation | None:
    """Return the part of the chosen verdict's witness at the event."""
    if chosen is None or chosen.witness is None:
        return None
    found = next((seen for seen in chosen.witness.events if seen.event_id == event.event_id), None)
    bits = tuple(bit for bit in chosen.witness.history if bit.event_id == event.event_id)
    return EventExplanation(found, bits) if found or bits else None
