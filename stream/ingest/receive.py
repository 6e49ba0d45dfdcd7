"""Handling a request of either transport: decompress, decode, store, answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb

from ...schemas.chat.find import InputFlaw
from ...schemas.otlp.decoded import Decoded
from ...schemas.otlp.signal import Signal
from ...schemas.plain_traces.requests import PlainRequest
from .decompress import IDENTITY, unpack
from .limits import Admission, AdmissionControl, ReceiverLimits
from .meter import ReceiverMeter, RequestKind
from .rejections import Reason, Refused
from .request import Busy, ExportRequest, Intake, RequestContent, decode, read

FLAWS_IN_ANSWER_MAX = 5
"""Flaws that an answer names, one of each code."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartialSuccess:
    """The answer to an accepted request: the least number of rejected items, and why."""

    rejected: int = 0
    text: str = ""


class RequestHandler:
    """The state that all receivers of a process share. It belongs to one event loop.

    `scope` are the resource attributes that precede the ids of sessions. Every request is decoded until
    `is_compiled` returns that the loops are there which read plain ones.
    """

    def __init__(
        self,
        intake: Intake,
        meter: ReceiverMeter,
        limits: ReceiverLimits | None = None,
        now: Callable[[], int] = time.time_ns,
        scope: Sequence[str] = (),
        is_compiled: Callable[[], bool] = lambda: True,
    ) -> None:
        self.limits = limits or ReceiverLimits()
        self.meter = meter
        self.admissions = AdmissionControl(self.limits)
        self._intake = intake
        self._now, self._scope, self._is_compiled = now, scope, is_compiled
        self._decoding = asyncio.Semaphore(self.limits.decoders_max)

    async def handle(
        self, admission: Admission, kind: RequestKind, data: bytes, coding: str = IDENTITY
    ) -> PartialSuccess:
        """Read a request's body, and return once it is on disk. Raises Refused where it is not stored.

        A request of metrics is acknowledged and dropped undecoded, so that its sender neither fails nor
        retries. A request in which nothing can be read is stored, so that an operator can look up its flaws,
        and then refused. An empty one, or one of log records without content, is accepted and not stored.
        After an unexpected error the sender is asked to retry.
        """
        if kind.signal is Signal.METRICS:
            self.meter.dropped(kind)
            return PartialSuccess()
        try:
            return await self._handle(admission, kind, data, coding)
        except Refused:
            raise
        except Exception as error:
            # The error's text may hold telemetry.
            at = extract_tb(error.__traceback__)[-1]
            name = type(error).__name__
            _LOG.error("cannot handle a request: %s in %s:%s", name, Path(at.filename).name, at.lineno)
            raise Refused(Reason.FAULT, "internal error", self.limits.retry_s) from None

    async def _handle(
        self, admission: Admission, kind: RequestKind, data: bytes, coding: str
    ) -> PartialSuccess:
        request = await self._read(admission, kind, data, coding)
        content = request.content
        if isinstance(content, PlainRequest):
            await self._put(request)
            self.meter.received(kind, content.size, len(request.body))
            return PartialSuccess()
        return await self._handle_decoded(kind, request, content)

    async def _handle_decoded(
        self, kind: RequestKind, request: ExportRequest, decoded: Decoded
    ) -> PartialSuccess:
        """Handle a request that was decoded, and may have flaws."""
        if decoded.flaws:
            self.meter.flawed(kind.signal, decoded.rejected, Counter(flaw.code for flaw in decoded.flaws))
        unreadable = bool(decoded.flaws) and not decoded.items
        if decoded.spans or decoded.records or decoded.flaws:
            try:
                await self._put(request)
            except Refused:
                if not unreadable:
                    raise
        if unreadable:
            text = f"nothing in the request can be read; {_flaws_text(decoded.flaws)}"
            raise Refused(Reason.UNREADABLE, text, flaws=decoded.flaws)
        self.meter.received(kind, decoded.items, len(request.body))
        self.meter.unlinked(decoded.unlinked)
        return PartialSuccess(decoded.rejected, _flaws_text(decoded.flaws))

    async def _put(self, request: ExportRequest) -> None:
        """Return once a request is on disk. Raises Refused where it is not stored."""
        try:
            await self._intake.put(request)
        except Busy as busy:
            raise _refused(busy) from None

    async def _read(self, admission: Admission, kind: RequestKind, data: bytes, coding: str) -> ExportRequest:
        """Return the request with its body decompressed, and what it holds."""
        received = self._now()

        def content_of(body: bytes) -> RequestContent:
            if not self._is_compiled():
                return decode(body, kind.encoding, kind.signal)
            return read(body, kind.encoding, kind.signal, received, self._scope)

        if coding == IDENTITY and len(data) <= self.limits.inline_bytes_max:
            return ExportRequest(data, kind.encoding, content_of(data), received, kind.signal)
        async with self._decoding:
            body = data
            if coding != IDENTITY:
                body = await asyncio.to_thread(unpack, data, coding, self.limits)
                admission.hold(len(body))
            content = await asyncio.to_thread(content_of, body)
            return ExportRequest(body, kind.encoding, content, received, kind.signal)


def _refused(busy: Busy) -> Refused:
    if busy.reason == Reason.DISK:
        return Refused(Reason.DISK, "cannot write the request to disk", busy.retry_after_s)
    if busy.reason == Reason.STOPPING:
        return Refused(Reason.STOPPING, "the process is stopping", busy.retry_after_s)
    return Refused(Reason.QUEUE, "the queue of requests is full", busy.retry_after_s)


def _flaws_text(flaws: tuple[InputFlaw, ...]) -> str:
    """Return the first flaw of each code and how many more there are of it, empty without flaws."""
    count = Counter(flaw.code for flaw in flaws)
    firsts = {flaw.code: flaw for flaw in reversed(flaws)}
    texts: list[str] = []
    for code, flaw in sorted(firsts.items())[:FLAWS_IN_ANSWER_MAX]:
        more = f" (and {count[code] - 1} more)" if count[code] > 1 else ""
        texts.append(f"{flaw.place}: {code} {flaw.text}{more}")
    return "; ".join(texts)
