"""Spans from an agent's OpenTelemetry SDK straight into Kafka, without a collector."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakMethod

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from ...error import StreamError
from ...group.broker_errors import KafkaError
from ...group.client import OutgoingRecord
from ...messages.topics import Topic
from ..librdkafka.sender import RecordSender
from ..preflight import check_listening
from ..properties import connecting, producing
from ..settings import KafkaSettings

TIMEOUT_S = 10.0
MS_MIN = 10
"""The shortest time that librdkafka takes, in milliseconds."""
REQUEST_MS_MAX = 300_000
"""The longest time that librdkafka waits for an answer, in milliseconds."""
_LOGGER = logging.getLogger(__name__)


class KafkaSpanExporter(SpanExporter):
    """An exporter that sends spans to `spans_topic` as a collector does: OTLP requests keyed by trace.

    Give it to a `BatchSpanProcessor`. A broker that is away does no harm but to the spans that end
    meanwhile: the SDK drops what an exporter fails to send. It connects with the first spans, and again in
    a process that is forked off.

    Raises StreamError (TRL721, TRL722) if the settings cannot be used.
    """

    def __init__(self, settings: KafkaSettings | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        self._settings = settings or KafkaSettings()
        self._timeout_s = timeout_s
        self._sender: RecordSender | None = None
        self._lock = threading.Lock()
        self._shut = False
        connecting(self._settings, "exporter")
        if hasattr(os, "register_at_fork"):
            forked = WeakMethod(self._forked)
            os.register_at_fork(after_in_child=lambda: (begin := forked()) and begin())

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans; SUCCESS only when the brokers have acknowledged every one of them.

        After a FAILURE some may have been sent all the same; a span that comes twice is judged once. A span
        that is larger than a message may be cannot be sent.
        """
        with self._lock:
            if self._shut:
                _LOGGER.warning("spans are not exported: the exporter is shut down")
                return SpanExportResult.FAILURE
            try:
                return self._send(spans)
            except (KafkaError, StreamError) as error:
                # Not the error's text, which may quote what was sent.
                _LOGGER.warning("spans are not exported: %s", type(error).__name__)
                self._close()
                return SpanExportResult.FAILURE

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 (the SDK's signature)
        """Return True: the spans of `export` are sent when it returns."""
        return True

    def shutdown(self) -> None:
        """Close the connection; later spans are not sent."""
        with self._lock:
            self._shut = True
            self._close()

    def _send(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans and wait for all acknowledgements. Raises KafkaError, StreamError."""
        if self._sender is None:
            check_listening(self._settings, self._timeout_s)
            self._sender = RecordSender(self._properties())
        topic = self._settings.topic(Topic.SPANS)
        requests, too_large = by_trace(spans, self._settings.message_bytes_max)
        self._sender.send(OutgoingRecord(topic, None, key, value) for key, value in requests)
        if too_large:
            _LOGGER.warning("%d spans are larger than message_bytes_max and are not exported", too_large)
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def _properties(self) -> dict[str, Any]:
        """Return the producer's properties, which try no record for longer than an export may take."""
        timeout_ms = max(MS_MIN, int(self._timeout_s * 1000))
        request_ms = min(max(MS_MIN, timeout_ms // 2), REQUEST_MS_MAX)
        waits = {"message.timeout.ms": timeout_ms, "socket.timeout.ms": request_ms, "linger.ms": 0}
        return {**producing(self._settings, "exporter"), **waits}

    def _forked(self) -> None:
        """Forget the producer in a child, which has the parent's lock and connection, but no threads."""
        self._lock = threading.Lock()
        if self._sender is not None:
            # Closing or freeing it would wait for those threads: even the end of the child must not do so.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._sender))
            self._sender = None

    def _close(self) -> None:
        """Drop the producer: one that failed may be unable to go on; the next export makes another."""
        if self._sender is not None:
            self._sender.close()
            self._sender = None


def by_trace(spans: Sequence[ReadableSpan], bytes_max: int) -> tuple[list[tuple[bytes, bytes]], int]:
    """Return the spans as (key, OTLP request) of at most so many bytes, by trace, and how many fit into none.

    The key is the trace id in hexadecimal digits, as a collector with `partition_traces_by_id` has it: the
    same spans come to the same partition whichever way they go.
    """
    traces: defaultdict[int, list[ReadableSpan]] = defaultdict(list)
    for span in spans:
        context = span.get_span_context()
        assert context is not None, "the SDK exports spans that have begun"
        traces[context.trace_id].append(span)
    requests: list[tuple[bytes, bytes]] = []
    too_large = 0
    for trace, members in traces.items():
        for value in _requests(members, bytes_max):
            if value is None:
                too_large += 1
            else:
                requests.append((b"%032x" % trace, value))
    return requests, too_large


def _requests(spans: Sequence[ReadableSpan], bytes_max: int) -> Iterator[bytes | None]:
    """Yield the spans as one request, or halved as often as it takes; None for a span that is too large."""
    value = encode_spans(spans).SerializeToString()
    if len(value) <= bytes_max:
        yield value
    elif len(spans) == 1:
        yield None
    else:
        middle = len(spans) // 2
        yield from _requests(spans[:middle], bytes_max)
        yield from _requests(spans[middle:], bytes_max)
