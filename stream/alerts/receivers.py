"""The receivers of alerts: an Alertmanager, a webhook.

Nothing of a conversation's content is sent to them.
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
from .alert import Alert, AlertKind, AlertStatus, record

TIMEOUT_S = 5.0
"""Seconds that a receiver may take to answer."""

PORT_MAX = 65_535

LABELS_MAX = 20
"""Configured labels that every alert has, at most."""

RESERVED = frozenset({"alertname", "pack", "rule", "severity", "agent", "service"})
"""The labels that tracline sets."""

SIGNATURE = "Tracline-Signature"
TIMESTAMP = "Tracline-Timestamp"


class NotDelivered(Exception):
    """A failed attempt: the reason for metrics, and a text that holds nothing of the answer."""

    def __init__(self, failure: DeliveryFailure, text: str) -> None:
        super().__init__(text)
        self.failure = failure


class Receiver(Protocol):
    """Receives alerts. With `resend` it needs firing alerts again and again, else it resolves them."""

    @property
    def name(self) -> str:
        """Return the name in metrics and logs, one word."""
        ...

    @property
    def resend(self) -> bool:
        """Return whether firing alerts are repeated."""
        ...

    def send(self, alerts: Sequence[Alert], now: int, lease_s: float) -> None:
        """Deliver all alerts; `now` is the time in nanoseconds since the epoch.

        The receiver may resolve firing alerts that are not sent again within `lease_s` seconds.

        Raises:
            NotDelivered: some alerts are not delivered, or may not be.
        """
        ...


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """Prometheus' Alertmanager, by version 2 of its API; every alert has the `labels`, too.

    `console` is the address of a console that alerts link to. `headers` are sent with every request.
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
            what = f"more than {LABELS_MAX} labels, or a reserved one ({', '.join(sorted(RESERVED))})"
            raise StreamError("TRL765", what, "remove labels: tracline sets the reserved ones")

    def send(self, alerts: Sequence[Alert], now: int, lease_s: float) -> None:
        """Deliver all alerts. See `Receiver.send`."""
        until = now + round(lease_s * NS)
        body = orjson.dumps([self._postable(alert, now, until) for alert in alerts])
        _post(self.client, f"{self.url.rstrip('/')}/api/v2/alerts", body, self.headers)

    def _postable(self, alert: Alert, now: int, until: int) -> dict[str, object]:
        """Return the API's `postableAlert`; event times beyond `now` are cut to it."""
        begun = min(alert.starts, now)
        ends = until if alert.ends is None else max(begun, min(alert.ends, now))
        postable: dict[str, object] = {
            "labels": {**self.labels, **labels_of(alert)},
            "annotations": annotations_of(alert),
            "startsAt": rfc3339(begun),
            "endsAt": rfc3339(ends),
        }
        if self.console is not None:
            postable["generatorURL"] = f"{self.console.rstrip('/')}/rules"
        return postable


@dataclass(frozen=True, slots=True)
class Webhook:
    """An HTTP server that accepts the JSON described in `docs/operations.md`.

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
        """Deliver all alerts. See `Receiver.send`."""
        body = orjson.dumps({"version": 1, "alerts": [record(alert) for alert in alerts]})
        headers: dict[str, str] = {}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.secret is not None:
            seconds = str(now // NS)
            headers |= {TIMESTAMP: seconds, SIGNATURE: signature(self.secret, seconds, body)}
        _post(self.client, self.url, body, headers)


ALERT_NAMES = {
    AlertKind.RULE: "TraclineRuleViolated",
    AlertKind.RISK: "TraclineRuleAtRisk",
    AlertKind.CONTENT: "TraclineContentNotCaptured",
}
"""The label `alertname` by the kind of an alert."""


def labels_of(alert: Alert) -> dict[str, str]:
    """Return the labels that identify an alert: the same when it fires and when it is resolved."""
    labels = {
        "alertname": ALERT_NAMES[alert.kind],
        "pack": alert.pack,
        "rule": alert.rule_id,
        "severity": alert.severity,
        "agent": alert.agent,
    }
    return labels if alert.service is None else {**labels, "service": alert.service}


def annotations_of(alert: Alert) -> dict[str, str]:
    """Return the texts for people. The agent's name comes from telemetry and was cleaned."""
    agent = visible(alert.agent)
    share = f"{alert.violating} of {alert.applicable} sessions"
    is_firing = alert.status is AlertStatus.FIRING
    if alert.kind is AlertKind.CONTENT:
        firing = f"{share} of {agent} cannot be judged to the end: content is not captured"
        resolved = f"content of {agent} is missing within the tolerated rate again"
    elif alert.kind is AlertKind.RISK:
        firing = f"{share} of {agent} come to the threshold of the risk of {alert.pack}/{alert.rule_id}"
        resolved = (
            f"{agent} comes to the risk of {alert.pack}/{alert.rule_id} within the tolerated rate again"
        )
    else:
        firing = f"{share} of {agent} violate {alert.pack}/{alert.rule}"
        resolved = f"{agent} violates {alert.pack}/{alert.rule} within the tolerated rate again"
    return {
        "summary": firing if is_firing else resolved,
        "description": f"Observed {alert.observed:.2%}, tolerated {alert.tolerated:.2%} of sessions.",
        "alert_id": alert.id,
    }


def signature(secret: str, seconds: str, body: bytes) -> str:
    """Return the header that authenticates a webhook's body and its time."""
    key = secret.encode("utf-8", "surrogateescape")
    return hmac.new(key, seconds.encode() + b"." + body, hashlib.sha256).hexdigest()


def check_url(url: str) -> None:
    """Raise StreamError (TRL765) unless the URL is absolute. The error has nothing of it."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    is_whole = parsed.scheme in {"http", "https"} and parsed.host and (parsed.port or 1) <= PORT_MAX
    if not is_whole or " " in url:
        raise StreamError(
            "TRL765", "invalid URL of a receiver", "give an absolute one, as http://127.0.0.1:9093"
        )


def check_headers(*values: str) -> None:
    """Raise StreamError (TRL765) unless a header can carry the values. The error has nothing of them."""
    if not all(value.isascii() and value.isprintable() for value in values):
        what = "invalid character in a token for a receiver"
        raise StreamError("TRL765", what, "remove line ends and characters beyond ASCII")


def _post(client: httpx.Client, url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a body of JSON. Raises NotDelivered unless the status of the answer is 2xx.

    Read only the head of the answer: its body is not needed, and may never end.
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
    failure = DeliveryFailure.REFUSED if refused else DeliveryFailure.FAILED
    raise NotDelivered(failure, f"answered {answer.status_code}")
