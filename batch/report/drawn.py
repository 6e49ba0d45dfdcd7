"""`sessions.jsonl`: the sessions that the report draws, with their events and the runs of the rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ...rules.engine.judge import JUDGED_COLUMNS, CompiledRules, Judged, judge
from ...rules.engine.records import records
from ...rules.engine.sessions import Clock
from ...rules.explanation.timeline import (
    explanation_data,
    is_relevant,
    judged_explanations,
    sentences_of,
)
from ...rules.model.problem import RuleError
from ...schemas.frames.events import EVENT_SCHEMA
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.time import NS, rfc3339
from ..evidence.bundle import VERDICTS
from ..evidence.canonical_json import canonical_line_of_integers
from ..prepare import spill
from ..prepare.buckets import until
from ..prepare.options import AuditOptions
from ..sources.discover import SourceFile
from ..sources.event_files import reading
from .choice import Choice, choose_sessions

SESSIONS = "sessions.jsonl"
"""The file of the sessions that the report draws: a line a session, by id and occurrence."""
EVENTS_DRAWN_MAX = 500
"""Events of a session that is drawn; longer ones are left out and counted."""
TEXT_MAX = 300
"""Characters of an event's text, with `--with-text`."""

_SHOWN_ONLY = ("tool", "text")
_SHOWN = ("seq", "event_id", "time", "kind", "tool", "agent", "text")


def write_sessions(
    work: Path, compiled: CompiledRules, parts: Sequence[SourceFile], options: AuditOptions
) -> None:
    """Write the file into a bundle that has its verdicts; without rules the sessions have no runs."""
    choice = choose_sessions(work / VERDICTS, parts, options.as_of, options.seed)
    rows, last = _rows(parts, choice, options.as_of)
    lines = [] if rows.is_empty() else list(_lines(choice, compiled, rows, last, options))
    lines.sort(key=lambda line: (line["session_id"], line["occurrence"]))
    (work / SESSIONS).write_bytes(b"".join(map(canonical_line_of_integers, lines)))


def _rows(parts: Sequence[SourceFile], choice: Choice, as_of: int | None) -> tuple[pl.DataFrame, int]:
    """Return the rows of the chosen sessions, and the latest time of all sessions."""
    found, latest, wanted = [pl.DataFrame(schema=EVENT_SCHEMA)], 0, sorted(choice.ids)
    for one_pass in spill.passes(parts):
        events = until(one_pass.frame.filter(pl.col("session_id").is_in(wanted)), as_of)
        times = until(one_pass.frame.select(pl.col("time")), as_of).max()
        with reading(one_pass.parts):
            rows, last = pl.collect_all([events.select(*EVENT_SCHEMA), times], engine="streaming")
        found.append(rows)
        latest = max(latest, last["time"].to_physical()[0] or 0)
    return pl.concat(found), latest if as_of is None else as_of


def _lines(
    choice: Choice, compiled: CompiledRules, rows: pl.DataFrame, last: int, options: AuditOptions
) -> Iterator[dict[str, Any]]:
    """Yield the chosen occurrences, of a clean session the first one that counts."""
    labelled = compiled.labeler.label(rows.lazy(), keep=(*JUDGED_COLUMNS, *_SHOWN_ONLY)).collect()
    clock = Clock(last=last, idle=round(options.idle_s * NS), since=options.since, until=options.until)
    judged = judge(compiled, labelled, clock, satisfied=False)
    found: dict[tuple[str, str], list[VerdictRecord]] = {}
    for record in records(compiled, judged):
        found.setdefault((record.session_id, record.occurrence), []).append(record)
    begins = judged.sessions.bounds[:-1]
    ids = judged.column("session_id", begins).to_list()
    occurrences = map(rfc3339, judged.column("occurrence", begins).to_physical().to_list())
    drawn = set[str]()
    slots = sorted((*place, slot) for slot, place in enumerate(zip(ids, occurrences, strict=True)))
    for session_id, occurrence, slot in slots:
        why = choice.why(session_id, occurrence)
        is_again = why == "sample" and session_id in drawn
        if why is None or is_again or not judged.sessions.counted[slot]:
            continue
        drawn.add(session_id)
        place = {"session_id": session_id, "occurrence": occurrence, "why": why}
        yield {**place, **_drawn(compiled, judged, slot, found.get((session_id, occurrence), ()), options)}


def _drawn(
    compiled: CompiledRules,
    judged: Judged,
    slot: int,
    found: Sequence[VerdictRecord],
    options: AuditOptions,
) -> dict[str, Any]:
    """Return the events and runs of an occurrence; a session that is too long has none."""
    begin, end = judged.sessions.bounds[slot], judged.sessions.bounds[slot + 1]
    if end - begin > EVENTS_DRAWN_MAX:
        return {"events": [], "rules": []}
    sentences = sentences_of(compiled, found)
    try:
        runs = [run for run in judged_explanations(compiled, judged, slot) if is_relevant(run)]
    except RuleError:
        runs = []
    rows = judged.labelled.select(_SHOWN)[judged.order.rows[begin:end]]
    events = rows.with_columns(pl.col("time").to_physical()).iter_rows(named=True)
    return {
        "events": [_event(event, with_text=options.with_text) for event in events],
        "rules": [explanation_data(run, sentences) for run in runs],
    }


def _event(event: dict[str, Any], *, with_text: bool) -> dict[str, Any]:
    text = event["text"]
    shown = text[:TEXT_MAX] if with_text and text is not None else None
    return {**event, "time": rfc3339(event["time"]), "text": shown}
