"""The sessions of any source as an audit judges them: a list of all, or one with its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...archive.error import SourceError
from ...archive.writer import CHAIN_COLUMN
from ...rules.engine.judge import JUDGED_COLUMNS, CompiledRules, Judged, compile_rule_set, judge
from ...rules.engine.records import RecordKey, record_line, records
from ...rules.engine.sessions import Clock, in_order, occurrences_of
from ...rules.model.rule import RuleSet
from ...schemas.event import Event, Kind
from ...schemas.frames.events import EVENT_SCHEMA, frame_events
from ...schemas.records.verdict_record import VerdictRecord, decode_verdict
from ...schemas.sessions.claim_log import ClaimLog, DroppedClaim, DropReason
from ...schemas.time import NS, rfc3339
from ..audit.audit import judged_batches
from ..audit.summary import first_named
from ..evidence.sorted_lines import SortedLines
from ..following.unfollowed import names_chains
from ..prepare import spill
from ..prepare.buckets import until
from ..prepare.options import AuditOptions
from ..prepare.prepare import prepare
from ..sources.discover import Population, SourceFile, Sources, named
from ..sources.event_files import reading

NEAR_MAX = 3
"""Similar session ids that the error for an unknown session suggests."""
COMPARED_MAX = 20_000
COMPARED_CHARS_MAX = 200
"""Maximum number, and length, of the session ids that are compared."""

_COLUMNS = (*JUDGED_COLUMNS, "tool")
_CLAIM = ("time", "kind", "text", "tool", "call_id", "args", "result", "error", "content")
_SPAN = ("trace_id", "span_id", "agent", "model", "service", "nested")


@dataclass(frozen=True, slots=True)
class SessionLine:
    """The summary of one occurrence of a session. `verdicts` is None without rules."""

    session_id: str
    occurrence: str
    events: int
    agent: str | None
    tools: tuple[str, ...]
    closed: bool
    verdicts: tuple[VerdictRecord, ...] | None = None


@dataclass(frozen=True, slots=True)
class SessionView:
    """One session: its occurrences, and its events in judged order.

    `events` are rows of the event frame, without `end` rows, with times as text and `spans`: those that claim
    the event, first the one that the fields are from. They have `chain` where the source names the chains
    that followed it live. `dropped` are the dropped claims, if requested. With `was_judged` the source has
    events that were judged before, without the claims dropped at that time.
    """

    occurrences: tuple[SessionLine, ...]
    events: tuple[Mapping[str, Any], ...]
    dropped: tuple[Mapping[str, Any], ...]
    was_judged: bool


def sessions(
    source: Sources,
    scratch: Path,
    population: Population,
    options: AuditOptions | None = None,
    rule_set: RuleSet | None = None,
) -> Iterator[SessionLine]:
    """Yield a summary of every occurrence of the sessions of a source, by session id and time.

    With rules each has the verdicts of an audit. `scratch` is an empty folder of the caller, which must exist
    until the iterator is exhausted. Raises SourceError if there is nothing to read.
    """
    options = options or AuditOptions()
    compiled = compile_rule_set(rule_set or RuleSet((), {}))
    runs, briefs = SortedLines(scratch, RecordKey), list[pl.DataFrame]()
    for judged in judged_batches(source, compiled, scratch, options, population, keep=_COLUMNS):
        briefs.append(_briefs(judged))
        for record in records(compiled, judged):
            runs.add(*record_line(record))
    if not briefs:
        return
    rows = pl.concat(briefs).sort("session_id", "occurrence")
    verdicts = None if rule_set is None else groupby(runs.merged(), key=_occurrence_of)
    yield from _lines(rows, verdicts)


def session(
    source: Sources,
    session_id: str,
    scratch: Path,
    population: Population,
    options: AuditOptions | None = None,
    rule_set: RuleSet | None = None,
    *,
    repeats: bool = False,
) -> SessionView:
    """Return one session of a source with its events, as an audit judges them.

    With rules each event has its `verdicts`; with `repeats` the view has the dropped claims. `scratch` is an
    empty folder of the caller. Raises SourceError if there is nothing to read, or no such session (TRL410).
    """
    judged = judged_session(source, session_id, scratch, population, options, rule_set)
    as_of = None if options is None else options.as_of
    return SessionView(
        occurrences=tuple(_lines(_briefs(judged.judged).sort("occurrence"), None)),
        events=tuple(judged.events() if rule_set is None else judged.events_with_verdicts()),
        dropped=tuple(_every_dropped(judged, as_of)) if repeats else (),
        was_judged=bool(judged.claim_log.is_empty and judged.rows["span_id"].is_not_null().any()),
    )


@dataclass(frozen=True, slots=True)
class JudgedSession:
    """A session as an audit judges it: its rows, what judged them, and the verdicts, which are sorted.

    `rows` are in their original order, `judged` has the judged order and the occurrences.
    """

    rows: pl.DataFrame
    compiled: CompiledRules
    judged: Judged
    records: tuple[VerdictRecord, ...]
    claim_log: ClaimLog

    def occurrences(self) -> list[tuple[Event, ...]]:
        """Return the events of each occurrence in judged order."""
        events = list(frame_events(self.rows[self.judged.order.rows]))
        return [tuple(events[begin:end]) for begin, end in pairwise(self.judged.sessions.bounds.tolist())]

    def events(self) -> list[dict[str, Any]]:
        """Return the events in judged order, with times as text and their spans."""
        return _shown(self.rows[self.judged.order.rows], self.claim_log)

    def events_with_verdicts(self) -> list[dict[str, Any]]:
        """Return the events, each with its verdicts."""
        found: dict[tuple[str, int], list[VerdictRecord]] = {}
        for record in self.records:
            found.setdefault((record.occurrence, record.seq), []).append(record)
        return [
            {**event, "verdicts": found.get((event["occurrence"], event["seq"]), [])}
            for event in self.events()
        ]


def judged_session(
    source: Sources,
    session_id: str,
    scratch: Path,
    population: Population,
    options: AuditOptions | None = None,
    rule_set: RuleSet | None = None,
) -> JudgedSession:
    """Return a session as an audit judges it; the arguments and errors are those of `session`."""
    options, claim_log = options or AuditOptions(), ClaimLog(session_id)
    parts = prepare(source, scratch, population, options, claim_log)
    rows, last = _read({session_id}, parts, options.as_of)
    if rows.is_empty():
        raise _unknown(source, session_id, parts, options.as_of)
    compiled = compile_rule_set(rule_set or RuleSet((), {}))
    fields = list(dict.fromkeys([*_COLUMNS, *compiled.labeler.fields]))
    labelled = compiled.labeler.label(rows.lazy().select(fields), keep=_COLUMNS).collect()
    judged = judge(compiled, labelled, Clock(last=last, idle=round(options.idle_s * NS)), satisfied=False)
    found = SortedLines(scratch, RecordKey)
    for record in records(compiled, judged):
        found.add(*record_line(record))
    sorted_records = tuple(decode_verdict(line) for _, line in found.merged())
    return JudgedSession(rows, compiled, judged, sorted_records, claim_log)


@dataclass(frozen=True, slots=True)
class WholeOccurrence:
    """An occurrence of a session: its events in judged order."""

    events: tuple[Event, ...]
    is_closed: bool


def occurrences(
    source: Sources, session_ids: Set[str], scratch: Path, population: Population, options: AuditOptions
) -> Iterator[WholeOccurrence]:
    """Yield the occurrences of some sessions, in no particular order; those that the source lacks have none.

    The arguments and errors are otherwise those of `session`.
    """
    parts = prepare(source, scratch, population, options)
    rows, last = _read(session_ids, parts, options.as_of)
    order, clock = in_order(rows), Clock(last=last, idle=round(options.idle_s * NS))
    found = occurrences_of(order, rows, clock)
    events = tuple(frame_events(rows[order.rows]))
    for (begin, end), is_open in zip(pairwise(found.bounds.tolist()), found.open.tolist(), strict=True):
        yield WholeOccurrence(events[begin:end], not is_open)


def _briefs(judged: Judged) -> pl.DataFrame:
    """Return a summary row for each occurrence of a bucket."""
    begins = judged.sessions.bounds[:-1]
    names = ("session_id", "occurrence")
    sessions = pl.DataFrame({name: judged.column(name, begins) for name in names}).with_columns(
        events=np.diff(judged.sessions.bounds),
        agent=first_named(judged, "agent"),
        closed=~judged.sessions.open,
    )
    called = judged.labelled.filter(pl.col("tool").is_not_null() & (pl.col("kind") != Kind.END.value))
    tools = called.group_by(names).agg(pl.col("tool").unique().sort())
    return sessions.join(tools, on=names, how="left")


def _lines(
    briefs: pl.DataFrame, verdicts: Iterator[tuple[Any, Iterator[tuple[RecordKey, bytes]]]] | None
) -> Iterator[SessionLine]:
    """Yield rows of `_briefs` as lines; `verdicts` are those of the same occurrences, in the same order."""
    following = None if verdicts is None else next(verdicts, None)
    for row in briefs.with_columns(pl.col("occurrence").to_physical()).iter_rows(named=True):
        row["occurrence"] = rfc3339(row["occurrence"])
        row["tools"] = tuple(row.pop("tool") or ())
        found: tuple[VerdictRecord, ...] = ()
        key = (row["session_id"], row["occurrence"])
        if verdicts is not None and following is not None and following[0] == key:
            found = tuple(decode_verdict(line) for _, line in following[1])
            following = next(verdicts, None)
        yield SessionLine(**row, verdicts=None if verdicts is None else found)


def _occurrence_of(found: tuple[RecordKey, bytes]) -> tuple[str, str]:
    return found[0].session_id, found[0].occurrence


def _read(session_ids: Set[str], parts: Sequence[SourceFile], as_of: int | None) -> tuple[pl.DataFrame, int]:
    """Return the rows of some sessions, and the latest time of all sessions."""
    more = {CHAIN_COLUMN: pl.String()} if names_chains(parts) else {}
    found, latest = [pl.DataFrame(schema={**EVENT_SCHEMA, **more})], 0
    for one_pass in spill.passes(parts, more):
        wanted = pl.col("session_id").is_in(sorted(session_ids))
        events = until(one_pass.frame.filter(wanted), as_of)
        times = until(one_pass.frame.select(pl.col("time")), as_of).max()
        with reading(one_pass.parts):
            rows, last = pl.collect_all([events, times], engine="streaming")
        found.append(rows)
        latest = max(latest, last["time"].to_physical()[0] or 0)
    return pl.concat(found), latest if as_of is None else as_of


def _unknown(source: Sources, session_id: str, parts: Sequence[SourceFile], as_of: int | None) -> SourceError:
    """Return the error for an unknown session, with similar ids."""
    ids: set[str] = set()
    for one_pass in spill.passes(parts):
        with reading(one_pass.parts):
            unique = until(one_pass.frame, as_of).select(pl.col("session_id").unique())
            ids.update(unique.collect(engine="streaming")["session_id"])
    comparable = sorted(known for known in ids if len(known) <= COMPARED_CHARS_MAX)
    near = [known for known in comparable if session_id and session_id in known][:NEAR_MAX]
    if not near and len(session_id) <= COMPARED_CHARS_MAX:
        near = get_close_matches(session_id, comparable[:COMPARED_MAX], n=NEAR_MAX)
    hint = "run without --session to list all sessions"
    if near:
        hint = f"did you mean {' or '.join(near)}? {hint}"
    what = f"no session {session_id} among {len(ids):,} sessions"
    return SourceError("TRL410", named(source), what, hint)


def _shown(rows: pl.DataFrame, claim_log: ClaimLog) -> list[dict[str, Any]]:
    """Return events with times as text and their spans."""
    times = [pl.col(name).to_physical() for name in ("occurrence", "time")]
    spans = claim_log.spans()
    shown: list[dict[str, Any]] = []
    for row in rows.with_columns(times).iter_rows(named=True):
        span = [row["span_id"]] if row["span_id"] else []
        shown.append(
            {
                **row,
                "occurrence": rfc3339(row["occurrence"]),
                "time": rfc3339(row["time"]),
                "attributes": dict(row["attributes"] or {}),
                "spans": spans.get(row["event_id"], span),
            }
        )
    return shown


def _every_dropped(session: JudgedSession, as_of: int | None) -> Iterator[dict[str, Any]]:
    """Yield the dropped claims of spans, then the dropped rows of an archive."""
    for dropped in session.claim_log.dropped():
        if as_of is None or dropped.claim.time <= as_of:
            yield _dropped(dropped)
    yield from _dropped_rows(session.rows, session.judged)


def _dropped(dropped: DroppedClaim) -> dict[str, Any]:
    """Return the fields of a dropped claim."""
    fields: dict[str, Any] = {name: getattr(dropped.claim, name) for name in _CLAIM}
    fields |= {name: getattr(dropped.candidate, name) for name in _SPAN}
    fields["time"] = rfc3339(dropped.claim.time)
    session_id = dropped.candidate.session_id
    return {"dropped": dropped.reason.value, "of": dropped.of, "session_id": session_id, **fields}


def _dropped_rows(rows: pl.DataFrame, judged: Judged) -> Iterator[dict[str, Any]]:
    """Yield the rows of an archive that repeat an event, or have the place of another one."""
    events = set(judged.column("event_id"))
    rest = rows.with_row_index("row").filter(
        ~pl.col("row").is_in(judged.order.rows) & (pl.col("kind") != Kind.END.value)
    )
    for row in rest.with_columns(pl.col("time").to_physical()).iter_rows(named=True):
        again = row["event_id"] in events
        reason, of = (DropReason.COPY, row["event_id"]) if again else (DropReason.CONFLICT, None)
        fields = {name: row[name] for name in (*_CLAIM, *_SPAN)}
        fields["time"] = rfc3339(row["time"])
        yield {"dropped": reason.value, "of": of, "session_id": row["session_id"], **fields}
