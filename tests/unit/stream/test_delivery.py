"""Alerts on their way to receivers: each once, again while it fires, and again until it is taken."""

from __future__ import annotations

import json
import math
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import httpx
import pytest
from prometheus_client import generate_latest
from tracline.schemas.time import NS
from tracline.stream.alerts.alert import VALUE_CHARS_MAX, Alert, AlertStatus, decode, encode, value
from tracline.stream.alerts.delivery import PENDING_MAX, REQUESTS_MAX, Delivery, DeliveryIntervals
from tracline.stream.alerts.receivers import (
    LABELS_MAX,
    Alertmanager,
    NotDelivered,
    Webhook,
    annotations_of,
    labels_of,
    signature,
)
from tracline.stream.error import StreamError
from tracline.stream.process.alert_metrics import AlertMetrics, DeliveryFailure

from ...support.http.hook import hook
from ...support.http.receiving import values

BEGAN = 1_771_329_600 * NS
FIRING = Alert("desk", "auth-first", "high", "support", BEGAN, None, 0.02, 0.3, 12, 40)
RESOLVED = replace(FIRING, ends=BEGAN + 600 * NS)
INTERVALS = DeliveryIntervals()


@dataclass
class Taking:
    """A receiver that stores its alerts, and fails as configured: one entry for each attempt."""

    fails: list[DeliveryFailure | None] = field(default_factory=list)
    refuses: set[str] = field(default_factory=set)
    took: list[list[tuple[str, AlertStatus]]] = field(default_factory=list)
    name: str = "desk"
    resend: bool = True

    def send(self, alerts: Sequence[Alert], now: int, lease_s: float) -> None:
        """Store them, unless configured to fail."""
        assert now > 0
        assert lease_s > INTERVALS.resend_s
        missed = self.fails.pop(0) if self.fails else None
        if self.refuses & {alert.rule for alert in alerts}:
            missed = DeliveryFailure.REFUSED
        if missed is not None:
            raise NotDelivered(missed, "the answer was no")
        self.took.append([(alert.rule, alert.status) for alert in alerts])


@dataclass
class Desk:
    """A delivery to one receiver, with a clock that the test turns."""

    receiver: Taking
    now: int = BEGAN
    reports: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.meter = AlertMetrics([], [], [self.receiver.name])
        self.delivery = Delivery([self.receiver], self.meter, jitter=lambda: 0.0, report=self.reports.append)

    def pass_s(self, seconds: float) -> None:
        """Let time pass, working whenever something is due."""
        end = self.now + round(seconds * NS)
        while (due := max(self.delivery.due(), self.now)) <= end:
            self.now = round(due)
            self.delivery.work(self.now)
        self.now = end


def counted(desk: Desk, name: str) -> dict[tuple[str, ...], float]:
    """The values of a counter that are not 0."""
    return values(generate_latest(desk.meter.registry).decode(), name)


def test_an_alert_is_delivered_once() -> None:
    """Offered several times, as after a crash, it goes out once until it is to be sent again."""
    desk = Desk(Taking())
    for _ in range(3):
        desk.delivery.offer(FIRING)
    desk.pass_s(INTERVALS.resend_s - 1)
    assert desk.receiver.took == [[("auth-first", AlertStatus.FIRING)]]
    assert desk.delivery.is_settled(FIRING)


def test_a_firing_alert_is_sent_again_until_it_is_resolved() -> None:
    """Alertmanager resolves alerts that it gets no more; so it gets them at every interval."""
    desk = Desk(Taking())
    desk.delivery.offer(FIRING)
    desk.pass_s(3 * INTERVALS.resend_s)
    assert desk.receiver.took == [[("auth-first", AlertStatus.FIRING)]] * 4
    desk.delivery.offer(RESOLVED)
    desk.pass_s(3 * INTERVALS.resend_s)
    assert desk.receiver.took[4:] == [[("auth-first", AlertStatus.RESOLVED)]]
    assert desk.delivery.due() == math.inf


