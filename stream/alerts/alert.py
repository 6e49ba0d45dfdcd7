"""An alert as data: its fields, its id, and its record in `tracline.alerts` and in webhooks."""

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
from .counted_statuses import CAPTURE, risk_of, rule_id

VERSION = 1
"""Version of the record."""

VALUE_CHARS_MAX = 120
"""Characters of a label value; a longer one is cut."""

UNKNOWN = "unknown"
"""The agent of sessions without an agent's name."""


class AlertKind(StrEnum):
    """The kind of an alert: on a rule, on the risk of a rule, or on the capture of content."""

    RULE = "rule"
    """More sessions violate a rule than is tolerated."""
    RISK = "risk"
    """In more sessions than is tolerated the risk of a rule rises to its threshold."""
    CONTENT = "content"
    """In more sessions than is tolerated a rule is unjudged because content was not captured."""


class AlertStatus(StrEnum):
    """The status of an alert."""

    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that more sessions of an agent violate a rule than is tolerated.

    An alert on the capture of content has the pack and id of `CAPTURE`, and sessions with missing content
    count as violating. One on the risk of a rule has the name of `risk_of`, and sessions at risk count as
    violating. `starts` and `ends` are event time in nanoseconds, `ends` None while the alert fires.
    `observed` is the rate since the likely change, of `violating` in `applicable` sessions; `tolerated` is
    the tolerated rate. `verdicts` has the ids of the newest violations when the alert was raised, the newest
    first: none over history, none of a risk, and none where content is missing.
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
    verdicts: tuple[str, ...] = ()

    @property
    def kind(self) -> AlertKind:
        """Return the kind of the alert."""
        return kind_of(self.pack, self.rule)

    @property
    def rule_id(self) -> str:
        """Return the id of the rule, also for its risk."""
        return rule_id(self.rule)

    @property
    def status(self) -> AlertStatus:
        """Return whether the alert fires or is resolved."""
        return AlertStatus.FIRING if self.ends is None else AlertStatus.RESOLVED

    @property
    def id(self) -> str:
        """Return the id, which stays the same when the alert is resolved."""
        named = [self.pack, self.rule, self.agent, rfc3339(self.starts)]
        return hashlib.sha256(rfc8785.dumps(["tracline-alert/1", *named])).hexdigest()


def kind_of(pack: str, rule: str) -> AlertKind:
    """Return the kind of the alerts of a series, by its pack and the name that it is counted under."""
    if (pack, rule) == CAPTURE:
        return AlertKind.CONTENT
    return AlertKind.RULE if rule == rule_id(rule) else AlertKind.RISK


def value(text: str | None) -> str:
    """Return text of telemetry as a label value: visible, cut, and `unknown` where it is empty."""
    return visible((text or "")[:VALUE_CHARS_MAX]).strip() or UNKNOWN


def record(alert: Alert) -> dict[str, object]:
    """Return the alert as JSON, for topics and webhooks."""
    return {
        "version": VERSION,
        "id": alert.id,
        "kind": alert.kind.value,
        "status": alert.status.value,
        "pack": alert.pack,
        "rule": alert.rule_id,
        "severity": alert.severity,
        "agent": alert.agent,
        "service": alert.service,
        "starts_at": rfc3339(alert.starts),
        "ends_at": None if alert.ends is None else rfc3339(alert.ends),
        "tolerated": alert.tolerated,
        "observed": alert.observed,
        "violating": alert.violating,
        "applicable": alert.applicable,
        "verdicts": list(alert.verdicts),
    }


def encode(alert: Alert) -> bytes:
    """Return the alert as a record of `tracline.alerts`."""
    return orjson.dumps(record(alert))


def decode(data: bytes) -> Alert:
    """Return the alert in a record of `tracline.alerts`. Raises StreamError (TRL764) where there is none."""
    try:
        fields: dict[str, Any] = orjson.loads(data)
        if fields["version"] != VERSION:
            raise ValueError
        ends = fields["ends_at"]
        pack, rule = str(fields["pack"]), str(fields["rule"])
        if fields.get("kind") == AlertKind.RISK:
            pack, rule = risk_of(pack, rule)
        return Alert(
            pack=pack,
            rule=rule,
            severity=str(fields["severity"]),
            agent=str(fields["agent"]),
            starts=_time(fields["starts_at"]),
            ends=None if ends is None else _time(ends),
            tolerated=float(fields["tolerated"]),
            observed=float(fields["observed"]),
            violating=int(fields["violating"]),
            applicable=int(fields["applicable"]),
            service=None if fields["service"] is None else str(fields["service"]),
            # Records of early releases name no verdicts.
            verdicts=tuple(map(str, fields.get("verdicts", ()))),
        )
    except (ValueError, TypeError, KeyError):
        hint = "only `tracline stream alerts` may write to it: stop other writers, or use a new topic"
        raise StreamError("TRL764", "a record of the alerts topic is not an alert", hint) from None


def _time(text: object) -> int:
    time = parse_time(text)
    if time is None:
        raise ValueError
    return time
