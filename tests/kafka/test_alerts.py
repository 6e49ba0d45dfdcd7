"""`tracline stream alerts` on a real broker: however it is killed, the same alerts reach Alertmanager.

What must be alerted is known from how the messages were made: one agent goes wrong for a while.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from kafka import KafkaProducer
from kafka.admin import OffsetSpec
from kafka.structs import TopicPartition
from tracline.examples.local_kafka import Broker, free_port
from tracline.schemas.time import NS, parse_time
from tracline.stream.alerts.alert import Alert, AlertStatus, decode
from tracline.stream.alerts.rates import Rates, default_rates, encode
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.kafka.topics import administering, create
from tracline.stream.messages.topics import Topic
from tracline.stream.process.faultpoints import AlertFault

from ..docker.alertmanager import RunningAlertmanager, alertmanager
from ..support.forking import ForkedProcess
from ..unit.stream.alert_messages import BEGAN, PARTITIONS, SETTINGS, SPIKE, TICK_S, WRONG, Sent, messages
from ..unit.stream.hook import Hook, hook
from ..unit.stream.receiving import values
from .reading import is_read, read
from .rekeying import until
from .stage import running

pytestmark = pytest.mark.slow
TIMEOUT_S = 1.0
SIGKILLED = -signal.SIGKILL


@pytest.fixture
def kafka(kafka: KafkaSettings) -> KafkaSettings:
    """The shared broker with the topics of this test."""
    return made(kafka)


@pytest.fixture
def apart(own_kafka: KafkaSettings) -> KafkaSettings:
    """The topics at a broker that the test may kill."""
    return made(own_kafka)


def made(kafka: KafkaSettings) -> KafkaSettings:
    """The settings, once their topics are made."""
    with administering(kafka) as admin:
        create(admin, kafka, partitions=PARTITIONS)
    return kafka


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    """The tolerated rates, as the command reads them."""
    rates_of_desk: Rates = default_rates(TICK_S, TICK_S)
    path = tmp_path / "rates.json"
    path.write_bytes(encode(rates_of_desk))
    return path


@contextmanager
def process(
    kafka: KafkaSettings, rates: Path, *more: str, fault: str | None = None
) -> Iterator[ForkedProcess]:
    """A process of the command; whatever happens, it does not outlive the test."""
    flags = ("--rates", str(rates), "--arl", str(SETTINGS.arl_ticks), "--resend-s", "1")
    waits = ("--timeout-s", str(TIMEOUT_S))
    with running(kafka, rates.with_name("alerts.log"), "alerts", *flags, *waits, *more, fault=fault) as stage:
        yield stage.process


def send(kafka: KafkaSettings, sent: list[Sent]) -> None:
    """Send the messages to their partitions."""
    producer = KafkaProducer(bootstrap_servers=list(kafka.bootstrap_servers), linger_ms=10)
    for message in sent:
        producer.send(kafka.topic(Topic.VERDICTS), message.value, partition=message.partition)
    producer.flush()
    producer.close()


def halves() -> tuple[list[Sent], list[Sent]]:
    """The messages, parted at the last tick of the spike."""
    sent = messages()
    half = next(place for place, message in enumerate(sent) if _tick_of(message) == SPIKE.stop - 1)
    return sent[:half], sent[half:]


def alerts(kafka: KafkaSettings) -> list[Alert]:
    """Return what is committed to the topic of alerts."""
    return [decode(record.value) for record in read(kafka, kafka.topic(Topic.ALERTS))]


def notifications(receiver: Hook) -> list[tuple[str, str]]:
    """The id and status of each alert that was posted."""
    return [
        (alert["id"], alert["status"]) for _, body in receiver.posts for alert in json.loads(body)["alerts"]
    ]


def until_delivered(kafka: KafkaSettings) -> None:
    """Wait until everything is read, and both alerts delivered: behind the last is its transaction's mark."""
    place, group = TopicPartition(kafka.topic(Topic.ALERTS), 0), kafka.group("alerts")
    with administering(kafka, "test") as admin:

        def is_done() -> bool:
            if not is_read(admin, kafka, "alerts"):
                return False
            end = admin.list_partition_offsets({place: OffsetSpec.LATEST})[place].offset
            committed = admin.list_group_offsets({group: None})[group].get(place)
            return end >= 3 and committed is not None and committed.offset >= end - 1

        until("every alert is delivered", is_done)


def check_one_alert(alerts: list[Alert]) -> None:
    """One alert, of the agent that goes wrong, in the spike and a little longer."""
    assert [alert.status for alert in alerts] == [AlertStatus.FIRING, AlertStatus.RESOLVED]
    assert len({alert.id for alert in alerts}) == 1
    fired, resolved = alerts
    first, last = (BEGAN + tick * TICK_S * NS for tick in (SPIKE.start, SPIKE.stop))
    assert (fired.agent, fired.rule, fired.severity) == (WRONG, "auth-first", "high")
    assert first <= fired.starts < first + 5 * TICK_S * NS
    assert resolved.ends is not None
    assert last < resolved.ends < last + 20 * TICK_S * NS


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
        for fault in AlertFault:
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


def test_a_broker_that_is_away_is_waited_for(own_broker: Broker, apart: KafkaSettings, rates: Path) -> None:
    """Killed and restarted while the process goes on: each alert is written once, and delivered.

    A receiver may get an alert again, under the same id, if Kafka could not record the delivery in time.
    """
    before, behind = halves()
    with hook() as receiver, process(apart, rates, "--webhook", receiver.url) as alerting:
        send(apart, before)
        until("the alert is delivered", lambda: notifications(receiver))
        own_broker.restart()
        send(apart, behind)
        until_delivered(apart)
        assert alerting.poll() is None
        check_one_alert(alerts(apart))
        assert [name for _, name in dict.fromkeys(notifications(receiver))] == ["firing", "resolved"]
        assert notifications(receiver)[-1][1] == "resolved", "what is sent again is sent in its order"


def test_what_fires_is_sent_while_the_broker_is_away(
    own_broker: Broker, apart: KafkaSettings, rates: Path
) -> None:
    """If Kafka cannot record a delivery either, Alertmanager still receives the alerts that fire."""
    before, _ = halves()
    with hook() as receiver, process(apart, rates, "--alertmanager", receiver.url) as alerting:
        receiver.status = 503
        send(apart, before)
        until("it has tried", lambda: receiver.posts)
        own_broker.kill()
        receiver.status = 200
        receiver.posts.clear()
        until("it is sent again and again", lambda: len(receiver.posts) > 4)
        assert alerting.poll() is None


def until_shown(am: RunningAlertmanager) -> list[dict[str, dict[str, str]]]:
    """Wait for an alert at Alertmanager."""
    until("Alertmanager has an alert", am.alerts)
    return am.alerts()


def _tick_of(message: Sent) -> int | None:
    """The tick at whose end a message's watermark is."""
    watermark = json.loads(message.value)["watermark"]
    if watermark is None:
        return None
    return ((parse_time(watermark) or 0) - BEGAN) // (TICK_S * NS)