def test_a_webhook_gets_an_alert_once() -> None:
    """A receiver that forgets nothing is not sent firing alerts again."""
    desk = Desk(Taking(resend=False))
    desk.delivery.offer(FIRING)
    desk.pass_s(10 * INTERVALS.resend_s)
    assert desk.receiver.took == [[("auth-first", AlertStatus.FIRING)]]


def test_what_is_over_does_not_fire_again() -> None:
    """A repetition of its beginning, read again from the topic, opens no alert that is resolved."""
    desk = Desk(Taking())
    desk.delivery.offer(FIRING)
    desk.delivery.offer(RESOLVED)
    desk.delivery.offer(FIRING)
    desk.pass_s(1)
    desk.delivery.offer(FIRING)
    desk.pass_s(600)
    assert desk.receiver.took == [[("auth-first", AlertStatus.RESOLVED)]]
    assert desk.delivery.is_settled(FIRING)
    assert desk.delivery.is_settled(RESOLVED)


def test_what_fails_is_tried_again_ever_later() -> None:
    """The waits double up to the longest; nothing is lost, and one report states that alerts wait."""
    desk = Desk(Taking(fails=[DeliveryFailure.UNREACHABLE] * 9))
    desk.delivery.offer(FIRING)
    waits: list[int] = []
    while not desk.receiver.took:
        desk.delivery.work(desk.now)
        later = max(round(desk.delivery.due()), desk.now)
        waits.append((later - desk.now) // NS)
        desk.now = later
    assert waits[:9] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert counted(desk, "tracline_alert_failures_total") == {("desk", "unreachable"): 9}
    assert counted(desk, "tracline_alert_deliveries_total") == {("desk",): 1}
    assert len(desk.reports) == 2
    assert desk.reports[1] == "desk: accepts alerts again"


def test_jitter_takes_up_to_half_of_a_wait() -> None:
    """Many processes that lost one receiver do not come back at once."""
    meter = AlertMetrics([], [], ["desk"])
    receiver = Taking(fails=[DeliveryFailure.FAILED])
    delivery = Delivery([receiver], meter, jitter=lambda: 1.0, report=lambda _text: None)
    delivery.offer(FIRING)
    delivery.work(BEGAN)
    assert delivery.due() == BEGAN + NS / 2


def test_one_refused_alert_holds_up_no_other() -> None:
    """An alert that is refused in a batch goes alone from then on; the others are delivered at once."""
    desk = Desk(Taking(refuses={"odd"}))
    odd = replace(FIRING, rule="odd")
    for alert in (odd, FIRING, replace(FIRING, rule="calm")):
        desk.delivery.offer(alert)
    desk.pass_s(0)
    assert sorted(rule for group in desk.receiver.took for rule, _ in group) == ["auth-first", "calm"]
    assert not desk.delivery.is_settled(odd)
    desk.receiver.refuses.clear()
    desk.pass_s(INTERVALS.retry_s)
    assert desk.delivery.is_settled(odd)
    assert [line for line in desk.reports if odd.id in line]


@pytest.mark.slow
def test_there_is_room_for_so_many_and_no_more() -> None:
    """While a receiver is away alerts are held up to the limit; then the stage that offers has to wait."""
    desk = Desk(Taking(fails=[DeliveryFailure.FAILED]))
    for number in range(PENDING_MAX):
        assert desk.delivery.has_room()
        desk.delivery.offer(replace(FIRING, rule=f"rule-{number}"))
    assert not desk.delivery.has_room()
    desk.pass_s(2)
    assert desk.delivery.has_room()
    assert sum(map(len, desk.receiver.took)) == PENDING_MAX
    assert max(map(len, desk.receiver.took)) == INTERVALS.batch_max


@pytest.mark.slow
def test_a_round_of_work_is_short() -> None:
    """A round sends a limited number of requests, also where many are refused; the next sends the rest."""
    desk = Desk(Taking(refuses={f"rule-{number}" for number in range(PENDING_MAX)}))
    for number in range(PENDING_MAX):
        desk.delivery.offer(replace(FIRING, rule=f"rule-{number}"))
    attempts: list[float] = []
    for _ in range(PENDING_MAX // REQUESTS_MAX + 2):
        desk.delivery.work(BEGAN)
        attempts.append(counted(desk, "tracline_alert_attempts_total")["desk",])
    assert attempts[:2] == [REQUESTS_MAX, 2 * REQUESTS_MAX]
    assert attempts[-1] == PENDING_MAX // INTERVALS.batch_max + 1 + PENDING_MAX, (
        "together, and then each alone"
    )


def test_one_receiver_does_not_wait_for_another() -> None:
    """If one is away the other is served; a record is settled only when both have it."""
    away, here = Taking(fails=[DeliveryFailure.UNREACHABLE], name="away"), Taking(name="here")
    meter = AlertMetrics([], [], ["away", "here"])
    delivery = Delivery([away, here], meter, jitter=lambda: 0.0, report=lambda _text: None)
    delivery.offer(FIRING)
    delivery.work(BEGAN)
    assert (len(away.took), len(here.took)) == (0, 1)
    assert not delivery.is_settled(FIRING)
    delivery.work(BEGAN + NS)
    assert delivery.is_settled(FIRING)


def test_an_alert_is_known_by_its_rule_agent_and_beginning() -> None:
    """Its id stays when it is resolved or counts go on, and differs for the next one."""
    assert RESOLVED.id == FIRING.id == replace(FIRING, violating=99).id
    others = [replace(FIRING, rule="x"), replace(FIRING, agent="x"), replace(FIRING, starts=BEGAN + 1)]
    assert len({FIRING.id, *(changed.id for changed in others)}) == 4


@pytest.mark.parametrize("alert", [FIRING, RESOLVED, replace(FIRING, service="shop")])
def test_records_of_the_topic_are_read_back(alert: Alert) -> None:
    """The content of `tracline.alerts` is the whole alert."""
    assert decode(encode(alert)) == alert


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"version":2}', encode(FIRING).replace(b"T", b"?")])
def test_other_records_are_refused(data: bytes) -> None:
    """A record that is no alert of this release is an error with a code."""
    with pytest.raises(StreamError) as caught:
        decode(data)
    assert caught.value.code == "TRL764"


