"""Every metric of tracline's processes, in Prometheus' terms. Every counter is there from the start, at 0.

Labels hold names of ours and of rules, and a limited number of scopes' names; nothing else that came with a
request. What two processes count alike has one declaration and one name. `docs/operations.md` has the table;
a test holds it against this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...schemas.display import visible
from ...schemas.event import Kind
from ...schemas.instrumentations.census import SpanCensus
from ...schemas.otlp.decoded import CODES
from ...schemas.otlp.signal import Signal
from ...schemas.time import NS
from ...schemas.verdict import Verdict
from ..ingest.meter import OtlpTransport, RequestKind
from ..ingest.rejections import Reason
from ..ingest.request import Encoding
from ..ingest.server.connections import CloseReason, ConnectionMeter
from ..messages.unjoined import Unjoined

RULES_MAX = 1_000
"""Rules that have label values of their own; the verdicts of further ones are counted together."""

PARTITIONS_MAX = 1_000
"""Partitions of all topics that have label values of their own; further ones are not shown one by one."""

SCOPES_MAX = 100
"""Instrumentation scopes that have label values of their own; the spans of further ones count together."""

OTHER = "other"
"""The label value of what has none of its own."""

GIVEN = tuple(verdict for verdict in Verdict if verdict is not Verdict.PENDING)
"""The verdicts that are given: what is pending is not told."""

_WAYS = (
    (OtlpTransport.HTTP, Encoding.PROTOBUF),
    (OtlpTransport.HTTP, Encoding.JSON),
    (OtlpTransport.GRPC, Encoding.PROTOBUF),
)
"""The transports and encodings of requests."""

DELAYS_S = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class TransactionOutcome(StrEnum):
    """How a transaction ends."""

    COMMITTED = "committed"
    ABORTED = "aborted"


class DeliveryFailure(StrEnum):
    """Why an alert was not delivered at an attempt."""

    UNREACHABLE = "unreachable"
    """There was no connection, or no answer in time."""
    REFUSED = "refused"
    """The answer was that it will not be taken (4xx)."""
    FAILED = "failed"
    """The answer was that it cannot be taken now (429, 5xx), or none that is understood."""


def _counter(registry: CollectorRegistry, name: str, text: str, *labels: str) -> Counter:
    return Counter(f"tracline_{name}_total", text, labels, registry=registry)


def _gauge(registry: CollectorRegistry, name: str, text: str, *labels: str) -> Gauge:
    return Gauge(f"tracline_{name}", text, labels, registry=registry)


class ConnectionMetrics:
    """Of every server: its connections. A `ConnectionMeter` for each of its transports."""

    def __init__(self, registry: CollectorRegistry, transports: Iterable[OtlpTransport]) -> None:
        open_ = _gauge(registry, "connections", "Open connections.", "transport")
        closed = _counter(
            registry, "connections_closed", "Connections that the server closed.", "transport", "reason"
        )
        self._of = {transport: _TransportConnections(open_, closed, transport) for transport in transports}

    def of(self, transport: OtlpTransport) -> ConnectionMeter:
        """Return what counts the connections of one transport."""
        return self._of[transport]


class _TransportConnections:
    """Counts the connections of one transport."""

    def __init__(self, open_: Gauge, closed: Counter, transport: OtlpTransport) -> None:
        self._open = open_.labels(transport)
        self._closed = {reason: closed.labels(transport, reason) for reason in CloseReason}

    def opened(self) -> None:
        """A connection was accepted."""
        self._open.inc()

    def ended(self) -> None:
        """A connection has ended."""
        self._open.dec()

    def closed(self, reason: CloseReason) -> None:
        """The server closed a connection."""
        self._closed[reason].inc()


class SpanMetrics:
    """Of stage (a), in `serve` and in the rekeyer: what spans and log records held, and which wait."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.rejected = {
            Signal.SPANS: _counter(
                registry, "receiver_rejected_spans", "Spans that could not be read (at least)."
            ),
            Signal.LOGS: _counter(
                registry, "receiver_rejected_log_records", "Log records that could not be read (at least)."
            ),
        }
        text = "Log records with content that were not joined to a span."
        self._unjoined = _counter(registry, "log_records_unjoined", text, "reason")
        for reason in Unjoined:
            self._unjoined.labels(reason)
        self.log_records_waiting = _gauge(
            registry, "log_records_waiting", "Log records with content that wait for their span."
        )
        self._flaws = _counter(registry, "receiver_flaws", "What was wrong in requests.", "code")
        for code in (*CODES, OTHER):
            self._flaws.labels(code)
        self.waiting = _gauge(registry, "spans_waiting", "Spans whose session is not known yet.")
        self.early = _counter(registry, "spans_early", "Spans that went on before their root was known.")
        self._read = _counter(registry, "spans_read", "Spans that tell of a conversation.", "scope")
        self._unread = _counter(
            registry, "spans_unread", "Spans that tell of none, as HTTP spans do.", "scope"
        )
        self._scopes: set[str] = set()
        self._named(OTHER)

    def unjoined(self, reason: Unjoined, count: int) -> None:
        """Log records with content were not joined to a span."""
        self._unjoined.labels(reason).inc(count)

    def flawed(self, signal: Signal, rejected: int, codes: Mapping[str, int]) -> None:
        """A request had items that could not be read, and so many flaws of each code."""
        self.rejected[signal].inc(rejected)
        self.flaws(codes)

    def flaws(self, codes: Mapping[str, int]) -> None:
        """So many flaws of each code were in requests."""
        for code, count in codes.items():
            self._flaws.labels(code if code in CODES else OTHER).inc(count)

    def count_spans(self, spans: SpanCensus) -> None:
        """Spans came, by scope; those beyond the first `SCOPES_MAX` scopes are counted together."""
        for scope, count in spans.spans.items():
            name = self._named(visible(scope) or "(no name)")
            self._read.labels(name).inc(spans.read[scope])
            self._unread.labels(name).inc(count - spans.read[scope])

    def _named(self, scope: str) -> str:
        """Return the label value of a scope; both counters have it from now on."""
        name = scope if scope in self._scopes or len(self._scopes) <= SCOPES_MAX else OTHER
        if name not in self._scopes:
            self._scopes.add(name)
            for counter in (self._read, self._unread):
                counter.labels(name)
        return name


