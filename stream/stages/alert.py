"""The alerts process without its broker: messages of verdicts in, alerts and state out.

What a restart of the monitor makes again has the mark of what was seen, and is dropped. Time is the least
watermark over all partitions, so no tick is looked at before every partition has told of it. What there is
to remember are the records of `Watch`, and beside them under `partition` and its number how far each
partition was heard, under `alert` and a JSON array of pack, rule and agent the alert that fires, under
`severity` and an array of pack and rule the rule's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
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
from ..messages.status import StatusChange
from ..messages.topics import Topic
from .rekey import Output, Record

PROCESS = "alerts"
CODE = "TRL731"
"""The code of dead letters: a record that is no message of verdicts."""
UNKNOWN_SEVERITY = "medium"
"""The severity of an alert where no status said the rule's."""

_PARTITION, _ALERT, _SEVERITY = "partition ", "alert ", "severity "


class Heard(msgspec.Struct, frozen=True, array_like=True):
    """How far a partition was heard: the last mark's offset and index, and the watermark that it told."""

    offset: int = -1
    index: int = -1
    watermark: int | None = None


@dataclass(slots=True)
class AlertsResult:
    """What came of some messages: records to write, the alerts that began or ended, counts for metrics.

    Of the partitions in which messages were dropped for their mark `repeated` has the last one's offset.
    """

    outputs: list[Output] = field(default_factory=list[Output])
    alerts: list[Alert] = field(default_factory=list[Alert])
    statuses: int = 0
    repeats: int = 0
    repeated: dict[int, int] = field(default_factory=dict[int, int])
    dead_letters: list[str] = field(default_factory=list[str])


class Alerting:
    """Watches the verdicts of all partitions. The same messages in turn give the same alerts."""

    def __init__(self, tolerance: Tolerance, settings: DetectorSettings, partitions: int, topic: str) -> None:
        """`topic` is the name of the one that is read, for dead letters."""
        self._watch = Watch(tolerance, settings)
        self._topic = topic
        self._heard = {number: Heard() for number in range(partitions)}
        self._severities: dict[tuple[str, str], str] = {}
        self._changed: dict[str, bytes | None] = {}
        self._turned = AlertsResult()
        self.firing: dict[RateKey, Alert] = {}

    @property
    def watermark(self) -> int | None:
        """The least over all partitions; None where one has told none yet."""
        told = [heard.watermark for heard in self._heard.values()]
        known = [one for one in told if one is not None]
        return min(known) if len(known) == len(told) else None

    @property
    def has_dead_letters(self) -> bool:
        """Return whether a dead letter waits for the next turn."""
        return bool(self._turned.dead_letters)

    @property
    def series(self) -> int:
        """Return how many pairs of rule and agent are watched."""
        return len(self._watch.detectors)

    def restore(self, records: Mapping[str, bytes]) -> None:
        """Stand where the process stood that wrote these records, all of them; nothing was heard yet.

        Raises StreamError: TRL761, TRL764 where they are none of this release's; TRL763 where ticks had
        another length; TRL732 where there were more partitions.
        """
        rest: dict[str, bytes] = {}
        for name, data in records.items():
            if name.startswith(_PARTITION):
                self._heard[self._number(name)] = _read(data, Heard)
            elif name.startswith(_ALERT):
                key = RateKey(*_read(name.removeprefix(_ALERT).encode(), tuple[str, str, str]))
                self.firing[key] = alerts.decode(data)
            elif name.startswith(_SEVERITY):
                rule = _read(name.removeprefix(_SEVERITY).encode(), tuple[str, str])
                self._severities[rule] = _read(data, str)
            else:
                rest[name] = data
        self._watch.restore(rest)

    def take(self, record: Record) -> None:
        """Take a message of verdicts in; what comes of it is given by the next `turn`.

        Raises StreamError (TRL731) for a message of another release.
        """
        try:
            message = decode_verdicts(record.value)
            told = list(read_statuses(message))
            watermark = _time(message["watermark"])
            heard = msgspec.convert((message["offset"], message["index"], watermark), Heard)
        except (Damaged, KeyError, TypeError, ValueError) as error:
            self._bury(record, error)
            return
        last = self._heard[record.partition]
        if (heard.offset, heard.index) <= (last.offset, last.index):
            self._turned.repeats += 1
            self._turned.repeated[record.partition] = last.offset
            return
        for status in told:
            self._hear(status)
        if watermark is None:
            heard = Heard(heard.offset, heard.index, last.watermark)
        self._heard[record.partition] = heard
        self._changed[f"{_PARTITION}{record.partition}"] = msgspec.json.encode(heard)
        if (least := self.watermark) is not None:
            for change in self._watch.advance(least):
                self._alert(change)

    def turn(self) -> AlertsResult:
        """Return what came of the messages since the last call: alerts, and the state behind them."""
        turned, self._turned = self._turned, AlertsResult()
        changed, self._changed = {**self._changed, **self._watch.changes()}, {}
        turned.outputs += [Output(Topic.ALERTS_STATE, 0, name, data) for name, data in changed.items()]
        turned.outputs += [Output(Topic.ALERTS, 0, one.id, alerts.encode(one)) for one in turned.alerts]
        return turned

    def letter(self, record: Record, topic: str, code: str, reason: str) -> None:
        """Put a record aside with the next turn: where it stands, and nothing of what it holds."""
        digest = hashlib.sha256(record.value).hexdigest()
        letter = DeadLetter(
            PROCESS, topic, record.partition, record.offset, record.time, "record", code, reason, digest
        )
        self._turned.outputs.append(Output(Topic.DEAD_LETTER, None, None, encode_dead_letter(letter)))
        self._turned.dead_letters.append(code)

    def _bury(self, record: Record, error: Exception) -> None:
        # The text of other errors may quote what was read.
        reason = str(error) if isinstance(error, Damaged) else "a message of verdicts that lacks something"
        self.letter(record, self._topic, CODE, reason)

    def _hear(self, status: StatusChange) -> None:
        self._turned.statuses += 1
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
        self._turned.alerts.append(alert)

    def _number(self, name: str) -> int:
        number = _read(name.removeprefix(_PARTITION).encode(), int)
        if number not in self._heard:
            what = f"{self._topic} had more partitions than its {len(self._heard)} when the state was written"
            hint = "sessions would change their partition: begin with new topics and a new state"
            raise StreamError("TRL732", what, hint)
        return number


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
