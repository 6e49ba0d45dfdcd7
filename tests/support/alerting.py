"""The alerts stage with its state, and every step taken at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tracline.predict.detector import DetectorSettings
from tracline.stream.alerts.alert import Alert
from tracline.stream.alerts.rates import Tolerance
from tracline.stream.group.alerts_state import encoded, new_state, read_state, read_verdicts
from tracline.stream.messages.record import Output, Record
from tracline.stream.stages.alert import AlertsCounts, AlertStage


@dataclass(frozen=True)
class Stepped:
    """What a step gave: its alerts, the records to write, and its counts."""

    alerts: list[Alert]
    outputs: tuple[Output, ...]
    counts: AlertsCounts


class Alerting:
    """The stage over a topic of so many partitions."""

    def __init__(self, tolerance: Tolerance, settings: DetectorSettings, partitions: int, topic: str) -> None:
        self._stage, self._partitions = AlertStage(tolerance, settings, topic), partitions
        self.state = new_state(partitions)

    def restore(self, records: Mapping[str, bytes]) -> None:
        """Go on from the records of a state."""
        self.state = read_state(records, self._partitions, self._stage)

    def step(self, records: Iterable[Record]) -> Stepped:
        """Take records in."""
        result = self._stage.step(self.state, [read_verdicts(record) for record in records])
        outputs = encoded(self.state, result).outputs
        self.state.apply(result.writes)
        alerts = [output for output in result.outputs if isinstance(output, Alert)]
        return Stepped(alerts, outputs, result.metrics)
