"""The pipeline of `tracline serve` without its network: requests to spans, sessions and verdicts.

One thread (`run`) works in rounds. It writes the queued requests to disk and acknowledges them, judges them,
and writes everything that this changes in one transaction.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ...predict.drift.detectors import watched
from ...schemas.attempt import Broken, attempt
from ...schemas.candidate import Candidate
from ...schemas.chat.find import InputFlaw
from ...schemas.otlp.decoded import Decoded
from ...schemas.otlp.signal import Signal
from ...schemas.plain_traces.requests import PlainRequest
from ...schemas.records.dead_letter import DeadLetter
from ...schemas.sessions.pending import EncodedRelease
from ...schemas.settings import SessionSettings
from ...schemas.time import NS
from ..error import PROCESS_ERRORS
from ..ingest.request import Busy, Encoding, ExportRequest, read
from ..messages.codec import CandidateBatch, decode_candidate
from ..messages.record import Input
from ..messages.session_state import SessionState
from ..messages.topics import Topic
from ..process.faultpoints import ServeFault, fault_point
from ..stages.judge import Outputs, SessionJudge, poisoned
from ..stages.rekey import (
    NO_RECORD,
    SIGNALS,
    IdleInput,
    RekeyResult,
    RekeyStage,
    ResolvedBatch,
    SourceRequest,
)
from ..stages.resolve import ReceivedSpans, SourceState, SourceTimes, SourceWrites
from ..stages.unread import UnreadCandidates
from .archiving import ArchiveSink, StoreArchiver, StoreIntervals
from .changes import StoreChanges
from .request_queue import RETRY_DISK_S, RETRY_QUEUE_S, RETRY_STOPPING_S, Arrival, RequestQueue, refuse
from .rows import add_outputs
from .store import Store, StoredRequest, is_of_the_disk
from .store_sessions import StoreSessions
from .store_traces import StoreTraces


@dataclass(frozen=True, slots=True)
class PipelineRuntime:
    """The environment of the pipeline.

    `now` returns the time (ns since the epoch), `free_bytes` the free space of the store's disk. `on_commit`
    gets each batch that was written, for metrics; `on_idle` is called in rounds without spans. `is_compiled`
    returns that the loops are there which judge.
    """

    now: Callable[[], int]
    free_bytes: Callable[[], int]
    archive: ArchiveSink
    on_commit: Callable[[StoreChanges], None]
    on_idle: Callable[[], None] = lambda: None
    is_compiled: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True)
class _Judged:
    """The changes of requests that are judged: those of the store, of the source, and of sessions."""

    batch: StoreChanges
    source: SourceWrites
    states: Mapping[str, SessionState]


PROCESS = "serve"
"""The name of the process in dead letters."""
SOURCE = 0
"""The number of the store's only source."""
COMPILING_S = 0.1
"""The interval, in seconds, at which the pipeline asks whether its loops are compiled."""
UNJUDGED_BYTES_MAX = 64 << 20
"""Bytes of requests that may wait for the compiler: they are judged in one round."""
_INPUTS = {signal: Input(topic, SOURCE) for topic, signal in SIGNALS.items()}
_NAMES = {topic: signal.value for topic, signal in SIGNALS.items()}