class JudgingMetrics:
    """Of judging, in `serve` and in the monitor: events, verdicts, sessions, how far time has come."""

    def __init__(self, registry: CollectorRegistry, rules: Iterable[tuple[str, str]]) -> None:
        self._events = _counter(registry, "events_judged", "Events that were judged.", "kind")
        for kind in Kind:
            self._events.labels(kind)
        self._verdicts = _counter(registry, "verdicts", "Verdicts given.", "pack", "rule", "verdict")
        self.late = _counter(registry, "late", "Events that came when their session had gone on.")
        self.repeats = _counter(registry, "repeats", "Tellings of what had been told before.")
        self.delay = Histogram(
            "tracline_verdict_delay_seconds",
            "From the arrival of the message that had events judged until their verdicts are written.",
            buckets=DELAYS_S,
            registry=registry,
        )
        self.sessions_open = _gauge(registry, "sessions_open", "Sessions that are not closed.")
        self._rules: set[tuple[str, str]] = set()
        self.add_rules(rules)

    def add_rules(self, rules: Iterable[tuple[str, str]]) -> None:
        """Give these rules label values of their own, as far as there are any left, and counters at 0."""
        for pack, rule in rules:
            if len(self._rules) < RULES_MAX:
                self._rules.add((pack, rule))
            for verdict in GIVEN:
                self._verdicts.labels(*self._named(pack, rule), verdict)

    def _named(self, pack: str, rule: str) -> tuple[str, str]:
        return (pack, rule) if (pack, rule) in self._rules else (OTHER, OTHER)

    def judged(self, kind: Kind, count: int = 1) -> None:
        """Events of a kind were judged."""
        self._events.labels(kind).inc(count)

    def verdict(self, pack: str, rule: str, verdict: Verdict, count: int = 1) -> None:
        """Verdicts were given by a rule."""
        self._verdicts.labels(*self._named(pack, rule), verdict).inc(count)


