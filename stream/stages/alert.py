"""The alerts stage: messages of verdicts in, alerts and state out.

The stage drops the messages that a restarted monitor sends again, by their marks. Its time is the least
watermark over all partitions, so it looks at no tick before every partition has passed it. Its state has the
records of `Watch`; beside them `partition` and a number have the progress in that partition, `alert` and a
JSON array of pack, rule and agent the alert that fires, `severity` and an array of pack and rule its
severity.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ...predict.detector import AlarmState, DetectorSettings
from ...schemas.time import parse_time
from ..alerts import alert as alerts
from ..alerts.alert import Alert
from ..alerts.rates import Tolerance
from ..alerts.sessions import RateKey, read_statuses
from ..alerts.watch import AlarmChange, Watch
from ..error import StreamError
from ..messages.codec import Damaged, DeadLetter, decode_verdicts, encode_dead_letter
from ..messages.record import Output, Record
from ..messages.status import StatusChange
from ..messages.topics import Topic

PROCESS = "alerts"
CODE = "TRL731"
"""The code of dead letters: a record that is no message of verdicts."""
UNKNOWN_SEVERITY = "medium"
"""The severity of an alert where no status said the rule's."""

_PARTITION, _ALERT, _SEVERITY = "partition ", "alert ", "severity "


class PartitionProgress(msgspec.Struct, frozen=True, array_like=True):
    """The progress in a partition: offset and index of the last mark, and the last watermark."""

    offset: int = -1
    index: int = -1
    watermark: int | None = None


@dataclass(slots=True)
class AlertsResult:
    """The result of a step: records to write, the alerts that began or ended, counts for metrics.

    `repeated` has the offset of the last mark in each partition in which messages were dropped for theirs.
    """

    outputs: list[Output] = field(default_factory=list[Output])
    alerts: list[Alert] = field(default_factory=list[Alert])
    statuses: int = 0
    repeats: int = 0
    repeated: dict[int, int] = field(default_factory=dict[int, int])
    dead_letters: list[str] = field(default_factory=list[str])


