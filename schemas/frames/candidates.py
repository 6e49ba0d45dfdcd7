"""Candidates as rows of event Parquet, a row for each claim, with the columns that stage (b) needs."""

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
"""Columns of claims beside those of events: first the fields of `Candidate`, then the number of the claim in
its span, from 0 (`telling`), and the fields of `Claim`. Other rows have no `telling`."""

SPAN_KEY = ("trace_id", "span_id", "span_digest")
"""Columns that identify the span of a row."""

CANDIDATE_SCHEMA = {**EVENT_SCHEMA, **SPAN_COLUMNS}
_EVENT_FIELDS = ("time", "kind", "text", "tool", "call_id", "args", "result", "error", "content")
_SHARED = ("session_id", "trace_id", "span_id", "agent", "model", "service", "nested")


def candidate_frame(candidates: Sequence[Candidate]) -> pl.DataFrame:
    """Return the claims of candidates as rows without `seq`, in order; columns as in `CANDIDATE_SCHEMA`."""
    pairs = [(candidate, claim) for candidate in candidates for claim in candidate.claims]
    events = event_frame([_event(candidate, claim) for candidate, claim in pairs])
    numbers = [number for candidate in candidates for number in range(len(candidate.claims))]
    columns: dict[str, Any] = {
        "part": [span.role.value for span, _ in pairs],
        "span_start": [span.start for span, _ in pairs],
        "span_end": [span.end for span, _ in pairs],
        "span_digest": [span.digest for span, _ in pairs],
        "failed": [span.failed for span, _ in pairs],
        "within": [list(span.within) for span, _ in pairs],
        "covered": [span.covered for span, _ in pairs],
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
    """Yield the candidates of the rows; those of one span are adjacent, in order, without repeats."""
    times = [pl.col(name).to_physical() for name in ("time", "span_start", "span_end")]
    named: Iterator[dict[str, Any]] = rows.with_columns(*times).iter_rows(named=True)
    for _, claims in groupby(named, key=itemgetter("session_id", *SPAN_KEY)):
        yield _candidate(list(claims))


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
    fields: dict[str, Any] = {name: getattr(claim, name) for name in _EVENT_FIELDS}
    return Event(occurrence=0, seq=0, attributes=candidate.attributes, **shared, **fields)


def claim_of(row: dict[str, Any]) -> Claim:
    """Return the claim of a row, of a span or not; its `time` is in nanoseconds."""
    fields: dict[str, Any] = {name: row[name] for name in _EVENT_FIELDS}
    fields |= {"kind": Kind(row["kind"]), "content": Content(row["content"])}
    return Claim(
        **fields,
        place=row["conversation_place"],
        rank=row["message_place"] or 0,
        past=bool(row["past"]),
        key=row["message_key"] or "",
        answered=bool(row["answered"]),
    )