class ProgressMetrics:
    """Of every process that reads telemetry: how far event time has come, and what was set aside.

    `dead_letter_codes` are the codes of its dead letters, beside those of spans.
    """

    def __init__(self, registry: CollectorRegistry, dead_letter_codes: Iterable[str] = ()) -> None:
        self._codes = frozenset({*CODES, *dead_letter_codes})
        self._dead = _counter(registry, "dead_letters", "What could not be read and was set aside.", "code")
        for code in (*sorted(self._codes), OTHER):
            self._dead.labels(code)
        self._watermark = _gauge(
            registry, "watermark_timestamp_seconds", "Event time up to which is judged or carried on."
        )

    def dead_letter(self, code: str, count: int = 1) -> None:
        """Something could not be read and was set aside."""
        self._dead.labels(code if code in self._codes else OTHER).inc(count)

    def watermark(self, ns: int | None) -> None:
        """Event time has come to that many nanoseconds since the epoch, over all partitions read here.

        None where there is none: it is 0 then, for what others go on with is not behind here.
        """
        self._watermark.set(0 if ns is None else ns / NS)


class ServeMetrics:
    """The metrics of `tracline serve`, and its receivers' `ReceiverMeter`. Any thread may count."""

    def __init__(self, rules: Iterable[tuple[str, str]] = ()) -> None:
        """`rules` are the packs and ids of those that are in force."""
        self.registry = registry = CollectorRegistry()
        self._receiver()
        self.connections = ConnectionMetrics(registry, OtlpTransport)
        spans, progress = SpanMetrics(registry), ProgressMetrics(registry)
        judging = JudgingMetrics(registry, rules)
        self.flawed, self.spans_waiting, self.spans_early = spans.flawed, spans.waiting, spans.early
        self.unjoined, self.log_records_waiting = spans.unjoined, spans.log_records_waiting
        self.count_spans = spans.count_spans
        self.dead_letter, self.watermark = progress.dead_letter, progress.watermark
        self.judged, self.verdict = judging.judged, judging.verdict
        self.late, self.repeats, self.delay = judging.late, judging.repeats, judging.delay
        self.sessions_open = judging.sessions_open
        self.store_bytes = _gauge(registry, "store_bytes", "Size of the embedded store.")
        self.console_readers = _gauge(registry, "console_readers", "Pages that follow the console live.")

    def _receiver(self) -> None:
        way = ("transport", "encoding")
        registry = self.registry
        self._requests = _counter(
            registry, "receiver_requests", "Requests of spans or log records that were acknowledged.", *way
        )
        self._items = {
            Signal.SPANS: _counter(registry, "receiver_spans", "Spans read in acknowledged requests.", *way),
            Signal.LOGS: _counter(
                registry, "receiver_log_records", "Log records read in acknowledged requests.", *way
            ),
        }
        self._bytes = _counter(registry, "receiver_bytes", "Bytes of acknowledged requests, unpacked.", *way)
        text = "Requests of metrics, which are acknowledged and dropped."
        self._dropped = _counter(registry, "receiver_metrics_dropped", text, *way)
        for transport, encoding in _WAYS:
            for counter in (self._requests, *self._items.values(), self._bytes, self._dropped):
                counter.labels(transport, encoding)
        self._refused = _counter(registry, "receiver_refused", "Requests that were not taken.", "reason")
        for reason in Reason:
            self._refused.labels(reason)

    def received(self, way: RequestKind, items: int, size: int) -> None:
        """A request was acknowledged."""
        labels = (way.transport, way.encoding)
        self._requests.labels(*labels).inc()
        self._items[way.signal].labels(*labels).inc(items)
        self._bytes.labels(*labels).inc(size)

    def dropped(self, way: RequestKind) -> None:
        """A request was acknowledged and dropped."""
        self._dropped.labels(way.transport, way.encoding).inc()

    def unlinked(self, count: int) -> None:
        """Log records with content came that name no span."""
        self.unjoined(Unjoined.UNLINKED, count)

    def refused(self, reason: Reason) -> None:
        """A request was not taken."""
        self._refused.labels(reason).inc()

    def text(self) -> bytes:
        """All metrics as Prometheus reads them."""
        return generate_latest(self.registry)


