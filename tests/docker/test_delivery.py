"""Alerts at a real Alertmanager: what it shows, and what it sends to its receiver."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tracline.schemas.time import NS
from tracline.stream.alerts.alert import Alert
from tracline.stream.alerts.delivery import Delivery, DeliveryIntervals
from tracline.stream.alerts.receivers import Alertmanager
from tracline.stream.process.alert_metrics import AlertMetrics

from ..unit.stream.hook import Hook, hook
from .alertmanager import RunningAlertmanager, alertmanager, until

pytestmark = pytest.mark.slow

CONFIG = """
route:
  receiver: hook
  group_by: [pack, rule]
  group_wait: 100ms
  group_interval: 1s
  repeat_interval: 1h
receivers:
  - name: hook
    webhook_configs:
      - url: {url}
        send_resolved: true
"""


def began() -> int:
    """A minute ago."""
    return time.time_ns() - 60 * NS


def alert(starts: int) -> Alert:
    """One that fires since then."""
    return Alert("desk", "auth-first", "high", "support", starts, None, 0.02, 0.3, 12, 40)


@contextmanager
def delivering(url: str, *, intervals: DeliveryIntervals | None = None) -> Iterator[Delivery]:
    """A delivery to it."""
    with httpx.Client(timeout=5) as client:
        receiver = Alertmanager(url, client, {"team": "desk"}, console="http://console.example")
        meter = AlertMetrics([], [], [receiver.name])
        yield Delivery([receiver], meter, jitter=lambda: 0.0, report=lambda _text: None, intervals=intervals)


def carried(delivery: Delivery, sent: Alert) -> bool:
    """Work on, and return whether the alert was taken."""
    delivery.work(time.time_ns())
    return delivery.is_settled(sent)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningAlertmanager]:
    """An Alertmanager with the configuration that ships."""
    with alertmanager(tmp_path) as started:
        yield started


def test_an_alert_fires_and_is_resolved(running: RunningAlertmanager) -> None:
    """Delivered twice it is one alert, with labels, annotations and times; once resolved it is gone."""
    fired = alert(began())
    with delivering(running.url) as delivery:
        for _ in range(2):
            delivery.offer(fired)
            assert carried(delivery, fired)
        (shown,) = running.alerts()
        assert shown["labels"] == {
            "alertname": "TraclineRuleViolated", "pack": "desk", "rule": "auth-first", "severity": "high",
            "agent": "support", "team": "desk",
        }  # fmt: skip
        assert shown["annotations"]["alert_id"] == fired.id
        assert shown["generatorURL"] == "http://console.example/rules"
        assert shown["status"]["state"] in {"active", "unprocessed"}
        resolved = replace(fired, ends=time.time_ns())
        delivery.offer(resolved)
        assert carried(delivery, resolved)
        until("it is gone", lambda: not running.alerts())


def test_two_agents_are_two_alerts(running: RunningAlertmanager) -> None:
    """Resolving one leaves the other."""
    first = alert(began())
    second = replace(first, agent="sales")
    with delivering(running.url) as delivery:
        delivery.offer(first)
        delivery.offer(second)
        assert carried(delivery, second)
        assert len(running.alerts()) == 2
        delivery.offer(replace(first, ends=time.time_ns()))
        delivery.work(time.time_ns())
        left = until("one is gone", lambda: len(alerts := running.alerts()) == 1 and alerts)
        assert left[0]["labels"]["agent"] == "sales"


def test_an_alertmanager_that_is_away_gets_it_later(running: RunningAlertmanager) -> None:
    """While it is down attempts fail and nothing is lost; when it is back the alert is there."""
    fired = alert(began())
    running.stop()
    with delivering(running.url, intervals=DeliveryIntervals(retry_s=0.2, retry_max_s=0.2)) as delivery:
        delivery.offer(fired)
        assert not carried(delivery, fired)
        running.start()
        until("it is taken", lambda: carried(delivery, fired))
        assert [shown["annotations"]["alert_id"] for shown in running.alerts()] == [fired.id]


def test_an_alertmanager_without_state_gets_alerts_again(
    running: RunningAlertmanager, tmp_path: Path
) -> None:
    """Restarted with no state, it has the alert after the next interval."""
    fired = alert(began())
    with delivering(running.url, intervals=DeliveryIntervals(resend_s=0.5, lease_s=30)) as delivery:
        delivery.offer(fired)
        assert carried(delivery, fired)
        running.stop()
        running.folder = tmp_path / "restarted"
        running.start()
        until("it has the alert again", lambda: carried(delivery, fired) and running.alerts())


def test_its_own_receivers_get_each_once(tmp_path: Path) -> None:
    """Sent again and again, an alert is one notification when it fires and one when it is resolved."""
    with hook() as receiver:
        config = tmp_path / "alertmanager.yml"
        config.write_text(CONFIG.format(url=receiver.url))
        with alertmanager(tmp_path / "run", config) as running, delivering(running.url) as delivery:
            fired = alert(began())
            delivery.offer(fired)
            assert carried(delivery, fired)
            until("it is sent", lambda: statuses(receiver) == ["firing"])
            for seconds in (61, 122):
                delivery.work(time.time_ns() + seconds * NS)
            resolved = replace(fired, ends=time.time_ns())
            delivery.offer(resolved)
            delivery.work(time.time_ns() + 200 * NS)
            until("its end is sent", lambda: statuses(receiver) == ["firing", "resolved"])


def statuses(receiver: Hook) -> list[str]:
    """Return the notifications about each alert."""
    return [alert["status"] for _, body in receiver.posts for alert in json.loads(body)["alerts"]]
