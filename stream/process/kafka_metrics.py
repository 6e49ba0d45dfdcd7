"""Metrics of every process of the Kafka pipeline: messages read and sent, transactions, lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from prometheus_client import CollectorRegistry

from ..ingest.meter import OtlpTransport
from ..ingest.rejections import Reason
from .metrics import PARTITIONS_MAX, counter, gauge
from .shared_metrics import ConnectionMetrics


class TransactionOutcome(StrEnum):
    """The end of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"


class KafkaMetrics:
    """Metrics of a process that reads the topics `reads` and writes the topics `sends`."""

    def __init__(self, registry: CollectorRegistry, reads: Iterable[str], sends: Iterable[str] = ()) -> None:
        self.registry = registry
        self._read = counter(registry, "kafka_messages_read", "Messages read.", "topic")
        self._bytes = counter(registry, "kafka_bytes_read", "Bytes of messages read.", "topic")
        self._sent = counter(
            registry, "kafka_messages_sent", "Messages sent and acknowledged by the broker.", "topic"
        )
        text = "Messages that the broker deleted before they were read (estimated)."
        self._deleted = counter(registry, "kafka_deleted", text, "topic")
        self._transactions = counter(registry, "kafka_transactions", "Transactions by outcome.", "outcome")
        self._lag = gauge(registry, "kafka_lag", "Messages not read yet.", "topic", "partition")
        self._shown: set[tuple[str, int]] = set()
        self.connections = ConnectionMetrics(registry, [OtlpTransport.HTTP])
        self._refused = counter(
            registry, "health_refused", "Requests to this port that were refused.", "reason"
        )
        for topic in reads:
            for metric in (self._read, self._bytes, self._deleted):
                metric.labels(topic)
        for topic in sends:
            self._sent.labels(topic)
        for outcome in TransactionOutcome:
            self._transactions.labels(outcome)
        for reason in (Reason.HOST, Reason.TOKEN):
            self._refused.labels(reason)

    def read(self, topic: str, count: int = 1, size: int = 0) -> None:
        """Count messages that were read, and their bytes."""
        self._read.labels(topic).inc(count)
        self._bytes.labels(topic).inc(size)

    def deleted(self, topic: str, count: int) -> None:
        """Count messages that the broker deleted before they were read."""
        self._deleted.labels(topic).inc(count)

    def sent(self, topic: str, count: int = 1) -> None:
        """Count messages that the broker acknowledged."""
        self._sent.labels(topic).inc(count)

    def transaction(self, outcome: TransactionOutcome) -> None:
        """Count a transaction."""
        self._transactions.labels(outcome).inc()

    def lag(self, behind: Mapping[tuple[str, int], int]) -> None:
        """Show the lag of each topic and partition that this process has now; drop all others."""
        shown = set(sorted(behind)[:PARTITIONS_MAX])
        for topic, partition in self._shown - shown:
            self._lag.remove(topic, str(partition))
        for topic, partition in shown:
            self._lag.labels(topic, str(partition)).set(behind[topic, partition])
        self._shown = shown

    def refused(self, reason: Reason) -> None:
        """Count a request to the port of metrics and health that was refused."""
        self._refused.labels(reason).inc()
