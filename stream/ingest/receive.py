"""Taking a request, whatever it came by: unpack, decode, keep, answer."""

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
from .limits import Limits, Place, Room
from .meter import Meter, Way
from .rejections import Reason, Refused
from .request import Busy, Intake, Request, decode

FLAWS_TOLD_MAX = 5
"""Flaws that an answer tells, one of each code."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to a request that was taken: the least number of items that were not, and why."""

    rejected: int = 0
    text: str = ""


class Reception:
    """What all receivers of a process share. Lives in one event loop."""

    def __init__(
        self,
        intake: Intake,
        meter: Meter,
        limits: Limits | None = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self.limits = limits or Limits()
        self.meter = meter
        self.room = Room(self.limits)
        self._intake = intake
        self._now = now
        self._decoding = asyncio.Semaphore(self.limits.decoders_max)

    async def take(self, place: Place, way: Way, data: bytes, coding: str = IDENTITY) -> Taken:
        """Decode a request's body, and return when it is kept. Raises Refused where it is not.

        Metrics are dropped without being decoded: their senders shall neither fail nor come again.

        A request in which nothing can be read is kept as well, so that what was wrong can be looked up,
        and then refused. An empty one, or one of log records without content, is taken and not kept.
        Whatever goes wrong unexpectedly is not its sender's fault, who is asked to come again.
        """
        if way.signal is Signal.METRICS:
            self.meter.dropped(way)
            return Taken()
        try:
            return await self._take(place, way, data, coding)
        except Refused:
            raise
        except Exception as error:
            # Its text may be telemetry's.
            at = extract_tb(error.__traceback__)[-1]
            _LOG.error("not taken: %s in %s:%s", type(error).__name__, Path(at.filename).name, at.lineno)
            raise Refused(Reason.FAULT, "the request could not be taken", self.limits.retry_s) from None

    async def _take(self, place: Place, way: Way, data: bytes, coding: str) -> Taken:
        received = self._now()
        body, decoded = await self._read(place, way, data, coding)
        if decoded.flaws:
            self.meter.flawed(way.signal, decoded.rejected, Counter(flaw.code for flaw in decoded.flaws))
        unreadable = bool(decoded.flaws) and not decoded.items
        if decoded.spans or decoded.records or decoded.flaws:
            try:
                await self._intake.put(Request(body, way.encoding, decoded, received, way.signal))
            except Busy as busy:
                if not unreadable:
                    raise _refused(busy) from None
        if unreadable:
            text = f"nothing in the request can be read; {_told(decoded.flaws)}"
            raise Refused(Reason.UNREADABLE, text, flaws=decoded.flaws)
        self.meter.received(way, decoded.items, len(body))
        self.meter.unlinked(decoded.unlinked)
        return Taken(decoded.rejected, _told(decoded.flaws))

    async def _read(self, place: Place, way: Way, data: bytes, coding: str) -> tuple[bytes, Decoded]:
        if coding == IDENTITY and len(data) <= self.limits.inline_bytes_max:
            return data, decode(data, way.encoding, way.signal)
        async with self._decoding:
            body = data
            if coding != IDENTITY:
                body = await asyncio.to_thread(unpack, data, coding, self.limits)
                place.hold(len(body))
            return body, await asyncio.to_thread(decode, body, way.encoding, way.signal)


def _refused(busy: Busy) -> Refused:
    if busy.reason == Reason.DISK:
        return Refused(Reason.DISK, "there is no room to keep the request", busy.retry_after_s)
    if busy.reason == Reason.STOPPING:
        return Refused(Reason.STOPPING, "the process ends; what was sent is not taken", busy.retry_after_s)
    return Refused(Reason.QUEUE, "what was sent before is not worked off", busy.retry_after_s)


def _told(flaws: tuple[InputFlaw, ...]) -> str:
    """The first flaw of each code, and how many more there are of it; empty where there are none."""
    count = Counter(flaw.code for flaw in flaws)
    firsts = {flaw.code: flaw for flaw in reversed(flaws)}
    told: list[str] = []
    for code, flaw in sorted(firsts.items())[:FLAWS_TOLD_MAX]:
        more = f" (and {count[code] - 1} more)" if count[code] > 1 else ""
        told.append(f"{flaw.place}: {code} {flaw.text}{more}")
    return "; ".join(told)