def test_names_from_telemetry_are_cleaned_and_cut() -> None:
    """An agent's name moves no cursor, turns no writing direction, and is not long."""
    assert value("support\x1b[2J\u202e") == "support�[2J�"
    assert len(value("x" * 10_000)) == VALUE_CHARS_MAX
    assert value(None) == value("  ") == "unknown"


def test_labels_distinguish_alerts_and_annotations_describe_what_is_wrong() -> None:
    """Labels are the same while it fires and when it is resolved; numbers stand in annotations only."""
    assert labels_of(FIRING) == labels_of(RESOLVED) == {
        "alertname": "TraclineRuleViolated", "pack": "desk", "rule": "auth-first", "severity": "high",
        "agent": "support",
    }  # fmt: skip
    received = annotations_of(FIRING)
    assert received["summary"] == "12 of 40 sessions of support violate desk/auth-first"
    assert received["description"] == "Observed 30.00%, tolerated 2.00% of sessions."
    assert received["alert_id"] == FIRING.id


@pytest.mark.parametrize(
    "url",
    ["", "localhost:9093", "ftp://localhost", "http://", "http://[::1", "http://host:99999", "http://ho st"],
)
def test_a_receiver_needs_a_whole_address(url: str) -> None:
    """Anything but http and https with a host is refused before anything starts, without repeating it."""
    with httpx.Client() as client:
        for receiver in (Alertmanager, Webhook):
            with pytest.raises(StreamError) as caught:
                receiver(url, client)
            assert caught.value.code == "TRL765"
        with pytest.raises(StreamError) as caught:
            Alertmanager("http://127.0.0.1:9093", client, console=url or "console")
        assert caught.value.code == "TRL765", "Alertmanager refuses alerts with such a link"