class KafkaMetrics:
    """Of every process of the Kafka pipeline: what it reads, sends, commits, and how far it is behind.

    `reads` and `sends` are the topics that it does so with.
    """

    def __init__(self, registry: CollectorRegistry, reads: Iterable[str], sends: Iterable[str] = ()) -> None:
        self.registry = registry
        self._read = _counter(registry, "kafka_messages_read", "Messages read.", "topic")
        self._bytes = _counter(registry, "kafka_bytes_read", "Bytes of messages read.", "topic")
        self._sent = _counter(registry, "kafka_messages_sent", "Messages sent and acknowledged.", "topic")
        for topic in reads:
            self._read.labels(topic)
            self._bytes.labels(topic)
        for topic in sends:
            self._sent.labels(topic)
        text = "Messages that Kafka deleted before they were read (or about)."
        self._deleted = _counter(registry, "kafka_deleted", text, "topic")
        for topic in reads:
            self._deleted.labels(topic)
        self._transactions = _counter(registry, "kafka_transactions", "Transactions that ended.", "outcome")
        for outcome in TransactionOutcome:
            self._transactions.labels(outcome)
        self._lag = _gauge(registry, "kafka_lag", "Messages that wait to be read.", "topic", "partition")
        self._shown: set[tuple[str, int]] = set()
        self.connections = ConnectionMetrics(registry, [OtlpTransport.HTTP])
        self._refused = _counter(registry, "health_refused", "Requests to this port refused.", "reason")
        for reason in (Reason.HOST, Reason.TOKEN):
            self._refused.labels(reason)

    def read(self, topic: str, count: int = 1, size: int = 0) -> None:
        """Messages were read, of so many bytes together."""
        self._read.labels(topic).inc(count)
        self._bytes.labels(topic).inc(size)

    def deleted(self, topic: str, count: int) -> None:
        """Messages were deleted before they were read."""
        self._deleted.labels(topic).inc(count)

    def sent(self, topic: str, count: int = 1) -> None:
        """Messages were sent and acknowledged by the broker."""
        self._sent.labels(topic).inc(count)

    def transaction(self, outcome: TransactionOutcome) -> None:
        """A transaction ended."""
        self._transactions.labels(outcome).inc()

    def lag(self, behind: Mapping[tuple[str, int], int]) -> None:
        """How many messages are not read, of each topic and partition that this process has now."""
        shown = set(sorted(behind)[:PARTITIONS_MAX])
        for topic, partition in self._shown - shown:
            self._lag.remove(topic, str(partition))
        for topic, partition in shown:
            self._lag.labels(topic, str(partition)).set(behind[topic, partition])
        self._shown = shown

    def refused(self, reason: Reason) -> None:
        """A request to the port of metrics and health was refused."""
        self._refused.labels(reason).inc()


class RekeyMetrics:
    """The metrics of `tracline stream rekey`."""

    def __init__(
        self, reads: Iterable[str], sends: Iterable[str], dead_letter_codes: Iterable[str] = ()
    ) -> None:
        self.registry = CollectorRegistry()
        self.kafka = KafkaMetrics(self.registry, reads, sends)
        self.spans = SpanMetrics(self.registry)
        self.progress = ProgressMetrics(self.registry, dead_letter_codes)
        self.spans_in = _counter(self.registry, "rekey_spans", "Spans read.")
        self.log_records_in = _counter(self.registry, "rekey_log_records", "Log records read.")
        self.candidates = _counter(self.registry, "rekey_candidates", "Candidates sent to their sessions.")
        self.traces_held = _gauge(self.registry, "rekey_traces", "Traces that are remembered.")

    def clear(self) -> None:
        """The process has no partition: what others go on with now is not shown here, too."""
        self.kafka.lag({})
        self.progress.watermark(None)
        for gauge in (self.spans.waiting, self.spans.log_records_waiting, self.traces_held):
            gauge.set(0)


class MonitorMetrics:
    """The metrics of `tracline stream monitor`; `rules` are the packs and ids of those in force."""

    def __init__(
        self,
        reads: Iterable[str],
        sends: Iterable[str],
        rules: Iterable[tuple[str, str]] = (),
        dead_letter_codes: Iterable[str] = (),
    ) -> None:
        self.registry = CollectorRegistry()
        self.kafka = KafkaMetrics(self.registry, reads, sends)
        self.judging = JudgingMetrics(self.registry, rules)
        self.progress = ProgressMetrics(self.registry, dead_letter_codes)
        self.state_bytes = _gauge(
            self.registry, "state_bytes", "Size of what is remembered of sessions, or about."
        )
        self.skipped = _counter(
            self.registry, "redelivered", "Messages that came again and had changed their sessions already."
        )


