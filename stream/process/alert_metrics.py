"""Metrics of `tracline stream alerts`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from prometheus_client import CollectorRegistry

from .kafka_metrics import KafkaMetrics
from .metrics import counter, gauge
from .shared_metrics import ProgressMetrics


class DeliveryFailure(StrEnum):
    """The reason why an attempt to deliver alerts failed."""

    UNREACHABLE = "unreachable"
    """There was no connection, or no answer in time."""
    REFUSED = "refused"
    """The receiver rejects the alert (4xx)."""
    FAILED = "failed"
    """The receiver cannot take alerts now (429, 5xx), or its answer is not understood."""


class AlertMetrics:
    """The metrics of `tracline stream alerts`; `receivers` are the names of those that get alerts."""

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
        self.repeats = counter(registry, "alert_repeats", "Repeated messages of verdicts, dropped.")
        self.statuses = counter(registry, "alert_statuses", "Changes of sessions' status that were counted.")
        self.raised = counter(registry, "alerts_raised", "Alerts that began to fire.")
        self.resolved = counter(registry, "alerts_resolved", "Alerts that were resolved.")
        self.firing = gauge(registry, "alerts_firing", "Alerts that fire now.")
        self.series = gauge(registry, "alert_series", "Pairs of rule and agent with a detector.")
        self._attempts = counter(registry, "alert_attempts", "Attempts to deliver alerts.", "receiver")
        self._delivered = counter(registry, "alert_deliveries", "Alerts delivered.", "receiver")
        text = "Failed attempts to deliver alerts; each is retried."
        self._failures = counter(registry, "alert_failures", text, "receiver", "reason")
        self._pending = gauge(registry, "alerts_pending", "Alerts not delivered yet.", "receiver")
        self._receivers = tuple(receivers)
        for receiver in self._receivers:
            for metric in (self._attempts, self._delivered, self._pending):
                metric.labels(receiver)
            for failure in DeliveryFailure:
                self._failures.labels(receiver, failure)

    def attempt(self, receiver: str, delivered: int, failure: DeliveryFailure | None = None) -> None:
        """Count one request to a receiver: the alerts that it delivered, or why it failed."""
        self._attempts.labels(receiver).inc()
        self._delivered.labels(receiver).inc(delivered)
        if failure is not None:
            self._failures.labels(receiver, failure).inc()

    def pending(self, receiver: str, count: int) -> None:
        """Show how many alerts wait for a receiver."""
        self._pending.labels(receiver).set(count)

    def clear(self) -> None:
        """Reset the gauges of a process that waits: another process shows them now."""
        self.kafka.lag({})
        self.progress.watermark(None)
        for metric in (self.firing, self.series):
            metric.set(0)
        for receiver in self._receivers:
            self.pending(receiver, 0)
