"""The sources of a rekeyer: records of Kafka in, records of Kafka out, and the stage on values between."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TypeAlias

import msgspec

from ...schemas.attempt import Broken, attempt
from ...schemas.candidate import Candidate
from ...schemas.chat.find import InputFlaw
from ...schemas.otlp.decoded import Decoded
from ...schemas.plain_traces.requests import PlainRecord, PlainRequest, PlainRequests
from ...schemas.records.dead_letter import DeadLetter
from ...schemas.sessions.pending import Released
from ..error import PROCESS_ERRORS
from ..ingest.request import Encoding, decode
from ..messages.codec import (
    CandidateBatch,
    EncodedCandidate,
    Tick,
    candidate_messages,
    encode,
    partition_of,
    partition_of_bytes,
)
from ..messages.record import Input, Output, Record, dead_letter_output
from ..messages.topics import Topic
from ..stages.rekey import (
    SIGNALS,
    IdleInput,
    RekeyCounts,
    RekeyResult,
    RekeyStage,
    ResolvedBatch,
    SourceRequest,
)
from ..stages.resolve import LocatedRequest, SourceState
from ..stages.result import StageResult
from .rekey_state import AssignedSource, AssignedSourceWrites, TopicCounts, read_source, write_source

JSON_BEGINS = (b"{", b"[")
"""The first bytes of a request in JSON."""
CANDIDATE_BYTES = 1 << 14
"""Bytes that a candidate of a plain span may have beside those of its request."""
EncodedRekeyResult: TypeAlias = StageResult[Output, Mapping[int, AssignedSourceWrites], RekeyCounts]


class RekeySources:
    """The assigned sources with their states; a step changes none of them before its result is applied.

    `bytes_max` is about how large a message may be, before compression.
    """

    def __init__(self, stage: RekeyStage, counts: TopicCounts, bytes_max: int) -> None:
        self.stage, self.counts = stage, counts
        self._bytes_max = bytes_max
        self._assigned: dict[int, AssignedSource] = {}

    @property
    def assigned(self) -> Mapping[int, AssignedSource]:
        """Return the sources by number."""
        return self._assigned

    def watermarks(self) -> dict[int, int]:
        """Return the watermark of each source."""
        return {number: source.state.times.watermark for number, source in self._assigned.items()}

    def waiting(self) -> int:
        """Return how many spans wait to be resolved."""
        return sum(source.state.waiting for source in self._assigned.values())

    def waiting_records(self) -> int:
        """Return how many log records wait for their span."""
        return sum(source.state.waiting_records for source in self._assigned.values())

    def remembered(self) -> int:
        """Return how many traces are remembered."""
        return sum(source.state.remembered for source in self._assigned.values())

    def record_time(self, number: int) -> int:
        """Return the time of the latest record of a source's spans, 0 before there was one."""
        return self._assigned[number].state.times.record

    def expect_logs(self, number: int) -> None:
        """Let a source wait for its log records, some of which are not read."""
        state = self._assigned[number].state
        state.times = state.times.expecting_logs()

    def assign(self, number: int, stored: Mapping[str, bytes]) -> None:
        """Continue a source from its records in the state topic. Raises StreamError as `read_source`."""
        self._assigned[number] = read_source(stored, self.counts)

    def clear(self) -> None:
        """Drop all sources."""
        self._assigned.clear()

    def apply(self, writes: Mapping[int, AssignedSourceWrites]) -> None:
        """Let the sources become what a step has made of them, once the step is committed."""
        for number, changed in writes.items():
            self._assigned[number].apply(changed)

    def step(self, requests: Iterable[SourceRequest]) -> EncodedRekeyResult:
        """Return the records to write for these requests, those of an input in order, and what changes.

        A request with which a candidate may be too large for a message goes the ordinary path.
        """
        plain_max = self._bytes_max - CANDIDATE_BYTES
        sized = [
            ordinary(request)
            if isinstance(request.content, PlainRequest) and len(request.content.record.data) > plain_max
            else request
            for request in requests
        ]
        return self._encoded(self.stage.step(self._states(), sized))

    def tick(self, idle: Collection[Input], now: int) -> EncodedRekeyResult:
        """Return a tick for every events partition; the time of `idle` inputs, read to the end, is `now`."""
        inputs = [IdleInput(quiet, now) for quiet in idle]
        return self._encoded(self.stage.tick(self._states(), self.counts.sources, inputs))

    def refuse(self, request: SourceRequest, flaw: InputFlaw) -> EncodedRekeyResult:
        """Return the dead letter of a record that breaks `step`."""
        return self._encoded(self.stage.refuse(request, flaw))

    def _states(self) -> dict[int, SourceState]:
        return {number: source.state for number, source in self._assigned.items()}

    def _encoded(self, result: RekeyResult) -> EncodedRekeyResult:
        """Return a result as records; candidates that no message can carry become dead letters."""
        outputs: list[Output] = []
        too_large: list[DeadLetter] = []
        for output in result.outputs:
            if isinstance(output, ResolvedBatch):
                messages, flawed = self._batch(output)
                outputs += messages
                too_large += flawed
            else:
                outputs += self._outputs(output)
        outputs += map(dead_letter_output, too_large)
        writes: dict[int, AssignedSourceWrites] = {}
        for number, changed in result.writes.items():
            source = self._assigned[number]
            writes[number], records = write_source(number, source, changed, self.counts, self._bytes_max)
            outputs += records
        counts = result.metrics
        codes = [*counts.dead_letters, *(found.code for found in too_large)]
        counts = replace(counts, candidates=counts.candidates - len(too_large), dead_letters=codes)
        return StageResult(tuple(outputs), writes, counts)

    def _outputs(self, output: Tick | DeadLetter) -> list[Output]:
        """Return the records of a tick or of a dead letter."""
        if isinstance(output, DeadLetter):
            return [dead_letter_output(output)]
        data = encode(output)
        return [Output(Topic.EVENTS, number, None, data) for number in range(self.counts.partitions)]

    def _batch(self, batch: ResolvedBatch) -> tuple[list[Output], list[DeadLetter]]:
        """Return the messages of candidates by events partition, and dead letters of those too large."""
        by_partition: dict[int, list[Candidate | EncodedCandidate]] = {}
        groups: dict[bytes, list[Candidate | EncodedCandidate]] = {}
        for released in batch.released:
            if isinstance(released, Released):
                target = partition_of(released.candidate.session_id, self.counts.partitions)
                by_partition.setdefault(target, []).append(released.candidate)
                continue
            for candidate in released.candidates:
                group = groups.get(candidate[0])
                if group is None:
                    target = partition_of_bytes(candidate[0], self.counts.partitions)
                    group = groups[candidate[0]] = by_partition.setdefault(target, [])
                group.append(candidate)
        outputs: list[Output] = []
        too_large: list[DeadLetter] = []
        reason = f"tells more than the {self._bytes_max} bytes that a message may have"
        for target, candidates in sorted(by_partition.items()):
            message = CandidateBatch(
                batch.source,
                self.counts.sources,
                batch.offset,
                batch.watermark,
                [],
                topic=self.stage.names[Topic.SPANS],
            )
            messages, flawed = candidate_messages(message, candidates, self._bytes_max, batch.before)
            outputs += [Output(Topic.EVENTS, target, None, data) for data in messages]
            if not flawed:
                continue
            made = [released for released in batch.released if isinstance(released, Released)]
            readings = {id(released.made): released.reading for released in made}
            for candidate in flawed:
                place = f"trace {candidate.trace_id}, span {candidate.span_id}"
                flaw = InputFlaw(place, "size", reason)
                too_large.append(self.stage.span_dead_letter(batch.source, readings[id(candidate)], flaw))
        return outputs, too_large


