"""Handling a request of either transport: decompress, decode, store, answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb

from ...schemas.chat.find import InputFlaw
from ...schemas.otlp.decoded import Decoded
from ...schemas.otlp.signal import Signal
from .decompress import IDENTITY, unpack
from .limits import Admission, AdmissionControl, ReceiverLimits
from .meter import ReceiverMeter, RequestKind
from .rejections import Reason, Refused
from .request import Busy, ExportRequest, Intake, decode

FLAWS_IN_ANSWER_MAX = 5
"""Flaws that an answer names, one of each code."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartialSuccess:
    """The answer to an accepted request: the least number of rejected items, and why."""

    rejected: int = 0
    text: str = ""


class RequestHandler:
    """The state that all receivers of a process share. It belongs to one event loop."""

    def __init__(
        self,
        intake: Intake,
        meter: ReceiverMeter,
        limits: ReceiverLimits | None = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self.limits = limits or ReceiverLimits()
        self.meter = meter
        self.admissions = AdmissionControl(self.limits)
        self._intake = intake
        self._now = now
        self._decoding = asyncio.Semaphore(self.limits.decoders_max)

    async def handle(
        self, admission: Admission, kind: RequestKind, data: bytes, coding: str = IDENTITY
    ) -> PartialSuccess:
        """Decode a request's body, and return once it is on disk. Raises Refused where it is not stored.

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
        received = self._now()
        body, decoded = await self._read(admission, kind, data, coding)
        if decoded.flaws:
            self.meter.flawed(kind.signal, decoded.rejected, Counter(flaw.code for flaw in decoded.flaws))
        unreadable = bool(decoded.flaws) and not decoded.items
        if decoded.spans or decoded.records or decoded.flaws:
            try:
                await self._intake.put(ExportRequest(body, kind.encoding, decoded, received, kind.signal))
            except Busy as busy:
                if not unreadable:
                    raise _refused(busy) from None
        if unreadable:
            text = f"nothing in the request can be read; {_flaws_text(decoded.flaws)}"
            raise Refused(Reason.UNREADABLE, text, flaws=decoded.flaws)
        self.meter.received(kind, decoded.items, len(body))
        self.meter.unlinked(decoded.unlinked)
        return PartialSuccess(decoded.rejected, _flaws_text(decoded.flaws))

    async def _read(
        self, admission: Admission, kind: RequestKind, data: bytes, coding: str
    ) -> tuple[bytes, Decoded]:
        """Return the decompressed body, and what it holds."""
        if coding == IDENTITY and len(data) <= self.limits.inline_bytes_max:
            return data, decode(data, kind.encoding, kind.signal)
        async with self._decoding:
            body = data
            if coding != IDENTITY:
                body = await asyncio.to_thread(unpack, data, coding, self.limits)
                admission.hold(len(body))
            return body, await asyncio.to_thread(decode, body, kind.encoding, kind.signal)


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
