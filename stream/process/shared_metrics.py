"""Metrics that several processes have: connections, spans, judging, progress."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ...schemas.display import visible
from ...schemas.event import Event, Kind
from ...schemas.instrumentations.census import SpanCensus
from ...schemas.otlp.decoded import CODES
from ...schemas.otlp.signal import Signal
from ...schemas.records.session_status import SessionCount, StatusChange
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.time import NS
from ...schemas.verdict import Verdict
from ..ingest.meter import OtlpTransport
from ..ingest.server.connections import CloseReason, ConnectionMeter
from ..messages.unjoined import Unjoined
from .metrics import OTHER, RULES_MAX, SCOPES_MAX, counter, gauge

GIVEN = tuple(verdict for verdict in Verdict if verdict is not Verdict.PENDING)
"""The verdicts that are given: all but `pending`."""

DELAYS_S = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class ConnectionMetrics:
    """The connections of every server of a process, with a `ConnectionMeter` for each transport."""

    def __init__(self, registry: CollectorRegistry, transports: Iterable[OtlpTransport]) -> None:
        open_ = gauge(registry, "connections", "Open connections.", "transport")
        closed = counter(
            registry, "connections_closed", "Connections that the server closed.", "transport", "reason"
        )
        self._of = {transport: _TransportConnections(open_, closed, transport) for transport in transports}

    def of(self, transport: OtlpTransport) -> ConnectionMeter:
        """Return the meter of one transport."""
        return self._of[transport]


class _TransportConnections:
    """The `ConnectionMeter` of one transport."""

    def __init__(self, open_: Gauge, closed: Counter, transport: OtlpTransport) -> None:
        self._open = open_.labels(transport)
        self._closed = {reason: closed.labels(transport, reason) for reason in CloseReason}

    def opened(self) -> None:
        """Count an accepted connection."""
        self._open.inc()

    def ended(self) -> None:
        """Count a connection that has ended."""
        self._open.dec()

    def closed(self, reason: CloseReason) -> None:
        """Count a connection that the server closed."""
        self._closed[reason].inc()


class SpanMetrics:
    """Metrics of stage (a), in `serve` and in the rekeyer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.rejected = {
            Signal.SPANS: counter(registry, "receiver_rejected_spans", "Unreadable spans (at least)."),
            Signal.LOGS: counter(
                registry, "receiver_rejected_log_records", "Unreadable log records (at least)."
            ),
        }
        text = "Log records with content that were not joined to a span."
        self._unjoined = counter(registry, "log_records_unjoined", text, "reason")
        for reason in Unjoined:
            self._unjoined.labels(reason)
        text = "Log records with content that wait for their span."
        self.log_records_waiting = gauge(registry, "log_records_waiting", text)
        self._flaws = counter(registry, "receiver_flaws", "Flaws found in requests.", "code")
        for code in (*CODES, OTHER):
            self._flaws.labels(code)
        self.waiting = gauge(registry, "spans_waiting", "Spans whose session is not known yet.")
        self.early = counter(registry, "spans_early", "Spans released before their root span was known.")
        self._read = counter(registry, "spans_read", "Spans of a conversation.", "scope")
        self._unread = counter(
            registry, "spans_unread", "Spans of no conversation, such as HTTP spans.", "scope"
        )
        self._scopes: set[str] = set()
        self._label_of(OTHER)

    def unjoined(self, reason: Unjoined, count: int) -> None:
        """Count log records with content that were not joined to a span."""
        self._unjoined.labels(reason).inc(count)

    def flawed(self, signal: Signal, rejected: int, codes: Mapping[str, int]) -> None:
        """Count the unreadable items of a request, and its flaws by code."""
        self.rejected[signal].inc(rejected)
        self.flaws(codes)

    def flaws(self, codes: Mapping[str, int]) -> None:
        """Count flaws by code."""
        for code, count in codes.items():
            self._flaws.labels(code if code in CODES else OTHER).inc(count)

    def count_spans(self, spans: SpanCensus) -> None:
        """Count spans by scope; those beyond the first `SCOPES_MAX` scopes count together."""
        for scope, count in spans.spans.items():
            label = self._label_of(visible(scope) or "(no name)")
            self._read.labels(label).inc(spans.read[scope])
            self._unread.labels(label).inc(count - spans.read[scope])

    def _label_of(self, scope: str) -> str:
        """Return the label value of a scope, and make sure that both counters have it."""
        label = scope if scope in self._scopes or len(self._scopes) <= SCOPES_MAX else OTHER
        if label not in self._scopes:
            self._scopes.add(label)
            for metric in (self._read, self._unread):
                metric.labels(label)
        return label


