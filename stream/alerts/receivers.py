"""Who alerts are delivered to: an Alertmanager, a webhook. Each is sent what it understands.

Neither is told anything of what an agent or a customer said.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import httpx
import orjson

from ...schemas.display import visible
from ...schemas.time import NS, rfc3339
from ..error import StreamError
from ..process.alert_metrics import DeliveryFailure
from .alert import Alert, AlertStatus, record

TIMEOUT_S = 5.0
"""How long a receiver may take to answer."""

PORT_MAX = 65_535

LABELS_MAX = 20
"""Labels of one's own that every alert has."""

RESERVED = frozenset({"alertname", "pack", "rule", "severity", "agent", "service"})
"""The labels that every alert has of itself."""

SIGNATURE = "Tracline-Signature"
TIMESTAMP = "Tracline-Timestamp"


class NotDelivered(Exception):
    """An attempt failed: why, in one word for metrics and in a sentence that holds nothing of the answer."""

    def __init__(self, missed: DeliveryFailure, text: str) -> None:
        super().__init__(text)
        self.missed = missed


class Receiver(Protocol):
    """Takes alerts. `resend` says whether it forgets those that are not sent again while they fire."""

    @property
    def name(self) -> str:
        """One word, for metrics and notes."""
        ...

    @property
    def resend(self) -> bool:
        """Return whether firing alerts are sent again."""
        ...

    def send(self, alerts: Sequence[Alert], now: int, lease_s: float) -> None:
        """Deliver them all; `now` is the time of day in nanoseconds.

        Firing alerts that are not sent again within `lease_s` seconds may be taken as resolved.

        Raises:
            NotDelivered: no, or perhaps not, or not all.
        """
        ...


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """Prometheus' Alertmanager, by version 2 of its API; `labels` are added to those of every alert.

    `console` is the address of a console, to which alerts link. `headers` are sent along.
    """

    url: str
    client: httpx.Client
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    console: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    name: str = "alertmanager"
    resend: bool = True

    def __post_init__(self) -> None:
        for url in (self.url, self.console or self.url):
            check_url(url)
        check_headers(*self.headers.values())
        if len(self.labels) > LABELS_MAX or RESERVED & set(self.labels):
            what = f"labels beyond {LABELS_MAX}, or one of {', '.join(sorted(RESERVED))}"
            raise StreamError("TRL765", what, "leave out those that every alert has, and give fewer")

    def send(self, alerts: Sequence[Alert], now: int, lease_s: float) -> None:
        """Deliver them all. See `Receiver.send`."""
        until = now + round(lease_s * NS)
        told = [self._told(alert, now, until) for alert in alerts]
        body = orjson.dumps(told)
        _post(self.client, f"{self.url.rstrip('/')}/api/v2/alerts", body, self.headers)

    def _told(self, alert: Alert, now: int, until: int) -> dict[str, object]:
        """One of the API's `postableAlert`; what has ended has ended by now, whatever clock said when."""
        begun = min(alert.starts, now)
        ends = until if alert.ends is None else max(begun, min(alert.ends, now))
        told: dict[str, object] = {
            "labels": {**self.labels, **labels_of(alert)},
            "annotations": annotations_of(alert),
            "startsAt": rfc3339(begun),
            "endsAt": rfc3339(ends),
        }
        if self.console is not None:
            told["generatorURL"] = f"{self.console.rstrip('/')}/rules"
        return told


@dataclass(frozen=True, slots=True)
class Webhook:
    """Any HTTP server that takes the JSON that `docs/operations.md` describes.

    `token` is sent as a bearer token. With `secret`, the header `Tracline-Signature` has the HMAC-SHA256, in
    hex, of the header `Tracline-Timestamp` (seconds since the epoch), a full stop and the body.
    """

    url: str = field(repr=False)
    client: httpx.Client
    token: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    name: str = "webhook"
    resend: bool = False

    def __post_init__(self) -> None:
        check_url(self.url)
        check_headers(self.token or "")

    def send(self, alerts: Sequence[Alert], now: int, lease_s: float) -> None:  # noqa: ARG002 (no lease here)
        """Deliver them all. See `Receiver.send`."""
        body = orjson.dumps({"version": 1, "alerts": [record(alert) for alert in alerts]})
        headers: dict[str, str] = {}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.secret is not None:
            seconds = str(now // NS)
            headers |= {TIMESTAMP: seconds, SIGNATURE: signature(self.secret, seconds, body)}
        _post(self.client, self.url, body, headers)


def labels_of(alert: Alert) -> dict[str, str]:
    """Return what tells one alert from another: the same when it fires and when it is resolved."""
    labels = {
        "alertname": "TraclineRuleViolated",
        "pack": alert.pack,
        "rule": alert.rule,
        "severity": alert.severity,
        "agent": alert.agent,
    }
    return labels if alert.service is None else {**labels, "service": alert.service}


def annotations_of(alert: Alert) -> dict[str, str]:
    """Return what a person reads of an alert. The agent's name comes from telemetry and was cleaned."""
    agent = visible(alert.agent)
    share = f"{alert.violating} of {alert.applicable} sessions"
    if alert.status is AlertStatus.FIRING:
        summary = f"{share} of {agent} violate {alert.pack}/{alert.rule}"
    else:
        summary = f"{agent} violates {alert.pack}/{alert.rule} no more than is tolerated"
    return {
        "summary": summary,
        "description": f"Observed {alert.observed:.2%}, tolerated {alert.tolerated:.2%} of sessions.",
        "alert_id": alert.id,
    }


def signature(secret: str, seconds: str, body: bytes) -> str:
    """The value of the header by which a webhook knows who sent a body, and when."""
    key = secret.encode("utf-8", "surrogateescape")
    return hmac.new(key, seconds.encode() + b"." + body, hashlib.sha256).hexdigest()


def check_url(url: str) -> None:
    """Raise StreamError (TRL765) unless it is a whole address. The error repeats nothing of it."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    is_whole = parsed.scheme in {"http", "https"} and parsed.host and (parsed.port or 1) <= PORT_MAX
    if not is_whole or " " in url:
        what = "an address that alerts cannot be delivered to"
        raise StreamError("TRL765", what, "give a whole one, as http://127.0.0.1:9093")


def check_headers(*values: str) -> None:
    """Raise StreamError (TRL765) unless they can be values of headers. The error repeats nothing of them."""
    if not all(value.isascii() and value.isprintable() for value in values):
        what = "a token with a character that no header can have"
        raise StreamError("TRL765", what, "look for a line's end behind it, and letters beyond ASCII")


def _post(client: httpx.Client, url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a body of JSON. Raises NotDelivered unless the answer is that it was taken (2xx).

    Of the answer only its head is read: its body may never end, and says nothing that is asked for.
    """
    headers = {"Content-Type": "application/json", **headers}
    try:
        with client.stream("POST", url, content=body, headers=headers) as answer:
            pass
    except httpx.RequestError as error:
        text = f"no answer ({type(error).__name__})"
        raise NotDelivered(DeliveryFailure.UNREACHABLE, text) from None
    if answer.is_success:
        return
    refused = answer.is_client_error and answer.status_code not in {408, 425, 429}
    missed = DeliveryFailure.REFUSED if refused else DeliveryFailure.FAILED
    raise NotDelivered(missed, f"the answer was {answer.status_code}")
