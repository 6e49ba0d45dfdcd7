"""An alert as data: what it says, its id, and its record in `tracline.alerts` and in webhooks' requests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson
import rfc8785

from ...schemas.display import visible
from ...schemas.time import parse_time, rfc3339
from ..error import StreamError

VERSION = 1
"""Version of the record."""

VALUE_CHARS_MAX = 120
"""Characters of a label value; of a longer one the rest is cut."""

UNKNOWN = "unknown"
"""The agent of sessions that do not say whose they are."""


class AlertStatus(StrEnum):
    """What has become of an alert."""

    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Alert:
    """More sessions of an agent violate a rule than is tolerated.

    `starts` and `ends` are event time in nanoseconds, `ends` None as long as the alert fires. `observed` is
    the rate of violating sessions since the likely change, of `violating` in `applicable` sessions;
    `tolerated` the rate that raises none.
    """

    pack: str
    rule: str
    severity: str
    agent: str
    starts: int
    ends: int | None
    tolerated: float
    observed: float
    violating: int
    applicable: int
    service: str | None = None

    @property
    def status(self) -> AlertStatus:
        """Return whether it fires."""
        return AlertStatus.FIRING if self.ends is None else AlertStatus.RESOLVED

    @property
    def id(self) -> str:
        """The same for all that is said of one alert; the next of the same rule and agent has another."""
        told = [self.pack, self.rule, self.agent, rfc3339(self.starts)]
        return hashlib.sha256(rfc8785.dumps(["tracline-alert/1", *told])).hexdigest()


def value(text: str | None) -> str:
    """Text of telemetry as a label value: what can be seen of it, cut; `unknown` for none."""
    return visible((text or "")[:VALUE_CHARS_MAX]).strip() or UNKNOWN


def record(alert: Alert) -> dict[str, object]:
    """The alert as JSON has it, in topics and in webhooks' requests."""
    return {
        "version": VERSION,
        "id": alert.id,
        "status": alert.status.value,
        "pack": alert.pack,
        "rule": alert.rule,
        "severity": alert.severity,
        "agent": alert.agent,
        "service": alert.service,
        "starts_at": rfc3339(alert.starts),
        "ends_at": None if alert.ends is None else rfc3339(alert.ends),
        "tolerated": alert.tolerated,
        "observed": alert.observed,
        "violating": alert.violating,
        "applicable": alert.applicable,
    }


def encode(alert: Alert) -> bytes:
    """The alert as a record of `tracline.alerts`."""
    return orjson.dumps(record(alert))


def decode(data: bytes) -> Alert:
    """The alert in a record of `tracline.alerts`. Raises StreamError (TRL764) where it holds none."""
    try:
        told: dict[str, Any] = orjson.loads(data)
        if told["version"] != VERSION:
            raise ValueError
        ends = told["ends_at"]
        return Alert(
            pack=str(told["pack"]),
            rule=str(told["rule"]),
            severity=str(told["severity"]),
            agent=str(told["agent"]),
            starts=_time(told["starts_at"]),
            ends=None if ends is None else _time(ends),
            tolerated=float(told["tolerated"]),
            observed=float(told["observed"]),
            violating=int(told["violating"]),
            applicable=int(told["applicable"]),
            service=None if told["service"] is None else str(told["service"]),
        )
    except (ValueError, TypeError, KeyError):
        hint = "only `tracline stream alerts` may write there: look who else does, or begin with a new topic"
        raise StreamError("TRL764", "a record of the topic of alerts is no alert", hint) from None


def _time(text: object) -> int:
    time = parse_time(text)
    if time is None:
        raise ValueError
    return time