class JudgedOutputs(Protocol):
    """The outputs of judging a batch, as `stages.judge.Outputs` has them."""

    @property
    def events(self) -> Sequence[Event]:
        """Return the events and `end` rows."""
        ...

    @property
    def records(self) -> Sequence[VerdictRecord]:
        """Return the verdict records."""
        ...

    @property
    def statuses(self) -> Sequence[StatusChange]:
        """Return the changes of sessions' status."""
        ...

    @property
    def late(self) -> int:
        """Return the number of claims that came after a later event was judged."""
        ...

    @property
    def repeats(self) -> int:
        """Return the number of repeated claims."""
        ...


class JudgingMetrics:
    """Metrics of judging, in `serve` and in the monitor; `rules` are the packs and ids of rules in force."""

    def __init__(self, registry: CollectorRegistry, rules: Iterable[tuple[str, str]]) -> None:
        self._events = counter(registry, "events_judged", "Judged events.", "kind")
        for kind in Kind:
            self._events.labels(kind)
        self._verdicts = counter(registry, "verdicts", "Verdicts given.", "pack", "rule", "verdict")
        text = "Sessions of a rule: all that it may apply to, violating ones, and ones not judged to the end."
        self._sessions = counter(registry, "rule_sessions", text, "pack", "rule", "counted")
        self.late = counter(registry, "late", "Events that came after a later event was judged.")
        self.repeats = counter(registry, "repeats", "Claims that repeat an earlier span's.")
        self.delay = Histogram(
            "tracline_verdict_delay_seconds",
            "Time from the arrival of a message until the verdicts that it led to are written.",
            buckets=DELAYS_S,
            registry=registry,
        )
        self.sessions_open = gauge(registry, "sessions_open", "Open sessions.")
        self._rules: set[tuple[str, str]] = set()
        self.add_rules(rules)

    def add_rules(self, rules: Iterable[tuple[str, str]]) -> None:
        """Give rules label values of their own, up to the limit, and counters at 0."""
        for pack, rule in rules:
            if len(self._rules) < RULES_MAX:
                self._rules.add((pack, rule))
            for verdict in GIVEN:
                self._verdicts.labels(*self.labels_of(pack, rule), verdict)
            for counted in SessionCount:
                self._sessions.labels(*self.labels_of(pack, rule), counted)

    def labels_of(self, pack: str, rule: str) -> tuple[str, str]:
        """Return the label values of a rule: `OTHER` beyond the limit."""
        return (pack, rule) if (pack, rule) in self._rules else (OTHER, OTHER)

    def _count_sessions(self, changes: Iterable[StatusChange]) -> None:
        """Count sessions by rule; a change of a rule has one to three counts, and a label is dear to find."""
        of_rules = [change for change in changes if change.rule is not None]
        grown = Tally((change.pack, change.rule, count) for change in of_rules for count in change.counts)
        for (pack, rule, count), sessions in grown.items():
            self._sessions.labels(*self.labels_of(pack or "", rule or ""), count).inc(sessions)

    def count(self, outputs: JudgedOutputs) -> None:
        """Count judged events by kind, verdicts and sessions by rule, and late and repeated claims."""
        for kind, count in Tally(event.kind for event in outputs.events).items():
            self._events.labels(kind).inc(count)
        given = Tally((record.pack, record.rule, record.verdict) for record in outputs.records)
        for (pack, rule, verdict), count in given.items():
            self._verdicts.labels(*self.labels_of(pack, rule), verdict).inc(count)
        self._count_sessions(outputs.statuses)
        self.late.inc(outputs.late)
        self.repeats.inc(outputs.repeats)


class ProgressMetrics:
    """The watermark and the dead letters of a process that reads telemetry.

    `dead_letter_codes` are the codes of its dead letters, beside those of spans.
    """

    def __init__(self, registry: CollectorRegistry, dead_letter_codes: Iterable[str] = ()) -> None:
        self._codes = frozenset({*CODES, *dead_letter_codes})
        self._dead = counter(
            registry, "dead_letters", "Records or spans that could not be read or judged.", "code"
        )
        for code in (*sorted(self._codes), OTHER):
            self._dead.labels(code)
        text = "Event time up to which this process has judged or forwarded."
        self._watermark = gauge(registry, "watermark_timestamp_seconds", text)

    def dead_letter(self, code: str, count: int = 1) -> None:
        """Count dead letters of a code."""
        self._dead.labels(code if code in self._codes else OTHER).inc(count)

    def watermark(self, ns: int | None) -> None:
        """Show the watermark over all partitions of this process, in nanoseconds since the epoch.

        None is shown as 0: a process without partitions is not behind.
        """
        self._watermark.set(0 if ns is None else ns / NS)
