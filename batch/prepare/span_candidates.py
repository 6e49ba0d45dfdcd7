"""Span dumps as candidates: spans are held by trace, which may stand in many requests and files."""

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
from ...schemas.sessions.trace import Trace, cut_links, orphans, unblocked
from ...schemas.span_content import SpanRole
from ..sources.discover import Population, Reject, SourceFile
from ..sources.span_files import requests

MEMORY_BYTES = 1 << 25
"""Bytes of span dumps, as they are on disk, up to which all their spans are held in memory."""
BUCKET_BYTES = 1 << 24
BUCKETS_MAX = 200
"""Files of spans that are written at a time."""

_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class LocatedSpan:
    """A span of a dump: the numbers of its file and of its request there, both from 0."""

    file: int
    request: int
    heard: SpanReading


@dataclass(frozen=True, slots=True)
class _TraceEntry:
    """What the dumps hold of a trace: one of its spans, or a log record of it."""

    span: LocatedSpan | None = None
    record: LogRecord | None = None

    @property
    def trace_id(self) -> str:
        """Return the trace that it is of."""
        of = self.record or (self.span and self.span.heard)
        assert of is not None, "an entry is a span or a log record"
        return of.trace_id


@dataclass(frozen=True, slots=True)
class LocatedCandidate:
    """A candidate, and where its span stood."""

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
    """The candidates of all dumps, whole traces at a time, those that tell nothing left out.

    Log records add to their spans, wherever both stand. Spans (also by scope), records and what cannot be
    read are counted, and as gaps the spans whose parent never came. As of a time (ns since the epoch) the
    candidates are of the spans that had ended; one that does not say itself whose it is waits until all above
    it have ended, as it does live. More spans than memory holds are written to `scratch`, which is not there
    yet and is gone afterwards. What spans of one session leave to others of their traces is reported to
    `claim_log`.
    """
    size = sum(part.path.stat().st_size for part in parts)
    found = _found(parts, population, scope)
    if size <= MEMORY_BYTES:
        yield list(_resolved(found, parts, population, as_of, claim_log))
        return
    scratch.mkdir()
    count = min(BUCKETS_MAX, size // BUCKET_BYTES + 1)
    paths = [scratch / f"{number:03d}.traces" for number in range(count)]
    with _appending(paths) as files:
        for one in found:
            data = _ENCODER.encode(one)
            files[crc32(one.trace_id.encode()) % count].write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    for path in paths:
        yield list(_resolved(_read(path), parts, population, as_of, claim_log))
        path.unlink()
    scratch.rmdir()


def _found(
    parts: Sequence[SourceFile], population: Population, scope: Sequence[str]
) -> Iterator[_TraceEntry]:
    """Every span and log record of the dumps; what cannot be read is counted."""
    read = 0
    for file, part in enumerate(parts):
        census = population.spans_in(part.name)
        for number, (_, decoded) in enumerate(requests(part.path)):
            read += 1
            population.log_records.count(decoded)
            population.metrics += decoded.metrics
            population.rows += len(decoded.spans) + decoded.rejected
            for flaw in decoded.flaws:
                population.flaw(part.name, flaw)
            for span in decoded.spans:
                heard = read_span(span, scope)
                census.count(span.scope, 1, heard.has_claims)
                yield _TraceEntry(LocatedSpan(file, number, heard))
            for record in decoded.records:
                yield _TraceEntry(record=replace(record, request=read))


def _resolved(
    entries: Iterable[_TraceEntry],
    parts: Sequence[SourceFile],
    population: Population,
    as_of: int | None,
    claim_log: ClaimLog | None,
) -> Iterator[LocatedCandidate]:
    """The candidates of whole traces."""
    spans: dict[str, list[LocatedSpan]] = {}
    records: dict[str, list[LogRecord]] = {}
    for entry in entries:
        if entry.span is not None:
            spans.setdefault(entry.span.heard.trace_id, []).append(entry.span)
        if entry.record is not None:
            records.setdefault(entry.record.trace_id, []).append(entry.record)
    population.log_records.unjoined += sum(len(own) for name, own in records.items() if name not in spans)
    for trace_id, told in spans.items():
        if trace_id in records:
            told = _joined(told, records[trace_id], population)
        trace = _trace(told)
        population.gaps += orphans(trace)
        population.cut_links += cut_links(trace)
        if as_of is not None:
            trace, told = _as_of(trace, told, as_of)
        inside = trace.coverage()
        for one in told:
            candidate = candidate_of(trace, one.heard, inside)
            if not isinstance(candidate, Candidate):
                place = f"request {one.request + 1}, span {one.heard.span_id}"
                population.reject(Reject(parts[one.file].name, place, candidate.code, candidate.text))
                continue
            if claim_log is not None and candidate.session_id == claim_log.session_id:
                left = omitted_claims(trace, one.heard, inside)
                claim_log.leave(DropReason.OTHER_SPAN, candidate.span_key, candidate, left)
            if candidate.claims:
                yield LocatedCandidate(one.file, one.request, candidate)


def _joined(
    spans: Sequence[LocatedSpan], records: Iterable[LogRecord], population: Population
) -> list[LocatedSpan]:
    """Return the spans of a trace with their log records; those that add to no span are counted."""
    by_span: dict[str, list[LogRecord]] = {}
    for record in records:
        by_span.setdefault(record.span_id, []).append(record)
    adding = {one.heard.span_id for one in spans if one.heard.content.role is not SpanRole.OTHER}
    population.log_records.unjoined += sum(len(own) for name, own in by_span.items() if name not in adding)
    return [
        replace(one, heard=join_records(one.heard, by_span[one.heard.span_id]))
        if one.heard.content.lacks and one.heard.span_id in by_span
        else one
        for one in spans
    ]


def _as_of(whole: Trace, told: Sequence[LocatedSpan], as_of: int) -> tuple[Trace, list[LocatedSpan]]:
    """The trace of the spans that had ended, and those that had gone on by then, as live."""
    ended = [one for one in told if one.heard.ended <= as_of]
    settled = [one.heard for one in ended if whole.settled(one.heard) <= as_of]
    waiting = [one.heard for one in ended if whole.settled(one.heard) > as_of]
    # Of those that ask what is above them only what has ended counts: a root would hold up all inside it.
    waiting += [
        one.heard
        for one in told
        if one.heard.ended > as_of >= one.heard.began and whole.is_self_described(one.heard)
    ]
    going = {id(one) for one in unblocked(settled, waiting)}
    return _trace(ended), [one for one in ended if id(one.heard) in going]


def _trace(told: Iterable[LocatedSpan]) -> Trace:
    trace = Trace()
    for one in told:
        trace.add(one.heard)
    return trace


@contextmanager
def _appending(paths: Sequence[Path]) -> Generator[list[BinaryIO]]:
    with ExitStack() as stack:
        yield [stack.enter_context(path.open("wb")) for path in paths]


def _read(path: Path) -> Iterator[_TraceEntry]:
    with path.open("rb") as file:
        while head := file.read(_LENGTH_BYTES):
            yield _DECODER.decode(file.read(int.from_bytes(head, "big")))
