"""The metrics of a step of the monitor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ....schemas.time import NS
from ...messages.topics import Topic
from ...process.monitor_metrics import MonitorMetrics
from ...stages.monitor import JudgedMessage, MonitorResult


def count_step(metrics: MonitorMetrics, result: MonitorResult, names: Mapping[Topic, str], now: int) -> None:
    """Count the messages and outputs of a step, which is durable now."""
    for topic, count in Counter(output.topic for output in result.outputs).items():
        metrics.kafka.sent(names[topic], count)
    for message in result.metrics.messages:
        metrics.kafka.read(names[Topic.EVENTS], 1, len(message.record.value))
        _count_message(metrics, message, now)


def _count_message(metrics: MonitorMetrics, message: JudgedMessage, now: int) -> None:
    judged = message.judged
    if message.is_repeat:
        metrics.skipped.inc()
    metrics.judging.count(judged)
    metrics.risk.count(judged)
    if judged.events:
        metrics.judging.delay.observe((now - message.record.time) / NS)
    for code in message.dead_letters:
        metrics.progress.dead_letter(code)