class Alerting:
    """The watch over the verdicts of all partitions. The same messages in turn give the same alerts."""

    def __init__(self, tolerance: Tolerance, settings: DetectorSettings, partitions: int, topic: str) -> None:
        """`topic` is the name of the topic of verdicts, for dead letters."""
        self._watch = Watch(tolerance, settings)
        self._topic = topic
        self._progress = {number: PartitionProgress() for number in range(partitions)}
        self._severities: dict[tuple[str, str], str] = {}
        self._changed: dict[str, bytes | None] = {}
        self._result = AlertsResult()
        self.firing: dict[RateKey, Alert] = {}

    @property
    def watermark(self) -> int | None:
        """Return the least watermark of all partitions; None while a partition has none."""
        known = [one.watermark for one in self._progress.values() if one.watermark is not None]
        return min(known) if len(known) == len(self._progress) else None

    @property
    def series(self) -> int:
        """Return how many pairs of rule and agent are watched."""
        return len(self._watch.detectors)

    def restore(self, records: Mapping[str, bytes]) -> None:
        """Go on from all the records that an earlier process wrote, before the first step.

        Raises StreamError: TRL761, TRL764 where they are none of this release's; TRL763 where ticks had
        another length; TRL732 where there were more partitions.
        """
        rest: dict[str, bytes] = {}
        for name, data in records.items():
            if name.startswith(_PARTITION):
                self._progress[self._number(name)] = _read(data, PartitionProgress)
            elif name.startswith(_ALERT):
                key = RateKey(*_read(name.removeprefix(_ALERT).encode(), tuple[str, str, str]))
                self.firing[key] = alerts.decode(data)
            elif name.startswith(_SEVERITY):
                rule = _read(name.removeprefix(_SEVERITY).encode(), tuple[str, str])
                self._severities[rule] = _read(data, str)
            else:
                rest[name] = data
        self._watch.restore(rest)

    def step(self, records: Iterable[Record]) -> AlertsResult:
        """Return the alerts that come of messages of verdicts, and the state behind them.

        Raises StreamError (TRL731) for a message of another release.
        """
        for record in records:
            self._take(record)
        result, self._result = self._result, AlertsResult()
        changed, self._changed = {**self._changed, **self._watch.changes()}, {}
        result.outputs += [Output(Topic.ALERTS_STATE, 0, name, data) for name, data in changed.items()]
        result.outputs += [Output(Topic.ALERTS, 0, one.id, alerts.encode(one)) for one in result.alerts]
        return result

    def _take(self, record: Record) -> None:
        """Take a message of verdicts in."""
        try:
            message = decode_verdicts(record.value)
            changes = list(read_statuses(message))
            watermark = _time(message["watermark"])
            progress = msgspec.convert((message["offset"], message["index"], watermark), PartitionProgress)
        except (Damaged, KeyError, TypeError, ValueError) as error:
            self._refuse(record, error)
            return
        last = self._progress[record.partition]
        if (progress.offset, progress.index) <= (last.offset, last.index):
            self._result.repeats += 1
            self._result.repeated[record.partition] = last.offset
            return
        for status in changes:
            self._count(status)
        if watermark is None:
            progress = PartitionProgress(progress.offset, progress.index, last.watermark)
        self._progress[record.partition] = progress
        self._changed[f"{_PARTITION}{record.partition}"] = msgspec.json.encode(progress)
        if (least := self.watermark) is not None:
            for change in self._watch.advance(least):
                self._alert(change)

    def _refuse(self, record: Record, error: Exception) -> None:
        # The text of other errors may quote what was read.
        reason = str(error) if isinstance(error, Damaged) else "a message of verdicts that lacks something"
        refused = dead_letter(record, self._topic, CODE, reason)
        self._result.outputs += refused.outputs
        self._result.dead_letters += refused.dead_letters

    def _count(self, status: StatusChange) -> None:
        self._result.statuses += 1
        if status.pack is not None and status.rule is not None and status.severity is not None:
            rule = (status.pack, status.rule)
            if self._severities.get(rule) != status.severity:
                self._severities[rule] = status.severity
                name = _SEVERITY + msgspec.json.encode(rule).decode()
                self._changed[name] = msgspec.json.encode(status.severity)
        self._watch.add(status)

    def _alert(self, change: AlarmChange) -> None:
        """An alarm becomes an alert: it begins with its tick, and ends with that of its resolution."""
        key, alarm = change.key, change.alarm
        name = _ALERT + msgspec.json.encode(key).decode()
        if alarm.state is AlarmState.FIRED:
            alert = Alert(
                pack=key.pack,
                rule=key.rule,
                severity=self._severities.get((key.pack, key.rule), UNKNOWN_SEVERITY),
                agent=alerts.value(key.agent),
                starts=change.begins,
                ends=None,
                tolerated=alarm.tolerated,
                observed=alarm.observed,
                violating=alarm.violating,
                applicable=alarm.applicable,
            )
            self.firing[key] = alert
            self._changed[name] = alerts.encode(alert)
        else:
            began = self.firing.pop(key)
            observed = alarm.observed if alarm.applicable else began.observed
            alert = replace(
                began,
                ends=change.ends,
                observed=observed,
                violating=alarm.violating,
                applicable=alarm.applicable,
            )
            self._changed[name] = None
        self._result.alerts.append(alert)

    def _number(self, name: str) -> int:
        number = _read(name.removeprefix(_PARTITION).encode(), int)
        if number not in self._progress:
            what = (
                f"{self._topic} had more partitions than its {len(self._progress)} when the state was written"
            )
            hint = "sessions would change their partition: begin with new topics and a new state"
            raise StreamError("TRL732", what, hint)
        return number


def dead_letter(record: Record, topic: str, code: str, reason: str) -> AlertsResult:
    """Return the dead letter of a record of a topic: its place and digest, and nothing of what it holds."""
    digest = hashlib.sha256(record.value).hexdigest()
    letter = DeadLetter(
        PROCESS, topic, record.partition, record.offset, record.time, "record", code, reason, digest
    )
    output = Output(Topic.DEAD_LETTER, None, None, encode_dead_letter(letter))
    return AlertsResult(outputs=[output], dead_letters=[code])


def _time(text: object) -> int | None:
    """A watermark of JSON; null is none."""
    if text is None:
        return None
    time = parse_time(text)
    if time is None:
        raise ValueError
    return time


def _read(data: bytes, type_: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.MsgspecError:
        hint = "run the release that wrote it, or let the alerts begin with an empty state"
        raise StreamError("TRL761", "a record of the alerts' state is damaged", hint) from None