class ArchiveMetrics:
    """The metrics of `tracline stream archive`."""

    def __init__(self, reads: Iterable[str], dead_letter_codes: Iterable[str] = ()) -> None:
        self.registry = CollectorRegistry()
        self.kafka = KafkaMetrics(self.registry, reads)
        self.progress = ProgressMetrics(self.registry, dead_letter_codes)
        self.rows = _counter(self.registry, "archive_rows", "Rows written to the archive.")
        self.files = _counter(self.registry, "archive_files", "Files finished and entered in the manifest.")
        self.bytes = _counter(self.registry, "archive_bytes", "Bytes of files finished.")
        self.rows_waiting = _gauge(self.registry, "archive_rows_waiting", "Rows that are in no file yet.")
        self.repeats = _counter(
            self.registry, "archive_repeats", "Messages of judged events that had been read before."
        )


class AlertMetrics:
    """The metrics of `tracline stream alerts`; `receivers` are those that alerts are delivered to."""

    def __init__(
        self,
        reads: Iterable[str],
        sends: Iterable[str],
        receivers: Iterable[str] = (),
        dead_letter_codes: Iterable[str] = (),
    ) -> None:
        self.registry = registry = CollectorRegistry()
        self.kafka = KafkaMetrics(registry, reads, sends)
        self.progress = ProgressMetrics(registry, dead_letter_codes)
        self.repeats = _counter(registry, "alert_repeats", "Messages of verdicts that had been heard before.")
        self.statuses = _counter(registry, "alert_statuses", "Changes of sessions' status that were counted.")
        self.raised = _counter(registry, "alerts_raised", "Alerts that began.")
        self.resolved = _counter(registry, "alerts_resolved", "Alerts that ended.")
        self.firing = _gauge(registry, "alerts_firing", "Alerts that have begun and not ended.")
        self.series = _gauge(registry, "alert_series", "Pairs of rule and agent that are watched.")
        self._attempts = _counter(registry, "alert_attempts", "Attempts to deliver alerts.", "receiver")
        self._delivered = _counter(registry, "alert_deliveries", "Alerts delivered.", "receiver")
        self._missed = _counter(
            registry, "alert_failures", "Attempts that failed; they are made again.", "receiver", "reason"
        )
        self._pending = _gauge(registry, "alerts_pending", "Alerts that are not delivered yet.", "receiver")
        self._receivers = tuple(receivers)
        for receiver in self._receivers:
            self._attempts.labels(receiver)
            self._delivered.labels(receiver)
            self._pending.labels(receiver)
            for missed in DeliveryFailure:
                self._missed.labels(receiver, missed)

    def attempt(self, receiver: str, delivered: int, missed: DeliveryFailure | None = None) -> None:
        """Alerts were sent in one request: so many were delivered, or why none was."""
        self._attempts.labels(receiver).inc()
        self._delivered.labels(receiver).inc(delivered)
        if missed is not None:
            self._missed.labels(receiver, missed).inc()

    def pending(self, receiver: str, count: int) -> None:
        """So many alerts wait to be delivered."""
        self._pending.labels(receiver).set(count)

    def clear(self) -> None:
        """Another process is at work: what it goes on with is not shown here, too."""
        self.kafka.lag({})
        self.progress.watermark(None)
        for gauge in (self.firing, self.series):
            gauge.set(0)
        for receiver in self._receivers:
            self.pending(receiver, 0)


@dataclass(frozen=True, slots=True)
class MetricDescription:
    """A metric as documentation has it: its name as in queries, its type, and what it says."""

    name: str
    type: str
    text: str


def describe_metrics(registry: CollectorRegistry) -> Iterator[MetricDescription]:
    """All metrics of a registry, by name."""
    for family in sorted(registry.collect(), key=lambda family: family.name):
        suffix = "_total" if family.type == "counter" else ""
        yield MetricDescription(family.name + suffix, family.type, family.documentation)


class HasRegistry(Protocol):
    """Metrics that a route can show."""

    @property
    def registry(self) -> CollectorRegistry:
        """Return where they are."""
        ...


def metrics_route(metrics: HasRegistry) -> Route:
    """The route `/metrics`."""

    async def show(_request: Request) -> Response:
        return Response(generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return Route("/metrics", show)
