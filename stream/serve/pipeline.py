"""The pipeline of `tracline serve` without its network: requests to spans, sessions and verdicts.

One thread (`run`) works in rounds. It writes the queued requests to disk and acknowledges them, judges them,
and writes everything that this changes in one transaction.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from ...schemas.candidate import Candidate
from ...schemas.chat.find import InputFlaw
from ...schemas.otlp.decoded import Decoded
from ...schemas.otlp.signal import Signal
from ...schemas.settings import SessionSettings
from ...schemas.time import NS
from ..error import PROCESS_ERRORS
from ..ingest.request import Busy, ExportRequest, decode
from ..process.faultpoints import ServeFault, fault_point
from ..stages.judge import SessionJudge, poisoned
from ..stages.resolve import Source
from .archiving import ArchiveSink, StoreArchiver, StoreIntervals
from .request_queue import RETRY_DISK_S, RETRY_QUEUE_S, RETRY_STOPPING_S, Arrival, RequestQueue, refuse
from .rows import add_changes
from .session_states import SessionStates
from .store import Store, StoreChanges, StoredDeadLetter, StoredRequest, damaged, is_of_the_disk


@dataclass(frozen=True, slots=True)
class PipelineRuntime:
    """The environment of the pipeline.

    `now` returns the time (ns since the epoch), `free_bytes` the free space of the store's disk. `on_commit`
    gets each batch that was written, for metrics; `on_idle` is called in rounds without spans.
    """

    now: Callable[[], int]
    free_bytes: Callable[[], int]
    archive: ArchiveSink
    on_commit: Callable[[StoreChanges], None]
    on_idle: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class _Work:
    """A request that is on disk: its number there, its content, its arrival, and a digest of its body."""

    number: int
    signal: Signal
    decoded: Decoded
    received: int
    sha256: str

    def dead_letter(self, place: str, code: str, reason: str) -> StoredDeadLetter:
        """Return a dead letter of something in this request."""
        return StoredDeadLetter(self.received, place, code, reason, self.sha256)


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
        self._states = SessionStates(store, round(settings.idle_s * NS))
        self._source = Source(settings)
        self._arrived_at: dict[Signal, int] = dict.fromkeys(Signal, runtime.now())
        self._reload()

    async def put(self, request: ExportRequest) -> None:
        """Return once the request is on disk. Raises Busy where it is not."""
        await self._queue.put(request)

    def stop(self) -> None:
        """Accept no more requests; `run` finishes those that it has and returns."""
        self._queue.close()

    def run(self) -> None:
        """Work until `stop`: finish what a crash left, then work in rounds, and archive at the end.

        However it ends, it refuses the requests that are not on disk, so that their senders retry.
        """
        try:
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
        self._process([_from_inbox(stored) for stored in self._store.inbox()])

    def turn(self) -> bool:
        """Work one round, and return whether further requests may come."""
        is_running = not self._queue.is_closed
        arrivals = self._queue.take()
        try:
            self._round(arrivals)
        except BaseException:
            # Those on disk have their answer already.
            refuse(arrivals, Busy("stopping", RETRY_STOPPING_S))
            raise
        return is_running

    def archive(self) -> None:
        """Archive the events judged since the last time."""
        self._archiver.archive(self._source.watermark)

    def _round(self, arrivals: Sequence[Arrival]) -> None:
        works = self._accept(arrivals) if arrivals else []
        now = self._runtime.now()
        self._arrived_at.update((work.signal, now) for work in works)
        tick = round(self._settings.tick_s * NS)
        if now - self._arrived_at[Signal.SPANS] >= tick:
            self._source.idle_spans(now)
            self._runtime.on_idle()
        if now - self._arrived_at[Signal.LOGS] >= tick:
            self._source.idle_logs(now)
        self._process(works)
        self._archiver.archive_if_due(now, self._source.watermark)

    def _accept(self, arrivals: Sequence[Arrival]) -> list[_Work]:
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
        return [
            _Work(number, request.signal, request.decoded, request.received, _sha256(request.body))
            for number, request in zip(numbers, requests, strict=True)
        ]

    def _process(self, works: Sequence[_Work]) -> None:
        """Judge requests and due sessions: all together, or one by one where a request raises an error."""
        before = self._source.watermark
        try:
            batch = self._judged(works)
        except Exception as error:
            if isinstance(error, (*PROCESS_ERRORS, sqlite3.Error)) or not works:
                raise
            # Judged again, a request must not see the watermark that it set itself.
            self._reload(before)
            if len(works) > 1:
                for work in works:
                    self._process([work])
                return
            # A broken request must not stop the others: it becomes a dead letter and goes to quarantine.
            batch = self._judged([])
            batch.worked_off = batch.quarantined = works[0].number
            batch.dead_letters.append(works[0].dead_letter("request", "internal", type(error).__name__))
        if batch.is_empty:
            return
        fault_point(ServeFault.JUDGED)
        self._commit(batch)
        fault_point(ServeFault.COMMITTED)
        batch.open_sessions = self._store.open_sessions()
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

    def _judged(self, works: Sequence[_Work]) -> StoreChanges:
        """Return what these requests change, and the sessions that are due at the new watermark."""
        now = self._runtime.now()
        batch = StoreChanges(worked_off=works[-1].number if works else 0)
        batch.received = max((work.received for work in works), default=None)
        for work in works:
            self._read(work, batch)
        if batch.received is not None:
            # All log records that came before have been read.
            self._source.idle_logs(batch.received)
        candidates = self._released(now, batch)
        touched = self._states.touched((candidate.session_id for candidate in candidates), batch.watermark)
        judged = self._judge.step(touched, candidates, batch.watermark, self._states.take)
        outputs, states = judged.outputs, judged.states
        batch.dead_letters += _dead_letters(
            now, (flaw for poison in outputs.poison for flaw in poisoned(poison))
        )
        add_changes(batch, outputs, states, now)
        self._states.remember(states)
        batch.traces.update(self._source.changes())
        batch.spans_waiting, batch.records_waiting = self._source.waiting, self._source.waiting_records
        return batch

    def _read(self, work: _Work, batch: StoreChanges) -> None:
        """Read the spans and log records of a request into the source."""
        batch.dead_letters += [
            work.dead_letter(flaw.place, flaw.code, flaw.text) for flaw in work.decoded.flaws
        ]
        readings = self._source.add_request(work.decoded, work.received, signal=work.signal)
        for span, reading in zip(work.decoded.spans, readings, strict=True):
            batch.spans.append((span, reading.content))
            batch.census.count(span.scope, 1, reading.has_claims)
        batch.log_records = batch.log_records or bool(work.decoded.records)

    def _released(self, now: int, batch: StoreChanges) -> list[Candidate]:
        """Return the candidates whose session is known by now, and note the watermark."""
        unjoined = self._source.unjoined
        released = self._source.release(now)
        batch.spans_early = sum(release.is_early for release in released)
        flaws = [release.made for release in released if isinstance(release.made, InputFlaw)]
        batch.dead_letters += _dead_letters(now, ((flaw.place, flaw.code, flaw.text) for flaw in flaws))
        batch.unjoined = self._source.unjoined - unjoined
        batch.watermark, batch.spans_time = self._source.watermark, self._source.spans_time
        batch.logs_time = self._source.logs_time
        return [release.made for release in released if isinstance(release.made, Candidate)]

    def _reload(self, watermark: int = 0) -> None:
        """Return to the state in the store; the watermark does not fall below the given one."""
        stored = max(watermark, self._store.number("watermark"))
        spans_time, logs_time = (self._store.time(name) for name in ("spans_time", "logs_time"))
        try:
            traces = {name: [data] for name, data in self._store.traces()}
            self._source = Source(self._settings, traces, stored, spans_time=spans_time, logs_time=logs_time)
        except (msgspec.MsgspecError, TypeError):
            raise damaged() from None
        self._states.clear()


def _from_inbox(stored: StoredRequest) -> _Work:
    decoded = decode(stored.body, stored.encoding, stored.signal)
    return _Work(stored.number, stored.signal, decoded, stored.received, _sha256(stored.body))


def _dead_letters(now: int, flaws: Iterable[tuple[str, str, str]]) -> list[StoredDeadLetter]:
    """Return dead letters by place, code and reason of things that belong to no single request."""
    return [StoredDeadLetter(now, *flaw, sha256="") for flaw in flaws]


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