@pytest.mark.parametrize("token", ["hidden\n", "hidd\u00e9n", "hidden\udcff"])
def test_a_token_that_no_header_can_have_is_refused(token: str) -> None:
    """It is refused before anything starts, and neither errors nor what a receiver looks like repeat it."""
    with httpx.Client() as client:
        for make in (
            lambda: Webhook("http://127.0.0.1", client, token),
            lambda: Alertmanager("http://127.0.0.1", client, headers={"Authorization": f"Bearer {token}"}),
        ):
            with pytest.raises(StreamError, match="token") as caught:
                make()
            assert "hid" not in str(caught.value)


def test_a_receiver_does_not_show_its_secrets() -> None:
    """Neither a webhook's address, which may be all the secret that it has, nor tokens stand in its text."""
    with httpx.Client() as client:
        shown = repr(Webhook("http://hidden.example/hidden", client, "hidden", "hidden\u00e9"))
        shown += repr(Alertmanager("http://127.0.0.1", client, headers={"Authorization": "hidden"}))
    assert "hidden" not in shown


def test_labels_of_ones_own_are_limited() -> None:
    """They are few, and none of those that every alert has."""
    with httpx.Client() as client:
        for labels in ({"rule": "mine"}, {f"label{number}": "x" for number in range(LABELS_MAX + 1)}):
            with pytest.raises(StreamError, match="labels"):
                Alertmanager("http://127.0.0.1:9093", client, labels)


def test_a_webhook_knows_who_sent_what_and_when() -> None:
    """It has the records as JSON, the token, and a signature over time and body that nobody else can make."""
    with hook() as received, httpx.Client() as client:
        Webhook(received.url, client, "tok", "secret").send([FIRING, RESOLVED], BEGAN, 240)
        (headers, body), *_ = received.posts
    assert headers["Authorization"] == "Bearer tok"
    assert headers["Tracline-Timestamp"] == "1771329600"
    assert headers["Tracline-Signature"] == signature("secret", "1771329600", body)
    assert signature("another", "1771329600", body) != headers["Tracline-Signature"]
    message = json.loads(body)
    assert [alert["status"] for alert in message["alerts"]] == ["firing", "resolved"]
    assert [decode(json.dumps(alert).encode()) for alert in message["alerts"]] == [FIRING, RESOLVED]


@pytest.mark.parametrize(
    ("status", "missed"),
    [(301, DeliveryFailure.FAILED), (400, DeliveryFailure.REFUSED), (401, DeliveryFailure.REFUSED),
     (429, DeliveryFailure.FAILED), (500, DeliveryFailure.FAILED), (503, DeliveryFailure.FAILED)],
)  # fmt: skip
def test_answers_show_whether_the_alert_or_the_receiver_is_at_fault(
    status: int, missed: DeliveryFailure
) -> None:
    """Refusals are distinguished from passing failures, and no redirection is followed."""
    with hook() as received, httpx.Client() as client:
        received.status = status
        with pytest.raises(NotDelivered, match=str(status)) as caught:
            Webhook(received.url, client).send([FIRING], BEGAN, 240)
    assert caught.value.failure is missed


@pytest.mark.parametrize(
    "head", [b"Content-Type: text/plain", b"Content-Encoding: gzip", b"Transfer-Encoding: chunked"]
)
def test_only_the_head_of_an_answer_is_read(head: bytes) -> None:
    """A body that does not end, or cannot be unpacked, holds nothing up and fills no memory."""
    ended = threading.Event()

    def answer(listening: socket.socket) -> None:
        received, _ = listening.accept()
        with received, suppress(OSError):
            received.recv(65_536)
            received.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
            while not ended.is_set():
                received.sendall(b"5\r\nhello\r\n" * 10_000)

    with socket.create_server(("127.0.0.1", 0)) as listening, httpx.Client() as client:
        thread = threading.Thread(target=answer, args=(listening,))
        thread.start()
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            Webhook(url, client).send([FIRING], BEGAN, 240)
        finally:
            ended.set()
            thread.join()


def test_a_receiver_that_is_away_is_unreachable() -> None:
    """With no listener the attempt fails with a word for it."""
    with hook() as received:
        url = received.url
    with httpx.Client() as client, pytest.raises(NotDelivered) as caught:
        Webhook(url, client).send([FIRING], BEGAN, 240)
    assert caught.value.failure is DeliveryFailure.UNREACHABLE
