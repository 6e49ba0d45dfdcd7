"""The instrumentations that a running `serve` has seen since it started, for `tracline doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...schemas.event import Event
from ...schemas.instrumentations.lacks import Diagnosed, Instrumentations, as_json
from ...schemas.plain_traces.requests import PlainRequest
from ...schemas.sessions.span_reading import SpanReading
from ...schemas.span import Span
from ...schemas.span_content import SpanRole

PATH = "/doctor"
SENDERS_MAX = 200_000
"""The latest spans whose instrumentation is remembered; events of older spans are not counted."""

_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Doctor:
    """The instrumentations that one process has seen. The pipeline's thread adds; any thread may read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found = Instrumentations()
        self._senders: dict[int, int] = {}

    def add_spans(
        self, spans: Iterable[tuple[Span, SpanReading]], requests: Iterable[PlainRequest] = ()
    ) -> None:
        """Count spans with their readings, and those of plain requests."""
        with self._lock:
            for span, reading in spans:
                number = self._found.add(span, reading.content)
                if reading.content.role is not SpanRole.OTHER:
                    self._remember(hash((span.trace_id, span.span_id)), number)
            for request in requests:
                for run, read, others in request.by_role():
                    number = self._found.add_plain(run.scope, run.version, len(read), others)
                    for span_id in read:
                        self._remember(hash((run.trace_id, span_id)), number)

    def add_events(self, events: Iterable[Event], *, log_records: bool = False) -> None:
        """Count events of spans that were added, now or before.

        `log_records` states whether log records with content came with the spans.
        """
        with self._lock:
            self._found.log_records = self._found.log_records or log_records
            for event in events:
                self._add_event(event)

    def diagnosed(self) -> list[Diagnosed]:
        """Return every instrumentation and what it lacks, by scope and version."""
        with self._lock:
            return self._found.diagnosed()

    def _remember(self, key: int, number: int) -> None:
        self._senders.pop(key, None)
        self._senders[key] = number
        if len(self._senders) > SENDERS_MAX:
            del self._senders[next(iter(self._senders))]

    def _add_event(self, event: Event) -> None:
        number = self._senders.get(hash((event.trace_id, event.span_id)))
        if number is not None and event.trace_id is not None:
            self._found.add_event(
                number, event.kind, event.content, event.session_id, event.trace_id, event.call_id
            )


def doctor_route(doctor: Doctor) -> Route:
    """Return the route that answers with all instrumentations as a JSON array."""

    def answer(_request: Request) -> Response:
        body = orjson.dumps([as_json(diagnosed) for diagnosed in doctor.diagnosed()])
        return Response(body, media_type="application/json", headers=_HEADERS)

    return Route(PATH, answer)
