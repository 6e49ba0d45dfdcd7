"""`tracline stream alerts` on a real broker: however it is killed, the same alerts reach Alertmanager.

What must be alerted is known from how the messages were made: one agent goes wrong for a while.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tracline.examples.local_kafka import free_port
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.topics import Topic
from tracline.stream.process.faultpoints import AlertFault

from ..support.conversations.alert_messages import WRONG, check_one_alert, messages
from ..support.http.alertmanager import RunningAlertmanager, alertmanager
from ..support.http.hook import hook
from ..support.http.receiving import values
from ..support.processes.rekeying import until
from .alerting import (
    alerts,
    halves,
    notifications,
    process,
    send,
    until_delivered,
    with_topics,
    write_rates,
)

pytestmark = pytest.mark.slow
SIGKILLED = -signal.SIGKILL
KILLED_AT = tuple(AlertFault)


@pytest.fixture
def kafka(kafka: KafkaSettings) -> KafkaSettings:
    """The shared broker with the topics of this test."""
    return with_topics(kafka)


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    """The tolerated rates, as the command reads them."""
    return write_rates(tmp_path)


@pytest.fixture
def am(tmp_path: Path) -> Iterator[RunningAlertmanager]:
    """An Alertmanager."""
    with alertmanager(tmp_path / "alertmanager") as running:
        yield running


def test_a_spike_is_one_alert_at_alertmanager(
    kafka: KafkaSettings, rates: Path, am: RunningAlertmanager
) -> None:
    """While the spike lasts Alertmanager has one alert; when it is over it has none."""
    before, behind = halves()
    port = free_port()
    with process(kafka, rates, "--alertmanager", am.url, "--label", "team=desk", "--metrics-port", str(port)):
        send(kafka, before)
        (shown,) = until_shown(am)
        assert shown["labels"]["agent"] == WRONG
        assert shown["labels"]["team"] == "desk"
        send(kafka, behind)
        until("it is resolved", lambda: not am.alerts())
        until_delivered(kafka)
        assert httpx.get(f"http://127.0.0.1:{port}/readyz").is_success
        metrics = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        assert values(metrics, "tracline_alerts_raised_total") == {(): 1}
        assert values(metrics, "tracline_alerts_resolved_total") == {(): 1}
        assert values(metrics, "tracline_alerts_firing") == {}
        assert values(metrics, "tracline_kafka_messages_read_total") == {
            (kafka.topic(Topic.VERDICTS),): len(before) + len(behind)
        }
    check_one_alert(alerts(kafka))


def test_killed_at_every_gap_it_gives_the_same_alerts(
    kafka: KafkaSettings, rates: Path, am: RunningAlertmanager
) -> None:
    """Killed at each gap in turn, it has written each alert once, and every receiver has received it."""
    send(kafka, messages())
    with hook() as receiver:
        receivers = ("--instance", "one", "--alertmanager", am.url, "--webhook", receiver.url)
        for fault in KILLED_AT:
            with process(kafka, rates, *receivers, fault=f"{fault}:1") as killed:
                assert killed.wait(40) == SIGKILLED, fault
        with process(kafka, rates, *receivers):
            until_delivered(kafka)
        written = alerts(kafka)
        check_one_alert(written)
        assert notifications(receiver)[-1] == (written[0].id, "resolved")
        assert {name for name, _ in notifications(receiver)} == {written[0].id}
        assert am.alerts() == []


def test_a_second_process_waits_and_takes_over(kafka: KafkaSettings, rates: Path) -> None:
    """Of two processes one is at work; when it is killed the other goes on where it was."""
    before, behind = halves()
    with hook() as receiver:
        with process(kafka, rates, "--webhook", receiver.url) as first:
            send(kafka, before)
            until("the first has delivered", lambda: notifications(receiver))
            with process(kafka, rates, "--webhook", receiver.url):
                first.kill()
                send(kafka, behind)
                until(
                    "the second has delivered", lambda: "resolved" in dict(notifications(receiver)).values()
                )
                until_delivered(kafka)
        check_one_alert(alerts(kafka))


def until_shown(am: RunningAlertmanager) -> list[dict[str, dict[str, str]]]:
    """Wait for an alert at Alertmanager."""
    until("Alertmanager has an alert", am.alerts)
    return am.alerts()
