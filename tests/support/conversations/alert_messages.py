"""Messages of verdicts over some hours: one agent that is calm, one that goes wrong for a while and recovers.

Which sessions violate is drawn here from a seed, so what must be alerted is known from how they were made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tracline.predict.detector import DetectorSettings
from tracline.schemas.records.session_status import SessionStatus, StatusChange
from tracline.schemas.records.verdict_record import VerdictRecord
from tracline.schemas.time import NS, rfc3339
from tracline.schemas.verdict import Severity, Verdict
from tracline.stream.alerts.alert import Alert, AlertStatus
from tracline.stream.alerts.rates import Tolerance, default_rates, tolerance
from tracline.stream.messages.codec import Mark, VerdictsMessage, verdict_messages
from tracline.stream.messages.record import Record

PARTITIONS = 3
BEGAN = 1_771_329_600 * NS
TICK_S = 60
TICKS = 60
SPIKE = range(25, 35)
"""The ticks in which half of the sessions of the agent that goes wrong violate."""
SESSIONS = 10
"""Sessions of an agent in a tick, each in a partition of its own drawing."""
SETTINGS = DetectorSettings(arl_ticks=1_000)
WRONG, CALM = "support", "sales"
LIMIT_BYTES = 2_000
"""Low, so that messages are divided."""


@dataclass(frozen=True)
class Sent:
    """A message: the partition it is in, and its bytes."""

    partition: int
    value: bytes


def tolerated() -> Tolerance:
    """Rates without history; a session is over two ticks after it began."""
    return tolerance(default_rates(TICK_S, TICK_S))


def messages(seed: int = 1, *, at_risk: bool = False) -> list[Sent]:
    """The messages in the order in which they are sent; each partition gets every tick's end.

    With `at_risk` sessions are at risk of violating in place of violating.
    """
    random = Random(seed)
    offsets = [0] * PARTITIONS
    sent: list[Sent] = []
    for tick in range(TICKS):
        by_partition: dict[int, list[StatusChange]] = {number: [] for number in range(PARTITIONS)}
        for agent in (WRONG, CALM):
            for number in range(SESSIONS):
                rate = 0.5 if agent == WRONG and tick in SPIKE else 0.002
                session = f"{agent}-{tick}-{number}"
                by_partition[random.randrange(PARTITIONS)] += _session(
                    session, agent, tick, random.random() < rate, at_risk
                )
        for partition, statuses in by_partition.items():
            watermark = BEGAN + (tick + 1) * TICK_S * NS
            mark = Mark(partition, offsets[partition], 0)
            verdicts = [_verdict(status) for status in statuses if status.status is SessionStatus.VIOLATED]
            data = verdict_messages(VerdictsMessage(mark, watermark, verdicts, statuses), LIMIT_BYTES)
            sent += [Sent(partition, value) for value in data]
            offsets[partition] += 1 + random.randrange(3)
    return sent


def _session(
    session: str, agent: str, tick: int, is_violating: bool, at_risk: bool
) -> Iterator[StatusChange]:
    """All statuses of a session: it begins and ends in one tick."""
    time = BEGAN + tick * TICK_S * NS + NS
    about: dict[str, Any] = {"session_id": session, "occurrence": time, "agent": agent}
    rule = {"pack": "desk", "rule": "auth-first", "rule_digest": "0" * 64, "severity": "high"}
    yield StatusChange(SessionStatus.APPLIED, **about, **rule, time=time, is_followed=at_risk)
    if is_violating:
        status = SessionStatus.AT_RISK if at_risk else SessionStatus.VIOLATED
        yield StatusChange(status, **about, **rule, time=time + NS, is_followed=at_risk)
    none = dict.fromkeys(rule)
    yield StatusChange(SessionStatus.CLOSED, **about, **none, time=time + 2 * NS)


def _verdict(status: StatusChange) -> VerdictRecord:
    """Return the record of the verdict behind a violation."""
    assert status.pack is not None
    assert status.rule is not None
    return VerdictRecord(
        agent=status.agent,
        event_id="0" * 64,
        history=False,
        id=hashlib.sha256(status.session_id.encode()).hexdigest(),
        late=False,
        occurrence=rfc3339(status.occurrence),
        pack=status.pack,
        rule=status.rule,
        rule_digest="0" * 64,
        seq=2,
        session_id=status.session_id,
        severity=Severity.HIGH,
        slice=None,
        time=rfc3339(status.time),
        verdict=Verdict.VIOLATED,
    )


def records(sent: list[Sent]) -> list[Record]:
    """The messages as they are read, with offsets of their topic."""
    offsets = [0] * PARTITIONS
    read: list[Record] = []
    for message in sent:
        read.append(Record(message.partition, offsets[message.partition], BEGAN, message.value))
        offsets[message.partition] += 1
    return read


def check_one_alert(alerts: list[Alert]) -> None:
    """Check for one alert, of the agent that violates, in the spike and a little longer."""
    assert [alert.status for alert in alerts] == [AlertStatus.FIRING, AlertStatus.RESOLVED]
    assert len({alert.id for alert in alerts}) == 1
    fired, resolved = alerts
    first, last = (BEGAN + tick * TICK_S * NS for tick in (SPIKE.start, SPIKE.stop))
    assert (fired.agent, fired.rule, fired.severity) == (WRONG, "auth-first", "high")
    assert first <= fired.starts < first + 5 * TICK_S * NS
    assert resolved.ends is not None
    assert last < resolved.ends < last + 20 * TICK_S * NS
