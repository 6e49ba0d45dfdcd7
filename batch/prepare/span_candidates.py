"""Span dumps as candidates: spans are grouped by trace, which may be in many requests and files."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import msgspec

from ...schemas.candidate import Candidate
from ...schemas.dialects.parts.log_record import LogRecord
from ...schemas.sessions.claim_log import ClaimLog, DropReason
from ...schemas.sessions.resolve import candidate_of, omitted_claims
from ...schemas.sessions.span_reading import SpanReading, join_records, read_span
from ...schemas.sessions.trace import Trace, orphans, unblocked
from ...schemas.span_content import SpanRole
from ..sources.discover import Population, Reject, SourceFile
from ..sources.span_files import requests

MEMORY_BYTES = 1 << 25
"""Maximum bytes of span dumps on disk whose spans are all in memory."""
BUCKET_BYTES = 1 << 24
BUCKETS_MAX = 200
"""Files of spans that are written at once."""

_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class LocatedSpan:
    """A span of a dump, with the numbers of its file and of its request there, both from 0."""

    file: int
    request: int
    reading: SpanReading


@dataclass(frozen=True, slots=True)
class _TraceEntry:
    """A span of a trace, or a log record of it."""

    span: LocatedSpan | None = None
    record: LogRecord | None = None

    @property
    def trace_id(self) -> str:
        """Return the id of the trace."""
        content = self.record or (self.span.reading if self.span else None)
        assert content is not None, "an entry is a span or a log record"
        return content.trace_id


@dataclass(frozen=True, slots=True)
class LocatedCandidate:
    """A candidate, with the numbers of its span's file and request."""

    file: int
    request: int
    candidate: Candidate


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_TraceEntry)


