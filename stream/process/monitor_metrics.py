"""Metrics of `tracline stream monitor`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry

from ...schemas.records.risk_crossing import RiskCrossing, RiskLevel
from .kafka_metrics import KafkaMetrics
from .metrics import OTHER, counter, gauge
from .shared_metrics import JudgingMetrics, ProgressMetrics


class FollowedOutputs(Protocol):
    """The crossings of a batch, and the chain of each event where there is one."""

    @property
    def crossings(self) -> Sequence[RiskCrossing]: ...  # noqa: D102
    @property
    def chains(self) -> Sequence[str | None]: ...  # noqa: D102
    @property
    def unseen(self) -> int: ...  # noqa: D102


class MonitorMetrics:
    """The metrics of `tracline stream monitor`; `rules` are the packs and ids of the rules in force."""

    def __init__(
        self,
        reads: Iterable[str],
        sends: Iterable[str],
        rules: Iterable[tuple[str, str]] = (),
        dead_letter_codes: Iterable[str] = (),
    ) -> None:
        self.registry = registry = CollectorRegistry()
        self.kafka = KafkaMetrics(registry, reads, sends)
        named = list(rules)
        self.judging = JudgingMetrics(registry, named)
        self.progress = ProgressMetrics(registry, dead_letter_codes)
        self.state_bytes = gauge(registry, "state_bytes", "Size of the sessions' state in bytes (estimated).")
        text = "Redelivered messages that had changed their sessions before."
        text = "Learned chains that the process has."
        self.chains_loaded = gauge(registry, "chains_loaded", text)
        text = "Chains that rules in force name and the process lacks: it computes no risk by them."
        self.chains_lacking = gauge(registry, "chains_lacking", text)
        self.crossings = counter(
            registry, "risk_crossings", "Crossings of a risk's threshold.", "pack", "rule", "level"
        )
        self._add_crossings(named)
        text = "Events with a symbol that their chain lacks, of sessions that a chain follows."
        self.unseen = counter(registry, "risk_unseen_events", text)
        self.followed = counter(registry, "risk_followed_events", "Events of sessions that a chain follows.")
        text = "Redelivered messages that had changed their sessions before."
        self.skipped = counter(registry, "redelivered", text)

    def count_risks(self, outputs: FollowedOutputs) -> None:
        """Count crossings, and the events of followed sessions."""
        crossed = Counter((each.pack, each.rule, each.level) for each in outputs.crossings)
        for (pack, rule, level), count in crossed.items():
            self.crossings.labels(*self.judging.labels_of(pack, rule), level).inc(count)
        self.unseen.inc(outputs.unseen)
        self.followed.inc(sum(chain is not None for chain in outputs.chains))

    def add_rules(self, rules: Iterable[tuple[str, str]]) -> None:
        """Give rules counters at 0 before their first verdict and crossing."""
        named = list(rules)
        self.judging.add_rules(named)
        self._add_crossings(named)

    def _add_crossings(self, rules: Iterable[tuple[str, str]]) -> None:
        for rule in (*rules, (OTHER, OTHER)):
            for level in RiskLevel:
                self.crossings.labels(*self.judging.labels_of(*rule), level)
