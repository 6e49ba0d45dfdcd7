"""`tracline serve` without its network: requests to disk, spans to sessions, sessions to verdicts.

One thread (`run`) does all of it, in rounds: what came since the last round is written to disk and
acknowledged; then it is worked off, and all that this changes is written in one transaction.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from ...schemas.candidate import Candidate
from ...schemas.chat.find import InputFlaw
from ...schemas.otlp.decoded import Decoded
from ...schemas.otlp.signal import Signal
from ...schemas.sessions.assemble import SessionAssembler
from ...schemas.settings import SessionSettings
from ...schemas.time import NS
from ..error import PROCESS_ERRORS
from ..ingest.request import Busy, ExportRequest, decode
from ..messages.session_state import SessionState
from ..messages.session_state import decode as read_state
from ..process.faultpoints import ServeFault, fault_point
from ..stages.judge import Worker, poisoned
from ..stages.resolve import Source
from .rows import add_changes
from .store import Store, StoreChanges, StoredDeadLetter, StoredRequest, damaged, is_of_the_disk

WAITING_BYTES_MAX = 64 << 20
"""Bytes of requests that wait for the next round; further ones are asked to come again."""
DISK_FREE_BYTES_MIN = 256 << 20
"""Free bytes under which no request is taken."""
STATES_KEPT_MAX = 20_000
"""Sessions whose state is kept in memory beside the store."""
ARCHIVE_ROWS = 50_000
"""Events that are archived at a time."""
RETRY_DISK_S = 30.0
RETRY_QUEUE_S = 1.0
RETRY_STOPPING_S = 5.0
"""When to come again, of a process that ends: whoever watches it may have started another by then."""


class ArchiveSink(Protocol):
    """Where judged events are kept for audits."""

    def write(self, rows: Sequence[bytes], first: int, last: int) -> None:
        """Write judged events, rows of the store with these numbers; the same again must change nothing."""

    def mark(self, watermark: int) -> None:
        """Enter that everything that was judged up to this time was written."""


@dataclass(frozen=True, slots=True)
class PipelineRuntime:
    """What the pipeline needs of the runtime around it.

    `now` is the time (ns since the epoch), `free_bytes` what the store's disk has left. `on_commit` gets each
    batch that was written, for metrics; `on_idle` is called where nothing came for a while.
    """

    now: Callable[[], int]
    free_bytes: Callable[[], int]
    archive: ArchiveSink
    on_commit: Callable[[StoreChanges], None]
    on_idle: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class StoreIntervals:
    """How often events are archived, and how long the store keeps those that are; in seconds."""

    archive_s: float = 10.0
    retain_s: float = 7 * 86_400.0


@dataclass(slots=True)
class _Arrival:
    """A request, and whoever waits for it to be on disk."""

    request: ExportRequest
    done: asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class _Work:
    """A request that is on disk: its number there, what is in it, when it came, a digest of its body."""

    number: int
    signal: Signal
    decoded: Decoded
    received: int
    sha256: str


@dataclass(slots=True)
class _Queue:
    """What came since the last round."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    came: threading.Event = field(default_factory=threading.Event)
    arrivals: list[_Arrival] = field(default_factory=list[_Arrival])
    size: int = 0
    closed: bool = False