def resolved(
    parts: Sequence[SourceFile],
    population: Population,
    scratch: Path,
    scope: Sequence[str] = (),
    as_of: int | None = None,
    claim_log: ClaimLog | None = None,
) -> Iterator[list[LocatedCandidate]]:
    """Yield the candidates of all dumps with a claim, whole traces at a time.

    Log records add to their spans, wherever both are. The population counts spans (also by scope), records,
    rejects, and as gaps the spans whose parent is missing. With `as_of` (ns since the epoch) the candidates
    are those of the spans that had ended; a span that does not name its session waits until all spans above
    it have ended, as it does live. Spans beyond memory are written to `scratch`, a folder that must not exist
    and is deleted afterwards. `claim_log` collects the claims of one session that other spans make instead.
    """
    size = sum(part.path.stat().st_size for part in parts)
    found = _found(parts, population, scope)
    if size <= MEMORY_BYTES:
        yield list(_resolved(found, parts, population, as_of, claim_log))
        return
    scratch.mkdir()
    count = min(BUCKETS_MAX, size // BUCKET_BYTES + 1)
    paths = [scratch / f"{number:03d}.traces" for number in range(count)]
    with _writing(paths) as files:
        for entry in found:
            data = _ENCODER.encode(entry)
            bucket = files[crc32(entry.trace_id.encode()) % count]
            bucket.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    for path in paths:
        yield list(_resolved(_read(path), parts, population, as_of, claim_log))
        path.unlink()
    scratch.rmdir()


def _found(
    parts: Sequence[SourceFile], population: Population, scope: Sequence[str]
) -> Iterator[_TraceEntry]:
    """Yield every span and log record of the dumps, and count rejects."""
    read = 0
    for file, part in enumerate(parts):
        census = population.spans_in(part.name)
        for number, (_, decoded) in enumerate(requests(part.path)):
            read += 1
            population.log_records.count(decoded)
            population.metrics += decoded.metrics
            population.rows += len(decoded.spans) + decoded.rejected
            times = [time for span in decoded.spans for time in (span.start, span.end) if time]
            population.extent_of(part.name).add(len(decoded.spans) + decoded.rejected, times)
            for flaw in decoded.flaws:
                population.flaw(part.name, flaw)
            for span in decoded.spans:
                reading = read_span(span, scope)
                census.count(span.scope, 1, reading.has_claims)
                yield _TraceEntry(LocatedSpan(file, number, reading))
            for record in decoded.records:
                yield _TraceEntry(record=replace(record, request=read))


def _resolved(
    entries: Iterable[_TraceEntry],
    parts: Sequence[SourceFile],
    population: Population,
    as_of: int | None,
    claim_log: ClaimLog | None,
) -> Iterator[LocatedCandidate]:
    """Yield the candidates of whole traces."""
    spans: dict[str, list[LocatedSpan]] = {}
    records: dict[str, list[LogRecord]] = {}
    for entry in entries:
        if entry.span is not None:
            spans.setdefault(entry.span.reading.trace_id, []).append(entry.span)
        if entry.record is not None:
            records.setdefault(entry.record.trace_id, []).append(entry.record)
    population.log_records.unjoined += sum(len(rest) for name, rest in records.items() if name not in spans)
    for trace_id, in_trace in spans.items():
        if trace_id in records:
            in_trace = _joined(in_trace, records[trace_id], population)
        trace = _trace(in_trace)
        population.gaps += orphans(trace)
        if as_of is not None:
            trace, in_trace = _as_of(trace, in_trace, as_of)
        inside = trace.coverage()
        for located in in_trace:
            candidate = candidate_of(trace, located.reading, inside)
            if not isinstance(candidate, Candidate):
                place = f"request {located.request + 1}, span {located.reading.span_id}"
                population.reject(Reject(parts[located.file].name, place, candidate.code, candidate.text))
                continue
            if claim_log is not None and candidate.session_id == claim_log.session_id:
                left = omitted_claims(trace, located.reading, inside)
                claim_log.leave(DropReason.OTHER_SPAN, candidate.span_key, candidate, left)
            if candidate.claims:
                yield LocatedCandidate(located.file, located.request, candidate)


def _joined(
    spans: Sequence[LocatedSpan], records: Iterable[LogRecord], population: Population
) -> list[LocatedSpan]:
    """Add log records to the spans of a trace, and count the records that add to no span."""
    by_span: dict[str, list[LogRecord]] = {}
    for record in records:
        by_span.setdefault(record.span_id, []).append(record)
    joinable = {span.reading.span_id for span in spans if span.reading.content.role is not SpanRole.OTHER}
    population.log_records.unjoined += sum(
        len(rest) for name, rest in by_span.items() if name not in joinable
    )
    return [
        replace(span, reading=join_records(span.reading, by_span[span.reading.span_id]))
        if span.reading.content.lacks and span.reading.span_id in by_span
        else span
        for span in spans
    ]


def _as_of(whole: Trace, spans: Sequence[LocatedSpan], as_of: int) -> tuple[Trace, list[LocatedSpan]]:
    """Return the trace of the spans that had ended, and the spans that the live pipeline had released."""
    ended = [span for span in spans if span.reading.ended <= as_of]
    settled = [span.reading for span in ended if whole.settled(span.reading) <= as_of]
    waiting = [span.reading for span in ended if whole.settled(span.reading) > as_of]
    # A span that depends on spans above it waits only for ended ones: a root would delay its whole trace.
    waiting += [
        span.reading
        for span in spans
        if span.reading.ended > as_of >= span.reading.began and whole.is_self_described(span.reading)
    ]
    released = {id(reading) for reading in unblocked(settled, waiting)}
    return _trace(ended), [span for span in ended if id(span.reading) in released]


def _trace(spans: Iterable[LocatedSpan]) -> Trace:
    trace = Trace()
    for span in spans:
        trace.add(span.reading)
    return trace


@contextmanager
def _writing(paths: Sequence[Path]) -> Generator[list[BinaryIO]]:
    with ExitStack() as stack:
        yield [stack.enter_context(path.open("wb")) for path in paths]


def _read(path: Path) -> Iterator[_TraceEntry]:
    with path.open("rb") as file:
        while head := file.read(_LENGTH_BYTES):
            yield _DECODER.decode(file.read(int.from_bytes(head, "big")))