def requests_of(records: Sequence[Record], scope: Sequence[str] = ()) -> list[SourceRequest]:
    """Return records with their spans read by compiled loops, else located, else decoded.

    Where that breaks, they have the flaw of that. `scope` are the resource attributes that precede the ids of
    sessions.
    """
    digests = [sha256(record.value).digest() for record in records]
    walked = [record.topic is Topic.SPANS and record.value[:1] not in JSON_BEGINS for record in records]
    given = zip(records, digests, walked, strict=True)
    batch = PlainRequests(
        [
            PlainRecord(record.value, record.time, record.offset, digest)
            for record, digest, is_walked in given
            if is_walked
        ],
        scope,
    )

    def read(record: Record, number: int | None) -> Decoded | LocatedRequest:
        spans = None if number is None else batch.walked.at(number, scope)
        if spans is not None:
            return LocatedRequest(record.value, spans)
        return decode(record.value, _encoding(record), SIGNALS[record.topic])

    requests: list[SourceRequest] = []
    number = -1
    for record, digest, is_walked in zip(records, digests, walked, strict=True):
        number += is_walked
        content = batch.at(number) if is_walked else None
        if content is None:
            content = _attempted(partial(read, record, number if is_walked else None))
        requests.append(SourceRequest(record.input, record.offset, record.time, digest, content))
    return requests


def _attempted(read: Callable[[], Decoded | LocatedRequest]) -> Decoded | LocatedRequest | InputFlaw:
    """Return what is read of a record, or the flaw of one that breaks."""
    content = attempt(read, PROCESS_ERRORS)
    return InputFlaw("record", "internal", content.reason) if isinstance(content, Broken) else content


def ordinary(request: SourceRequest) -> SourceRequest:
    """Return a request with the spans of a plain one located, so that the ordinary path reads them."""
    content = request.content
    if not isinstance(content, PlainRequest):
        return request
    return msgspec.structs.replace(request, content=LocatedRequest(content.record.data, content.located()))


def _encoding(record: Record) -> Encoding:
    return Encoding.JSON if record.value[:1] in JSON_BEGINS else Encoding.PROTOBUF


def refused(record: Record, flaw: InputFlaw) -> SourceRequest:
    """Return a record that is not decoded, with the flaw for which it is not."""
    offset, digest = record.origin
    return SourceRequest(record.input, offset, record.time, digest, flaw)