class Pipeline:
    """The pipeline of one store: an `Intake` for the receivers, while `run` works in a thread of its own."""

    def __init__(
        self,
        store: Store,
        judge: SessionJudge,
        settings: SessionSettings,
        runtime: PipelineRuntime,
        intervals: StoreIntervals | None = None,
    ) -> None:
        self._store, self._judge, self._settings, self._runtime = store, judge, settings, runtime
        self._queue = RequestQueue(runtime.free_bytes)
        self._archiver = StoreArchiver(store, runtime.archive, intervals or StoreIntervals(), runtime.now)
        self._sessions = StoreSessions(store, round(settings.idle_s * NS))
        self._stage = RekeyStage(settings, _NAMES, PROCESS, "request")
        self._unread = UnreadCandidates(PROCESS)
        self._traces = StoreTraces(store)
        self._source = _stored_source(store, self._traces)
        self._drift = store.drift()
        self._arrived_at: dict[Input, int] = dict.fromkeys(_INPUTS.values(), runtime.now())

    async def put(self, request: ExportRequest) -> None:
        """Return once the request is on disk. Raises Busy where it is not."""
        await self._queue.put(request)

    def stop(self) -> None:
        """Accept no more requests; `run` finishes those that it has and returns."""
        self._queue.close()

    def run(self) -> None:
        """Work until `stop`: finish what a crash left, then work in rounds, and archive at the end.

        Requests that come while loops are compiled are acknowledged, and judged with what a crash left.
        However it ends, it refuses the requests that are not on disk, so that their senders retry.
        """
        try:
            self._accept_until_compiled()
            self.begin()
            is_running = True
            while is_running:
                self._queue.wait(self._settings.tick_s)
                is_running = self.turn()
            self.archive()
        finally:
            self.stop()
            refuse(self._queue.take(), Busy("stopping", RETRY_STOPPING_S))

    def begin(self) -> None:
        """Finish what a crash left unfinished."""
        self._archiver.finish_begun()
        scope = self._settings.scope
        self._process([_from_inbox(stored, scope) for stored in self._store.inbox()])

    def turn(self) -> bool:
        """Work one round, and return whether further requests may come."""
        is_running = not self._queue.is_closed
        self._take(self._round)
        return is_running

    def archive(self) -> None:
        """Archive the events judged since the last time."""
        self._archiver.archive(self._source.times.watermark)

    def _accept_until_compiled(self) -> None:
        """Acknowledge requests without judging them: compiling takes longer than their senders wait."""
        size = 0

        def accept(arrivals: Sequence[Arrival]) -> None:
            nonlocal size
            if arrivals:
                self._accept(arrivals)
                size += sum(len(arrival.request.body) for arrival in arrivals)

        while not (self._runtime.is_compiled() or self._queue.is_closed or size > UNJUDGED_BYTES_MAX):
            self._queue.wait(COMPILING_S)
            self._take(accept)

    def _take(self, use: Callable[[Sequence[Arrival]], None]) -> None:
        """Use the queued requests; where that raises an error, refuse those that are not on disk."""
        arrivals = self._queue.take()
        try:
            use(arrivals)
        except BaseException:
            # Those on disk have their answer already.
            refuse(arrivals, Busy("stopping", RETRY_STOPPING_S))
            raise

    def _round(self, arrivals: Sequence[Arrival]) -> None:
        requests = self._accept(arrivals) if arrivals else []
        now = self._runtime.now()
        self._arrived_at.update((request.input, now) for request in requests)
        tick = round(self._settings.tick_s * NS)
        idle = [IdleInput(quiet, now) for quiet, at in self._arrived_at.items() if now - at >= tick]
        if any(quiet.input.topic is Topic.SPANS for quiet in idle):
            self._runtime.on_idle()
        self._process(requests, idle)
        self._archiver.archive_if_due(now, self._source.times.watermark)

    def _accept(self, arrivals: Sequence[Arrival]) -> list[SourceRequest]:
        """Write queued requests to disk, and acknowledge them."""
        fault_point(ServeFault.RECEIVED)
        requests = [arrival.request for arrival in arrivals]
        try:
            numbers = self._store.accept(requests)
        except sqlite3.OperationalError as error:
            if not is_of_the_disk(error):
                raise
            refuse(arrivals, Busy("disk", RETRY_DISK_S))
            return []
        fault_point(ServeFault.ACCEPTED)
        for arrival in arrivals:
            arrival.settle()
        fault_point(ServeFault.ACKNOWLEDGED)
        return [_request(number, request) for number, request in zip(numbers, requests, strict=True)]

    def _process(self, requests: Sequence[SourceRequest], idle: Sequence[IdleInput] = ()) -> None:
        """Judge requests and due sessions: all together, or one by one where a request raises an error."""
        judged = attempt(lambda: self._judged(requests, idle), (*PROCESS_ERRORS, sqlite3.Error))
        if isinstance(judged, Broken):
            if not requests:
                raise judged.error
            if len(requests) > 1:
                for request in requests:
                    self._process([request], idle)
                return
            # A broken request must not stop the others: it becomes a dead letter and goes to quarantine.
            flaw = InputFlaw("request", "internal", judged.reason)
            judged = self._judged([], idle)
            judged.batch.worked_off = requests[0].offset
            judged.batch.quarantined.append(requests[0].offset)
            judged.batch.dead_letters.append(self._stage.request_dead_letter(requests[0], flaw))
        self._carry(judged)

    def _carry(self, judged: _Judged) -> None:
        """Commit what was judged, and apply it to the source and the sessions in memory."""
        batch = judged.batch
        if not batch.is_empty:
            fault_point(ServeFault.JUDGED)
            self._commit(batch)
            fault_point(ServeFault.COMMITTED)
        self._source.apply(judged.source)
        self._sessions.apply(batch.sessions, judged.states)
        self._traces.apply(batch.traces)
        self._drift = self._drift if batch.drift is None else batch.drift
        if batch.is_empty:
            return
        batch.spans_waiting, batch.records_waiting = self._source.waiting, self._source.waiting_records
        batch.open_sessions = self._sessions.open_count
        self._runtime.on_commit(batch)

    def _commit(self, batch: StoreChanges) -> None:
        """Write a batch; while the disk is full, retry and refuse requests.

        Once the process is stopping, raise the store's error: the requests stay in the inbox.
        """
        while True:
            try:
                return self._store.commit(batch)
            except sqlite3.OperationalError as error:
                if self._queue.is_closed or not is_of_the_disk(error):
                    raise
                self._queue.wait(RETRY_QUEUE_S)
                refuse(self._queue.take(), Busy("disk", RETRY_DISK_S))

    def _judged(self, requests: Sequence[SourceRequest], idle: Sequence[IdleInput]) -> _Judged:
        """Return what these requests and idle inputs change, with the sessions that are due then."""
        now = self._runtime.now()
        batch = StoreChanges(worked_off=requests[-1].offset if requests else 0)
        batch.received = max((request.time for request in requests), default=None)
        records: list[SourceRequest | IdleInput] = [*idle, *requests]
        if batch.received is not None:
            # All log records that came before have been read.
            records.append(IdleInput(_INPUTS[Signal.LOGS], batch.received))
        result = self._stage.step({SOURCE: self._source}, records, now)
        writes = result.writes[SOURCE]
        batch.times, batch.traces = writes.times, self._traces.rows(writes.traces)
        resolved, watermark = _add_resolved(batch, result), writes.times.watermark
        released = CandidateBatch(SOURCE, 1, NO_RECORD, watermark, resolved, topic=_NAMES[Topic.SPANS])
        candidates, letters = self._unread.read(released, now)
        batch.dead_letters += letters
        touched = self._sessions.touched((candidate.session_id for candidate in candidates), watermark)
        before = self._source.times.watermark
        judged = self._judge.step(touched, candidates, watermark, self._sessions.take, before)
        batch.dead_letters += [
            DeadLetter(PROCESS, "", SOURCE, NO_RECORD, now, *flaw, "")
            for poison in judged.outputs.poison
            for flaw in poisoned(poison)
        ]
        batch.sessions = self._sessions.rows(judged.states)
        add_outputs(batch, self._with_drift(batch, judged.outputs), now)
        return _Judged(batch, writes, judged.states)

    def _with_drift(self, batch: StoreChanges, outputs: Outputs) -> Outputs:
        """Return the outputs with the drift of their crossings; the batch has the detectors after them."""
        detectors, crossings = watched(self._drift, outputs.crossings, outputs.bets)
        if outputs.bets:
            batch.drift = detectors
        return msgspec.structs.replace(outputs, crossings=crossings)


