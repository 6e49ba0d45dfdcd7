"""All sessions of a source with their events, verdicts and statuses, as an audit judges them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ...rules.engine.judge import CompiledRules, Judged
from ...rules.engine.records import records
from ...schemas.event import Event, end_event
from ...schemas.frames.events import EVENT_SCHEMA, frame_events
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.time import NS
from ..audit.audit import judged_batches
from ..audit.status_history import statuses_of
from ..prepare.options import AuditOptions
from ..sources.discover import Population, Sources


@dataclass(frozen=True, slots=True)
class WholeSessions:
    """Some whole sessions: their events in judged order with an `end` after closed ones, and the results.

    `statuses` has the columns of the status history.
    """

    events: tuple[Event, ...]
    records: tuple[VerdictRecord, ...]
    statuses: pl.DataFrame


def judged_sessions(
    source: Sources, compiled: CompiledRules, scratch: Path, options: AuditOptions, population: Population
) -> Iterator[WholeSessions]:
    """Yield the sessions of a source, in no particular order; `scratch` is an empty folder of the caller.

    Raises SourceError if there is nothing to read.
    """
    for judged in judged_batches(source, compiled, scratch, options, population, keep=tuple(EVENT_SCHEMA)):
        yield WholeSessions(
            tuple(_events(judged)),
            tuple(records(compiled, judged)),
            statuses_of(compiled, judged, round(options.idle_s * NS)),
        )


def _events(judged: Judged) -> Iterator[Event]:
    """Yield the events of a bucket in judged order, and the `end` of each closed session."""
    events = frame_events(judged.labelled[judged.order.rows])
    bounds = judged.sessions.bounds.tolist()
    for slot, is_open in enumerate(judged.sessions.open.tolist()):
        event: Event | None = None
        for _ in range(bounds[slot + 1] - bounds[slot]):
            event = next(events)
            yield event
        if event is not None and not is_open:
            yield end_event(event.session_id, event.occurrence, event.time, event.seq + 1, {})
