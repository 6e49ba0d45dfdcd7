"""The instrumented bot with other receivers behind its SDK, and the candidates that its spans must become."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from subprocess import Popen, TimeoutExpired

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.instrumented_bot import converse
from tracline.stream.messages.record import Record

from .keyed import SETTINGS, SOURCES, batches_of, candidates_of, inputs, rekeyer

WAIT_S = 60.0
POLL_S = 0.1
LIVE = replace(SETTINGS, lateness_s=3, tick_s=0.2, hold_s=600)
"""The clock moves, since the spans' times are of now."""


@dataclass
class TurnAbout(SpanExporter):
    """Sends spans to several receivers, one to the first, the next to the second, and so on."""

    receivers: Sequence[SpanExporter]
    turn: int = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans; SUCCESS where every receiver took its own."""
        count, first = len(self.receivers), self.turn
        self.turn += len(spans)
        shares = [spans[(place - first) % count :: count] for place in range(count)]
        told = [one.export(share) for one, share in zip(self.receivers, shares, strict=True) if share]
        is_taken = all(one is SpanExportResult.SUCCESS for one in told)
        return SpanExportResult.SUCCESS if is_taken else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Send no more."""
        for one in self.receivers:
            one.shutdown()


def talk(ports: Sequence[int], *, sessions: int, seed: int) -> bytes:
    """Have conversations whose spans go turn about to OTLP/HTTP receivers; all spans, as one request."""
    kept = InMemorySpanExporter()
    sending = TurnAbout([OTLPSpanExporter(f"http://127.0.0.1:{port}/v1/traces") for port in ports])
    provider = TracerProvider(resource=Resource.create({"service.name": "support-desk"}))
    provider.add_span_processor(SimpleSpanProcessor(kept))
    provider.add_span_processor(BatchSpanProcessor(sending, schedule_delay_millis=50))
    told = list(conversations(Desk(sessions=sessions, seed=seed)))
    asyncio.run(converse(told, provider, pace_s=0.001, at_once=4, prefix=f"talk-{seed}"))
    provider.shutdown()
    return encode_spans(kept.get_finished_spans()).SerializeToString()


def resolved(body: bytes) -> Counter[str]:
    """The candidates that a rekeyer sends which has all spans at once, from one source, and then the time."""
    one, now = rekeyer(LIVE), time.time_ns()
    for source in range(SOURCES):
        one.assign(source, {})
    done = one.take([Record(0, 0, now, body)])
    ticked = one.idle(inputs(range(SOURCES)), now + round(LIVE.hold_s * 1e9))
    assert not one.waiting()
    return candidates_of([*batches_of(done), *batches_of(ticked)])


def listening(process: Popen[bytes], port: int, said: Callable[[], str]) -> None:
    """Wait until a process listens on a port; AssertionError with what it said where it ends before."""
    until = time.monotonic() + WAIT_S
    while True:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), POLL_S).close()
            return
        assert time.monotonic() < until, f"nobody listens:\n{said()}"
        with suppress(TimeoutExpired):
            process.wait(POLL_S)
            raise AssertionError(f"it has ended:\n{said()}")