def _add_resolved(batch: StoreChanges, result: RekeyResult) -> list[Candidate]:
    """Add the result of the rekey stage to a batch, and return the candidates."""
    counts = result.metrics
    candidates: list[Candidate] = []
    for output in result.outputs:
        if isinstance(output, DeadLetter):
            batch.dead_letters.append(output)
        elif isinstance(output, ResolvedBatch):
            for released in output.released:
                if isinstance(released, EncodedRelease):
                    candidates += [decode_candidate(data) for _, data in released.candidates]
                else:
                    candidates.append(released.candidate)
    batch.quarantined += counts.broken
    batch.spans, batch.plain_requests, batch.census = counts.spans, counts.plain_requests, counts.census
    batch.log_records = counts.log_records
    batch.spans_early, batch.unjoined = counts.early, counts.unjoined
    return candidates


def _stored_source(store: Store, traces: StoreTraces) -> SourceState:
    """Return the source of a store as it was committed last."""
    watermark, logs = store.number("watermark"), store.time("logs_time")
    spans = store.time("spans_time")
    times = SourceTimes(watermark, 0, watermark if spans is None else spans, logs)
    return SourceState(traces.read(), times)


def _from_inbox(stored: StoredRequest, scope: Sequence[str]) -> SourceRequest:
    content = read(stored.body, stored.encoding, stored.signal, stored.received, scope)
    request = ExportRequest(stored.body, stored.encoding, content, stored.received, stored.signal)
    return _request(stored.number, request)


def _request(number: int, request: ExportRequest) -> SourceRequest:
    """Return a request that is on disk under its number."""
    content, digest = request.content, hashlib.sha256(request.body).digest()
    to_locate: Decoded | PlainRequest | ReceivedSpans = content
    if isinstance(content, PlainRequest):
        to_locate = content.recorded(number, digest)
    elif request.signal is Signal.SPANS and request.encoding is Encoding.PROTOBUF:
        to_locate = ReceivedSpans(request.body, content)
    return SourceRequest(_INPUTS[request.signal], number, request.received, digest, to_locate)
