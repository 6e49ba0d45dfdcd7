"""Metrics of the risks that a learned chain gives: crossings, unseen symbols, and the chain itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry

from ...predict.drift.detectors import RuleDrift
from ...schemas.records.risk_crossing import RiskCrossing, RiskLevel
from .metrics import OTHER, counter, gauge


class FollowedOutputs(Protocol):
    """The crossings of a batch, the chain of each event where there is one, and its unseen events."""

    @property
    def crossings(self) -> Sequence[RiskCrossing]: ...  # noqa: D102
    @property
    def chains(self) -> Sequence[str | None]: ...  # noqa: D102
    @property
    def unseen(self) -> int: ...  # noqa: D102


class RiskMetrics:
    """The metrics of a process that follows chains; `labels_of` returns the label values of a rule.

    `chain` is the digest of the only chain, None where a process may follow several.
    """

    def __init__(self, registry: CollectorRegistry, labels_of: Callable[[str, str], tuple[str, str]]) -> None:
        self._labels_of = labels_of
        self.chain: str | None = None
        text = "Learned chains that the process has."
        self.chains_loaded = gauge(registry, "chains_loaded", text)
        self._crossings = counter(
            registry, "risk_crossings", "Crossings of a risk's threshold.", "pack", "rule", "level"
        )
        text = "Events with a symbol that their chain lacks, of sessions that a chain follows."
        self._unseen = counter(registry, "risk_unseen_events", text)
        self._followed = counter(registry, "risk_followed_events", "Events of sessions that a chain follows.")
        text = "Logarithm of the evidence that verdicts come more often than the chain allows."
        self._evidence = gauge(registry, "risk_drift_evidence", text, "pack", "rule")
        text = "1 where verdicts of the rule come more often than the chain allows."
        self._drift = gauge(registry, "risk_drift", text, "pack", "rule")
        self._drifting: Mapping[tuple[str, str], RuleDrift] = {}
        self.add_rules([(OTHER, OTHER)])

    def add_rules(self, rules: Iterable[tuple[str, str]]) -> None:
        """Give rules counters at 0 before their first crossing."""
        for rule in rules:
            for level in RiskLevel:
                self._crossings.labels(*self._labels_of(*rule), level)

    def count(self, outputs: FollowedOutputs) -> None:
        """Count crossings, and the events of followed sessions."""
        crossed = Counter((each.pack, each.rule, each.level) for each in outputs.crossings)
        for (pack, rule, level), count in crossed.items():
            self._crossings.labels(*self._labels_of(pack, rule), level).inc(count)
        self._unseen.inc(outputs.unseen)
        self._followed.inc(sum(chain is not None for chain in outputs.chains))

    def set_drift(self, drift: Mapping[tuple[str, str], RuleDrift]) -> None:
        """Set the drift of rules; one that is missing has none any more."""
        if drift == self._drifting:
            return
        of_labels: dict[tuple[str, str], RuleDrift] = {}
        for rule in {*self._drifting, *drift}:
            labels, each = self._labels_of(*rule), drift.get(rule, RuleDrift(0.0, False))
            of_labels[labels] = max(of_labels.get(labels, each), each)
        for labels, each in of_labels.items():
            self._evidence.labels(*labels).set(each.evidence)
            self._drift.labels(*labels).set(each.is_firing)
        self._drifting = drift
