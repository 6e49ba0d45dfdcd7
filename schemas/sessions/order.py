"""Session assembly, stage (b), over history: rows of whole sessions to events in judged order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

import polars as pl

from ..candidate import Candidate
from ..event import Event, Kind
from ..frames.candidates import SPAN_KEY, candidates_of, claim_of
from ..frames.events import event_frame
from ..span_content import SpanRole
from ..time import NS
from .assemble import SessionAssembler
from .claim_log import ClaimLog, DropReason
from .order_rows import OrderedEvents, judged_order, numbered_order

_COPY_ORDER = ("span_start", "span_end", "agent", "model", "service", "nested", "covered", "call_id", "args")
"""Sort columns by which the first of several copies of a span wins, as in `Candidate.copy_order`."""


def session_order(
    rows: pl.DataFrame, idle_s: float, as_of: int | None = None, claim_log: ClaimLog | None = None
) -> OrderedEvents:
    """Return whole sessions in judged order: rows with `seq` are judged events, other rows candidates.

    Rows have the columns of the event frame and may have `SPAN_COLUMNS`, or of these only `PLACES`. If any
    candidate of a session is a span's claim, a `SessionAssembler` assembles all of its candidates. An `end`
    row without `seq` ends numbered events of its session: the occurrence that it names, or where the session
    has no candidates the last one. Else it is a candidate itself. The candidates are all that had come
    `as_of` that time, None where no more come. The outcome of each claim of one session is reported to
    `claim_log`.
    """
    is_end, is_free = pl.col("kind") == Kind.END, pl.col("seq").is_null()
    has_candidates = (is_free & ~is_end).any().over("session_id")
    has_numbered = is_free.not_().any().over("session_id")
    is_named = pl.col("occurrence").is_not_null()
    ends_named = is_named & is_free.not_().any().over("session_id", "occurrence")
    ends_last = ~has_candidates & (has_numbered | is_named)
    numbered, candidates = (
        rows.filter(which)
        for which in (
            ~is_free | (is_end & (ends_named | ends_last)),
            is_free & ~(is_end & (ends_named | ends_last)),
        )
    )
    ordered = [numbered_order(numbered)] if numbered.height else []
    if "telling" in candidates.columns:
        candidates = _sound(candidates)
        by_spans = pl.col("telling").is_not_null().any().over("session_id")
        assembled, candidates = candidates.filter(by_spans), candidates.filter(~by_spans)
        ordered += [_assembled(assembled, idle_s, as_of, claim_log)] if assembled.height else []
    ordered += [judged_order(candidates, idle_s)] if candidates.height or not ordered else []
    return OrderedEvents(
        pl.concat([part.events for part in ordered]),
        repeats=sum(part.repeats for part in ordered),
        stray_ends=sum(part.stray_ends for part in ordered),
    )


def _sound(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows, without `telling` where another column of a span's claim is missing."""
    needed = (*SPAN_KEY, "span_start", "span_end", "telling")
    is_claim = pl.all_horizontal(pl.col(name).is_not_null() for name in needed)
    is_claim &= pl.col("part").is_in([part.value for part in SpanRole]).fill_null(False)
    return rows.with_columns(pl.when(is_claim).then("telling").alias("telling"))


def _assembled(
    rows: pl.DataFrame, idle_s: float, as_of: int | None, claim_log: ClaimLog | None
) -> OrderedEvents:
    """Return the events of the candidates of whole sessions, of which nothing more comes."""
    ordered = rows.sort("session_id", "span_start", *SPAN_KEY, "telling", *_COPY_ORDER, nulls_last=True)
    claims = ordered.filter(pl.col("telling").is_not_null())
    is_first = pl.struct("session_id", *SPAN_KEY, "telling").is_first_distinct()
    spans = claims.filter(is_first)
    again = claims.filter(pl.col("telling") == 0).height - spans.filter(pl.col("telling") == 0).height
    events: list[Event] = []
    strays = 0
    rest = _rows_of_no_span(ordered.filter(pl.col("telling").is_null()))
    every = sorted([*candidates_of(spans), *rest], key=attrgetter("session_id"))
    for session_id, candidates in groupby(every, key=attrgetter("session_id")):
        session = SessionAssembler(session_id, round(idle_s * NS))
        last = 0
        for candidate in candidates:
            session.add(candidate)
            last = max(last, candidate.end)
        log = claim_log if claim_log is not None and claim_log.session_id == session_id else None
        events += session.advance(last, log) + session.finish(as_of, log)
        again += session.repeats
        strays += session.stray_ends
    if claim_log is not None:
        copies = claims.filter(~is_first & (pl.col("session_id") == claim_log.session_id))
        for candidate in candidates_of(copies):
            claim_log.leave(DropReason.COPY, candidate.span_key, candidate, candidate.claims)
    return OrderedEvents(event_frame(events), repeats=again, stray_ends=strays)


def _rows_of_no_span(rows: pl.DataFrame) -> Iterator[Candidate]:
    """Yield rows that are no span's claim, each as a candidate."""
    content = ("kind", "text", "tool", "call_id", "args", "result", "error", "content")
    who = ("session_id", "agent", "model", "service", "nested")
    ordered = rows.with_columns(pl.col("time").to_physical()).sort("session_id", "time", *content, *who)
    named: Any = ordered.iter_rows(named=True)
    for number, row in enumerate(named):
        shared: dict[str, Any] = {name: row[name] for name in who}
        yield Candidate(
            role=SpanRole.OTHER,
            start=row["time"],
            end=row["time"],
            claims=(claim_of(row),),
            digest=f"row {number}",
            attributes=dict(row["attributes"] or {}),
            **shared,
        )
