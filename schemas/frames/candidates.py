"""Candidates as rows of event Parquet, a row a telling, with what stage (b) reads beside the events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import polars as pl

from ..candidate import Candidate, Claim
from ..event import Content, Event, Kind
from ..span_content import SpanRole
from .events import EVENT_SCHEMA, TIME, event_frame

SPAN_COLUMNS: dict[str, pl.DataType] = {
    "part": pl.String(),
    "span_start": TIME,
    "span_end": TIME,
    "span_digest": pl.String(),
    "failed": pl.Boolean(),
    "within": pl.List(pl.String()),
    "covered": pl.Boolean(),
    "telling": pl.UInt32(),
    "conversation_place": pl.Int64(),
    "message_place": pl.Int64(),
    "past": pl.Boolean(),
    "message_key": pl.String(),
    "answered": pl.Boolean(),
}
"""Columns of rows that spans told, beside those of events: first the fields of `Candidate`, then the
number of the telling (from 0 in its span) and the fields of `Claim`. Only such rows have a `telling`."""

SPAN_KEY = ("trace_id", "span_id", "span_digest")
"""What tells the rows of one span from those of others."""

CANDIDATE_SCHEMA = {**EVENT_SCHEMA, **SPAN_COLUMNS}
_EVENT_FIELDS = ("time", "kind", "text", "tool", "call_id", "args", "result", "error", "content")
_SHARED = ("session_id", "trace_id", "span_id", "agent", "model", "service", "nested")


def candidate_frame(candidates: Sequence[Candidate]) -> pl.DataFrame:
    """Return the tellings of candidates as rows without `seq`, in their order; columns as in `CANDIDATE_SCHEMA`."""
    pairs = [(one, claim) for one in candidates for claim in one.claims]
    events = event_frame([_event(one, claim) for one, claim in pairs])
    numbers = [number for one in candidates for number in range(len(one.claims))]
    columns: dict[str, Any] = {
        "part": [one.role.value for one, _ in pairs],
        "span_start": [one.start for one, _ in pairs],
        "span_end": [one.end for one, _ in pairs],
        "span_digest": [one.digest for one, _ in pairs],
        "failed": [one.failed for one, _ in pairs],
        "within": [list(one.within) for one, _ in pairs],
        "covered": [one.covered for one, _ in pairs],
        "telling": numbers,
        "conversation_place": [claim.place for _, claim in pairs],
        "message_place": [claim.rank for _, claim in pairs],
        "past": [claim.past for _, claim in pairs],
        "message_key": [claim.key for _, claim in pairs],
        "answered": [claim.answered for _, claim in pairs],
    }
    unjudged = {name: pl.lit(None, EVENT_SCHEMA[name]) for name in ("occurrence", "seq", "event_id")}
    return events.with_columns(**unjudged).hstack(pl.DataFrame(columns, schema=SPAN_COLUMNS))


def candidates_of(rows: pl.DataFrame) -> Iterator[Candidate]:
    """Yield the candidates that the rows tell; the rows of a span stand together, in their order, none twice."""
    times = [pl.col(name).to_physical() for name in ("time", "span_start", "span_end")]
    named: Any = rows.with_columns(*times).iter_rows(named=True)
    for _, told in groupby(named, key=itemgetter("session_id", *SPAN_KEY)):
        yield _candidate(list(told))


def _candidate(rows: list[dict[str, Any]]) -> Candidate:
    first = rows[0]
    return Candidate(
        role=SpanRole(first["part"]),
        start=first["span_start"],
        end=first["span_end"],
        claims=tuple(map(claim_of, rows)),
        digest=first["span_digest"],
        failed=bool(first["failed"]),
        within=tuple(first["within"] or ()),
        covered=bool(first["covered"]),
        attributes=dict(first["attributes"] or {}),
        **{name: first[name] for name in _SHARED},
    )


def _event(candidate: Candidate, claim: Claim) -> Event:
    shared: dict[str, Any] = {name: getattr(candidate, name) for name in _SHARED}
    own: dict[str, Any] = {name: getattr(claim, name) for name in _EVENT_FIELDS}
    return Event(occurrence=0, seq=0, attributes=candidate.attributes, **shared, **own)


def claim_of(row: dict[str, Any]) -> Claim:
    """Return what a row tells, whether a span told it or not; its `time` in nanoseconds."""
    own: dict[str, Any] = {name: row[name] for name in _EVENT_FIELDS}
    own |= {"kind": Kind(row["kind"]), "content": Content(row["content"])}
    return Claim(
        **own,
        place=row["conversation_place"],
        rank=row["message_place"] or 0,
        past=bool(row["past"]),
        key=row["message_key"] or "",
        answered=bool(row["answered"]),
    )
