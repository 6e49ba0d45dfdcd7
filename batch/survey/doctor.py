"""The instrumentations of the spans in a source, and what each lacks: `tracline doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from ...archive.error import SourceError
from ...schemas.dialects import read_content
from ...schemas.event import Content, Kind
from ...schemas.instrumentations.lacks import Diagnosed, Instrumentations
from ..prepare.options import AuditOptions
from ..prepare.prepare import prepare
from ..sources.discover import Population, SourceFile, Sources, discover, named
from ..sources.event_files import reading, scan
from ..sources.file_format import FileFormat
from ..sources.span_files import requests

SPANS_AT_ONCE = 50_000
"""Spans whose ids are stored as text before they are hashed."""

_KEY = pl.concat_str("trace_id", "span_id").hash().alias("key")
_EVENT = ("kind", "content", "session_id", "trace_id", "call_id")


def diagnose(
    source: Sources, scratch: Path, population: Population, options: AuditOptions | None = None
) -> list[Diagnosed]:
    """Return the instrumentations of the spans in a source, by scope and version.

    `scratch` is an empty folder of the caller. The population counts rejects. Raises SourceError if there is
    nothing to read, or no span (TRL411).
    """
    spans = [part for part in discover(source, Population()) if part.format is FileFormat.SPANS]
    if not spans:
        hint = "choose OTLP dumps instead of chat logs or an archive, or a running `tracline serve`"
        raise SourceError(
            "TRL411", named(source), "contains no spans, which name their instrumentation", hint
        )
    found = Instrumentations()
    senders = _senders(spans, found)
    for part in prepare(source, scratch, population, options):
        if part.path.is_relative_to(scratch):
            with reading([part]):
                _add_events(scan(part), senders, found)
    found.log_records = population.log_records.content > 0
    if senders.is_empty() and not population.rejected:
        hint = "choose a dump of a time in which agents were active"
        raise SourceError("TRL411", named(source), "contains requests without any span", hint)
    return found.diagnosed()


def _senders(parts: Iterable[SourceFile], found: Instrumentations) -> pl.DataFrame:
    """Count the spans, and return the number of each span's instrumentation by a hash of its ids."""
    whole = pl.DataFrame(schema={"key": pl.UInt64, "number": pl.UInt16})
    ids: list[tuple[str, str, int]] = []
    for part in parts:
        for _, decoded in requests(part.path):
            ids += [
                (span.trace_id, span.span_id, found.add(span, read_content(span))) for span in decoded.spans
            ]
            if len(ids) >= SPANS_AT_ONCE:
                whole, ids = whole.vstack(_keyed(ids)), []
    # A span may have been sent twice.
    return whole.vstack(_keyed(ids)).unique("key", keep="first", maintain_order=True)


def _keyed(ids: list[tuple[str, str, int]]) -> pl.DataFrame:
    schema = {"trace_id": pl.String, "span_id": pl.String, "number": pl.UInt16}
    return pl.DataFrame(ids, schema, orient="row").select(_KEY, "number")


def _add_events(events: pl.LazyFrame, senders: pl.DataFrame, found: Instrumentations) -> None:
    """Count the events of the spans by instrumentation."""
    keyed = events.filter(pl.col("span_id").is_not_null()).with_columns(_KEY)
    rows = keyed.join(senders.lazy(), on="key").select("number", *_EVENT).collect()
    for number, kind, content, session_id, trace_id, call_id in rows.iter_rows():
        found.add_event(number, Kind(kind), Content(content), session_id, trace_id, call_id)