class Pipeline:
    """The pipeline of one store; an `Intake` for the receivers, while `run` works in a thread of its own."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        settings: SessionSettings,
        runtime: PipelineRuntime,
        intervals: StoreIntervals | None = None,
    ) -> None:
        self._store, self._worker, self._settings, self._runtime = store, worker, settings, runtime
        self._intervals = intervals or StoreIntervals()
        self._queue = _Queue()
        self._states: dict[str, SessionState] = {}
        self._source = Source(settings)
        self._archived_at = runtime.now()
        self._heard_at: dict[Signal, int] = dict.fromkeys(Signal, self._archived_at)
        self._marked = 0
        self._reload()

    async def put(self, request: ExportRequest) -> None:
        """Return once the request is on disk. Raises Busy where it was not taken."""
        try:
            has_room = self._runtime.free_bytes() >= DISK_FREE_BYTES_MIN
        except OSError:
            has_room = False  # The folder is gone.
        if not has_room:
            raise Busy("disk", RETRY_DISK_S)
        arrival = _Arrival(request, asyncio.get_running_loop().create_future())
        with self._queue.lock:
            if self._queue.closed:
                raise Busy("stopping", RETRY_STOPPING_S)
            if self._queue.size > WAITING_BYTES_MAX:
                raise Busy("queue", RETRY_QUEUE_S)
            self._queue.arrivals.append(arrival)
            self._queue.size += len(request.body)
        self._queue.came.set()
        await arrival.done

    def stop(self) -> None:
        """Take nothing more; `run` finishes what it has and returns."""
        with self._queue.lock:
            self._queue.closed = True
        self._queue.came.set()

    def run(self) -> None:
        """Work until `stop`: first off what a crash left, then in rounds; at the end all is archived.

        Whatever ends it, requests that are not on disk are refused, so that their senders come again.
        """
        try:
            self.begin()
            going_on = True
            while going_on:
                self._queue.came.wait(self._settings.tick_s)
                going_on = self.turn()
            self.archive()
        finally:
            self.stop()
            _refuse(self._arrived(), Busy("stopping", RETRY_STOPPING_S))

    def begin(self) -> None:
        """Finish what a crash left unfinished."""
        self._archive_begun()
        self._work_off([_stored(one) for one in self._store.inbox()])

    def turn(self) -> bool:
        """Take what came since the last round, and what the time brings; whether more may come."""
        with self._queue.lock:
            going_on = not self._queue.closed
        arrivals = self._arrived()
        try:
            self._round(arrivals)
        except BaseException:
            # Those that are on disk have their answer already.
            _refuse(arrivals, Busy("stopping", RETRY_STOPPING_S))
            raise
        return going_on

    def _arrived(self) -> list[_Arrival]:
        """Take what came since the last time."""
        with self._queue.lock:
            arrivals, self._queue.arrivals, self._queue.size = self._queue.arrivals, [], 0
            self._queue.came.clear()
        return arrivals

    def _round(self, arrivals: Sequence[_Arrival]) -> None:
        works = self._accept(arrivals) if arrivals else []
        now = self._runtime.now()
        self._heard_at.update((work.signal, now) for work in works)
        tick = round(self._settings.tick_s * NS)
        if now - self._heard_at[Signal.SPANS] >= tick:
            self._source.idle_spans(now)
            self._runtime.on_idle()
        if now - self._heard_at[Signal.LOGS] >= tick:
            self._source.idle_logs(now)
        self._work_off(works)
        if now - self._archived_at >= round(self._intervals.archive_s * NS):
            self._archived_at = now
            self._archive_if_the_disk_lets(now)

    def _archive_if_the_disk_lets(self, now: int) -> None:
        """Archive and prune; where the disk does not take what the store notes of it, the next time."""
        try:
            self.archive()
            self._store.prune(now - round(self._intervals.retain_s * NS))
        except sqlite3.OperationalError as error:
            if not is_of_the_disk(error):
                raise

    def _accept(self, arrivals: Sequence[_Arrival]) -> list[_Work]:
        """Write what came to disk, and let its senders know."""
        fault_point(ServeFault.RECEIVED)
        requests = [one.request for one in arrivals]
        try:
            numbers = self._store.accept(requests)
        except sqlite3.OperationalError as error:
            if not is_of_the_disk(error):
                raise
            _refuse(arrivals, Busy("disk", RETRY_DISK_S))
            return []
        fault_point(ServeFault.ACCEPTED)
        for one in arrivals:
            _answer(one.done, None)
        fault_point(ServeFault.ACKNOWLEDGED)
        return [
            _Work(number, one.signal, one.decoded, one.received, _sha256(one.body))
            for number, one in zip(numbers, requests, strict=True)
        ]

    def _work_off(self, works: Sequence[_Work]) -> None:
        """Judge requests, and what is due: all together, or one by one where one of them is poison."""
        before = self._source.watermark
        try:
            batch = self._judged(works)
        except Exception as error:
            if isinstance(error, (*PROCESS_ERRORS, sqlite3.Error)) or not works:
                raise
            # The time that a request tells must not come before the request, when it is judged again.
            self._reload(before)
            if len(works) > 1:
                for one in works:
                    self._work_off([one])
                return
            # What one request breaks must not stop the others: it is told, and taken out of the way.
            batch = self._judged([])
            batch.worked_off = batch.quarantined = works[0].number
            batch.dead_letters.append(_letter(works[0], "request", "internal", type(error).__name__))
        if batch.is_empty:
            return
        fault_point(ServeFault.JUDGED)
        self._commit(batch)
        fault_point(ServeFault.COMMITTED)
        batch.open_sessions = self._store.open_sessions()
        self._runtime.on_commit(batch)

    def _commit(self, batch: StoreChanges) -> None:
        """Write a batch; while the disk does not take it, take no request either.

        Once the process is told to stop it raises what the store says; the requests are in the inbox.
        """
        while True:
            try:
                return self._store.commit(batch)
            except sqlite3.OperationalError as error:
                if self._queue.closed or not is_of_the_disk(error):
                    raise
                self._queue.came.wait(RETRY_QUEUE_S)
                _refuse(self._arrived(), Busy("disk", RETRY_DISK_S))

    def _judged(self, works: Sequence[_Work]) -> StoreChanges:
        """Return what the requests change, and what the watermark has passed."""
        now = self._runtime.now()
        batch = StoreChanges(worked_off=works[-1].number if works else 0)
        batch.received = max((work.received for work in works), default=None)
        for work in works:
            for flaw in work.decoded.flaws:
                batch.dead_letters.append(_letter(work, flaw.place, flaw.code, flaw.text))
            heard = self._source.hear(work.decoded, work.received, signal=work.signal)
            batch.spans += zip(work.decoded.spans, (one.content for one in heard), strict=True)
            for span, one in zip(work.decoded.spans, heard, strict=True):
                batch.census.count(span.scope, 1, one.has_claims)
            batch.log_records = batch.log_records or bool(work.decoded.records)
        if batch.received is not None:
            # Log records that came before are in hand.
            self._source.idle_logs(batch.received)
        unjoined = self._source.unjoined
        released = self._source.release(now)
        batch.spans_early = sum(one.is_early for one in released)
        candidates = [one.made for one in released if isinstance(one.made, Candidate)]
        flaws = [one.made for one in released if isinstance(one.made, InputFlaw)]
        batch.dead_letters += [StoredDeadLetter(now, flaw.place, flaw.code, flaw.text, "") for flaw in flaws]
        batch.unjoined = self._source.unjoined - unjoined
        batch.watermark, batch.spans_time = self._source.watermark, self._source.spans_time
        batch.logs_time = self._source.logs_time
        states = self._touched(candidates)
        outputs = self._worker.step_apart(states, candidates, batch.watermark, self._stored_state)
        batch.dead_letters += [
            StoredDeadLetter(now, *told, "") for one in outputs.poison for told in poisoned(one)
        ]
        add_changes(batch, outputs, states, now)
        self._forget_states(states)
        batch.traces.update(self._source.changes())
        batch.spans_waiting, batch.records_waiting = self._source.waiting, self._source.waiting_records
        return batch

    def _touched(self, candidates: Sequence[Candidate]) -> dict[str, SessionState]:
        """The states of the candidates' sessions and of those that are due."""
        due: dict[str, bytes | None] = dict(self._store.due(self._source.watermark))
        for session_id in {one.session_id for one in candidates}.difference(due):
            due[session_id] = None if session_id in self._states else self._store.session(session_id)
        states: dict[str, SessionState] = {}
        for session_id in sorted(due):
            data, known = due[session_id], self._states.get(session_id)
            if known is None:
                known = self._new_state(session_id) if data is None else read_state(data)
            states[session_id] = known
        return states

    def _stored_state(self, session_id: str) -> SessionState:
        """A session's state as the store has it."""
        data = self._store.session(session_id)
        return self._new_state(session_id) if data is None else read_state(data)

    def _new_state(self, session_id: str) -> SessionState:
        return SessionState(SessionAssembler(session_id, round(self._settings.idle_s * NS)))

    def _forget_states(self, touched: dict[str, SessionState]) -> None:
        """Keep the states that were touched last."""
        for session_id, state in touched.items():
            self._states.pop(session_id, None)
            if state.session.due is not None:
                self._states[session_id] = state
        while len(self._states) > STATES_KEPT_MAX:
            del self._states[next(iter(self._states))]

    def _reload(self, watermark: int = 0) -> None:
        """Go back to what the store says; the time does not go back before `watermark`."""
        stored = max(watermark, self._store.number("watermark"))
        spans_time, logs_time = (self._store.time(name) for name in ("spans_time", "logs_time"))
        try:
            traces = {name: [data] for name, data in self._store.traces()}
            self._source = Source(self._settings, traces, stored, spans_time=spans_time, logs_time=logs_time)
        except (msgspec.MsgspecError, TypeError):
            raise damaged() from None
        self._states.clear()

    def archive(self) -> None:
        """Archive what was judged since the last time, and how far that goes."""
        while rows := self._store.events(self._store.number("archived"), ARCHIVE_ROWS):
            self._store.note("archiving", rows[-1][0])
            fault_point(ServeFault.ARCHIVING)
            self._archive_rows(rows)
        watermark = self._source.watermark
        if watermark > self._marked:
            # Also where nothing was judged: what is judged after a restart must lie behind the mark.
            self._store.note("watermark", watermark)
            fault_point(ServeFault.MARKING)
            self._runtime.archive.mark(watermark)
            self._marked = watermark

    def _archive_begun(self) -> None:
        """Archive again what a crash may have left half archived: the same events, in the same file."""
        archived, begun = (self._store.number(name) for name in ("archived", "archiving"))
        if begun > archived:
            self._archive_rows([row for row in self._store.events(archived, ARCHIVE_ROWS) if row[0] <= begun])

    def _archive_rows(self, rows: Sequence[tuple[int, bytes]]) -> None:
        self._runtime.archive.write([row for _, row in rows], rows[0][0], rows[-1][0])
        fault_point(ServeFault.WRITTEN)
        self._store.archived(rows[-1][0], self._runtime.now())
        fault_point(ServeFault.ARCHIVED)


def _stored(one: StoredRequest) -> _Work:
    decoded = decode(one.body, one.encoding, one.signal)
    return _Work(one.number, one.signal, decoded, one.received, _sha256(one.body))


def _letter(work: _Work, place: str, code: str, reason: str) -> StoredDeadLetter:
    return StoredDeadLetter(work.received, place, code, reason, work.sha256)


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _refuse(arrivals: Sequence[_Arrival], busy: Busy) -> None:
    """Let senders know that their requests are not taken; those that were answered before hear nothing."""
    for arrival in arrivals:
        _answer(arrival.done, busy)


def _answer(done: asyncio.Future[None], error: Busy | None) -> None:
    """Let the loop of whoever waits know how it went; it may have gone away."""

    def settle() -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    done.get_loop().call_soon_threadsafe(settle)
