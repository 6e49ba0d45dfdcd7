"""The records of the alerts: messages of verdicts as values, and the state topic.

The state has the records of `alerts/watch_state.py`. Beside them `partition` and a number have the progress
in that partition, `alert` and a JSON array of pack, rule and agent the alert that fires, `severity` and an
array of pack and rule its severity, and `verdicts` and the same array its newest violations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from ...schemas.chat.find import InputFlaw
from ...schemas.records.dead_letter import DeadLetter
from ..alerts import alert as alerts
from ..alerts.session_counts import RateKey
from ..alerts.watch_state import read_watch, write_watch
from ..error import StreamError
from ..messages.codec import DAMAGED_CODE, Damaged, VerdictsMessage, decode_verdicts
from ..messages.record import Output, Record, dead_letter_output
from ..messages.topics import Topic
from ..stages.alert import (
    AlertsCounts,
    AlertsResult,
    AlertsState,
    AlertStage,
    AlertsWrites,
    PartitionProgress,
    RecentVerdict,
    VerdictsRecord,
)
from ..stages.result import StageResult
from .changed_topics import changed_counts

_PARTITION, _ALERT, _SEVERITY, _VERDICTS = "partition ", "alert ", "severity ", "verdicts "

EncodedAlertsResult: TypeAlias = StageResult[Output, AlertsWrites | None, AlertsCounts]
"""A result as records; the writes are None where no state changes."""


def read_verdicts(record: Record) -> VerdictsRecord:
    """Return a record of the topic of verdicts, with its flaw where it is no message.

    Raises StreamError (TRL731) for a message of another release.
    """
    content: VerdictsMessage | InputFlaw
    try:
        content = decode_verdicts(record.value)
    except Damaged as error:
        content = InputFlaw("record", DAMAGED_CODE, str(error))
    offset, digest = record.origin
    return VerdictsRecord(record.partition, offset, record.time, digest.hex(), content)


def new_state(partitions: int) -> AlertsState:
    """Return the state before the first message of a topic with so many partitions."""
    return AlertsState({number: PartitionProgress() for number in range(partitions)})


def read_state(records: Mapping[str, bytes], partitions: int, stage: AlertStage) -> AlertsState:
    """Return the state of all records of the state topic.

    Raises StreamError: TRL761, TRL764 where they are none of this release's; TRL763 where ticks had another
    length; TRL732 where there were more partitions.
    """
    state = new_state(partitions)
    watched: dict[str, bytes] = {}
    for name, data in records.items():
        if name.startswith(_PARTITION):
            number = _read(name.removeprefix(_PARTITION).encode(), int)
            if number not in state.progress:
                what = f"{stage.topic} had more partitions than its {partitions} when the state was written"
                raise changed_counts(what)
            state.progress[number] = _read(data, PartitionProgress)
        elif name.startswith(_ALERT):
            key = RateKey(*_read(name.removeprefix(_ALERT).encode(), tuple[str, str, str]))
            state.firing[key] = alerts.decode(data)
        elif name.startswith(_SEVERITY):
            rule = _read(name.removeprefix(_SEVERITY).encode(), tuple[str, str])
            state.severities[rule] = _read(data, str)
        elif name.startswith(_VERDICTS):
            rule = _read(name.removeprefix(_VERDICTS).encode(), tuple[str, str])
            state.verdicts[rule] = _read(data, tuple[RecentVerdict, ...])
        else:
            watched[name] = data
    state.watch = read_watch(watched, stage.tolerance.tick_s)
    return state


def encoded(state: AlertsState, result: AlertsResult) -> EncodedAlertsResult:
    """Return the result of a step over a state as records, those of the state first."""
    dead_letters = [output for output in result.outputs if isinstance(output, DeadLetter)]
    changed = [output for output in result.outputs if not isinstance(output, DeadLetter)]
    records = _state_records(state, result.writes)
    outputs = (
        *map(dead_letter_output, dead_letters),
        *(Output(Topic.ALERTS_STATE, 0, name, data) for name, data in records.items()),
        *(Output(Topic.ALERTS, 0, alert.id, alerts.encode(alert)) for alert in changed),
    )
    return StageResult(outputs, result.writes, result.metrics)


def _state_records(state: AlertsState, writes: AlertsWrites) -> dict[str, bytes | None]:
    """Return the records that bring the state topic up to date, by name; None deletes a record."""
    encode = msgspec.json.encode
    records: dict[str, bytes | None] = {}
    for number, progress in writes.progress.items():
        records[f"{_PARTITION}{number}"] = encode(progress)
    for rule, severity in writes.severities.items():
        records[_SEVERITY + encode(rule).decode()] = encode(severity)
    for rule, verdicts in writes.verdicts.items():
        records[_VERDICTS + encode(rule).decode()] = encode(verdicts)
    for key, alert in writes.firing.items():
        records[_ALERT + encode(key).decode()] = None if alert is None else alerts.encode(alert)
    return records | write_watch(state.watch, writes.watch)


def _read(data: bytes, type_: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.MsgspecError:
        hint = "run the release that wrote it, or let the alerts begin with an empty state"
        raise StreamError("TRL761", "a record of the alerts' state is damaged", hint) from None
