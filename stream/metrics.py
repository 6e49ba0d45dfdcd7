"""Every metric of `tracline serve`, in Prometheus' terms. Every counter is there from the start, at 0.

Labels hold names of ours and of rules, never anything that came with a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..schemas.decoded import CODES
from ..schemas.event import Kind
from ..schemas.time import NS
from ..schemas.verdict import Verdict
from .intake import Encoding
from .meter import Transport
from .refusal import Reason

RULES_MAX = 1_000
"""Rules that have label values of their own; the verdicts of further ones are counted together."""

OTHER = "other"
"""The label value of what has none of its own."""

GIVEN = tuple(verdict for verdict in Verdict if verdict is not Verdict.PENDING)
"""The verdicts that are given: what is pending is not told."""

WAYS = (
    (Transport.HTTP, Encoding.PROTOBUF),
    (Transport.HTTP, Encoding.JSON),
    (Transport.GRPC, Encoding.PROTOBUF),
)
"""The ways by which requests come."""

DELAYS_S = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """The metrics of one process; a `Meter` for its receivers. Counting is safe from any thread."""

    def __init__(self, rules: Iterable[tuple[str, str]] = ()) -> None:
        """`rules` are the packs and ids of those that are in force."""
        self.registry = CollectorRegistry()
        self._receiver()
        self._judging()
        self._state()
        self._rules: set[tuple[str, str]] = set()
        self.know(rules)

    def _receiver(self) -> None:
        way = ("transport", "encoding")
        self._requests = self._counter("receiver_requests", "Requests that were acknowledged.", *way)
        self._spans = self._counter("receiver_spans", "Spans read in acknowledged requests.", *way)
        self._bytes = self._counter("receiver_bytes", "Bytes of acknowledged requests, unpacked.", *way)
        for transport, encoding in WAYS:
            for counter in (self._requests, self._spans, self._bytes):
                counter.labels(transport, encoding)
        self._refused = self._counter("receiver_refused", "Requests that were not taken.", "reason")
        for reason in Reason:
            self._refused.labels(reason)
        self._rejected = self._counter("receiver_rejected_spans", "Spans that could not be read (at least).")
        self._flaws = self._counter("receiver_flaws", "What was wrong in requests.", "code")
        self._dead = self._counter("dead_letters", "What could not be read and was set aside.", "code")
        for code in (*CODES, OTHER):
            self._flaws.labels(code)
            self._dead.labels(code)

    def _judging(self) -> None:
        self._events = self._counter("events_judged", "Events that were judged.", "kind")
        for kind in Kind:
            self._events.labels(kind)
        self._verdicts = self._counter("verdicts", "Verdicts given.", "pack", "rule", "verdict")
        self.late = self._counter("late", "Events that came when their session had gone on.")
        self.repeats = self._counter("repeats", "Tellings of what had been told before.")
        self.delay = Histogram(
            "tracline_verdict_delay_seconds",
            "From the arrival of the latest span in a batch until its verdicts are written.",
            buckets=DELAYS_S,
            registry=self.registry,
        )

    def _state(self) -> None:
        self.sessions_open = self._gauge("sessions_open", "Sessions that are not closed.")
        self.spans_waiting = self._gauge("spans_waiting", "Spans whose session is not known yet.")
        self.store_bytes = self._gauge("store_bytes", "Size of the embedded store.")
        self.console_readers = self._gauge("console_readers", "Pages that follow the console live.")
        self._watermark = self._gauge("watermark_timestamp_seconds", "Event time up to which is judged.")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"tracline_{name}_total", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"tracline_{name}", text, registry=self.registry)

    def know(self, rules: Iterable[tuple[str, str]]) -> None:
        """Give these rules label values of their own, as far as there are any left, and counters at 0."""
        for pack, rule in rules:
            if len(self._rules) < RULES_MAX:
                self._rules.add((pack, rule))
            for verdict in GIVEN:
                self._verdicts.labels(*self._named(pack, rule), verdict)

    def _named(self, pack: str, rule: str) -> tuple[str, str]:
        return (pack, rule) if (pack, rule) in self._rules else (OTHER, OTHER)

    def received(self, transport: Transport, encoding: Encoding, spans: int, size: int) -> None:
        """A request was acknowledged."""
        self._requests.labels(transport, encoding).inc()
        self._spans.labels(transport, encoding).inc(spans)
        self._bytes.labels(transport, encoding).inc(size)

    def flawed(self, rejected: int, codes: Mapping[str, int]) -> None:
        """A request had spans that could not be read, and so many flaws of each code."""
        self._rejected.inc(rejected)
        for code, count in codes.items():
            self._flaws.labels(code if code in CODES else OTHER).inc(count)

    def refused(self, reason: Reason) -> None:
        """A request was not taken."""
        self._refused.labels(reason).inc()

    def judged(self, kind: Kind, count: int = 1) -> None:
        """Events of a kind were judged."""
        self._events.labels(kind).inc(count)

    def verdict(self, pack: str, rule: str, verdict: Verdict, count: int = 1) -> None:
        """Verdicts were given by a rule."""
        self._verdicts.labels(*self._named(pack, rule), verdict).inc(count)

    def dead_letter(self, code: str, count: int = 1) -> None:
        """Something could not be read and was set aside."""
        self._dead.labels(code if code in CODES else OTHER).inc(count)

    def watermark(self, ns: int) -> None:
        """Event time has come to that many nanoseconds since the epoch."""
        self._watermark.set(ns / NS)

    def text(self) -> bytes:
        """All metrics as Prometheus reads them."""
        return generate_latest(self.registry)


def metrics_route(metrics: Metrics) -> Route:
    """The route `/metrics`."""

    async def show(_request: Request) -> Response:
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return Route("/metrics", show)
