"""The alerts stage: messages of verdicts in, alerts and changes of state out.

The stage drops the messages that a restarted monitor sends again, by their marks. Its time is the least
watermark over all partitions, so it looks at no tick before every partition has passed it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import msgspec

from ...predict.detector import AlarmState, DetectorSettings
from ...schemas.chat.find import InputFlaw
from ...schemas.records.dead_letter import DeadLetter
from ...schemas.records.session_status import StatusChange
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.verdict import BREACHES
from ..alerts.alert import Alert, value
from ..alerts.counted_statuses import CAPTURE, CAPTURE_SEVERITY, rule_id
from ..alerts.rates import Tolerance
from ..alerts.session_counts import OTHER_AGENTS, RateKey
from ..alerts.watch import AlarmChange, Watch, WatchState, WatchWrites
from ..messages.codec import VerdictsMessage
from .result import StageResult

PROCESS = "alerts"
UNKNOWN_SEVERITY = "medium"
"""The severity of an alert where no status named the rule's."""
VERDICTS_NAMED = 5
"""Violations that an alert names."""
VERDICTS_REMEMBERED = 16
"""Violations of a rule that the state has, of all agents."""


class PartitionProgress(msgspec.Struct, frozen=True, array_like=True):
    """The progress in a partition: offset and index of the last mark, and the last watermark."""

    offset: int = -1
    index: int = -1
    watermark: int | None = None

    @property
    def mark(self) -> tuple[int, int]:
        """Return offset and index of the last mark."""
        return self.offset, self.index


class RecentVerdict(msgspec.Struct, frozen=True, array_like=True):
    """A violation that an alert may name: its agent as alerts have it, and its id."""

    agent: str
    id: str


@dataclass(frozen=True, slots=True)
class VerdictsRecord:
    """A record of the topic of verdicts: its time (ns since the epoch), and its content or its flaw."""

    partition: int
    offset: int
    time: int
    sha256: str
    content: VerdictsMessage | InputFlaw


@dataclass(frozen=True, slots=True)
class AlertsWrites:
    """The changes of a step: those of the watch, and values by key; None for an alert that is resolved."""

    watch: WatchWrites
    progress: dict[int, PartitionProgress]
    severities: dict[tuple[str, str], str]
    verdicts: dict[tuple[str, str], tuple[RecentVerdict, ...]]
    firing: dict[RateKey, Alert | None]


@dataclass(slots=True)
class AlertsState:
    """The state of the stage between two steps; only `apply` changes it.

    `progress` has every partition of the topic. `severities` are by pack and rule, and so are `verdicts`, the
    newest violations. `firing` are the alerts that fire.
    """

    progress: dict[int, PartitionProgress]
    watch: WatchState = field(default_factory=WatchState)
    severities: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    verdicts: dict[tuple[str, str], tuple[RecentVerdict, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[RecentVerdict, ...]]
    )
    firing: dict[RateKey, Alert] = field(default_factory=dict[RateKey, Alert])

    @property
    def watermark(self) -> int | None:
        """Return the least watermark of all partitions; None while a partition has none."""
        return _least(self.progress)

    @property
    def series(self) -> int:
        """Return how many pairs of rule and agent are watched."""
        return len(self.watch.detectors)

    def apply(self, writes: AlertsWrites) -> None:
        """Become what a step has made of this state; takes as long as there are changes."""
        self.watch.apply(writes.watch)
        self.progress |= writes.progress
        self.severities |= writes.severities
        self.verdicts |= writes.verdicts
        for key, alert in writes.firing.items():
            if alert is None:
                self.firing.pop(key, None)
            else:
                self.firing[key] = alert


@dataclass(slots=True)
class AlertsCounts:
    """The counts of a step.

    `repeated` has the offset of the last mark in each partition in which messages were dropped for theirs.
    """

    statuses: int = 0
    repeats: int = 0
    repeated: dict[int, int] = field(default_factory=dict[int, int])
    raised: int = 0
    resolved: int = 0
    dead_letters: list[str] = field(default_factory=list[str])


AlertsResult: TypeAlias = StageResult[Alert | DeadLetter, AlertsWrites, AlertsCounts]


class AlertStage:
    """The watch over the verdicts of all partitions. The same messages in turn give the same alerts.

    It holds its configuration only; `topic` is the name of the topic of verdicts, for dead letters.
    """

    def __init__(self, tolerance: Tolerance, settings: DetectorSettings, topic: str) -> None:
        self.tolerance, self.topic = tolerance, topic
        self._settings = settings

    def step(self, state: AlertsState, records: Iterable[VerdictsRecord]) -> AlertsResult:
        """Return the alerts that come of messages of verdicts, and what changes."""
        step = _AlertStep(state, Watch(self.tolerance, self._settings, state.watch))
        outputs: list[Alert | DeadLetter] = []
        for record in records:
            if isinstance(record.content, InputFlaw):
                outputs.append(self._dead_letter(record, record.content))
                step.counts.dead_letters.append(record.content.code)
            else:
                outputs += step.take(record.partition, record.content)
        return StageResult(tuple(outputs), step.writes(), step.counts)

    def _dead_letter(self, record: VerdictsRecord, flaw: InputFlaw) -> DeadLetter:
        at = PROCESS, self.topic, record.partition, record.offset, record.time
        return DeadLetter(*at, flaw.place, flaw.code, flaw.text, record.sha256)


class _AlertStep:
    """A step over a state that stays as it is."""

    def __init__(self, state: AlertsState, watch: Watch) -> None:
        self.counts = AlertsCounts()
        self._state, self._watch = state, watch
        self._progress = dict(state.progress)
        self._advanced: set[int] = set()
        self._severities: dict[tuple[str, str], str] = {}
        self._verdicts: dict[tuple[str, str], tuple[RecentVerdict, ...]] = {}
        self._firing: dict[RateKey, Alert | None] = {}

    def writes(self) -> AlertsWrites:
        """Return the changes."""
        progress = {number: self._progress[number] for number in sorted(self._advanced)}
        return AlertsWrites(self._watch.writes(), progress, self._severities, self._verdicts, self._firing)

    def take(self, partition: int, message: VerdictsMessage) -> list[Alert]:
        """Return the alerts that change with a message."""
        last = self._progress[partition]
        progress = PartitionProgress(message.mark.offset, message.mark.index, message.watermark)
        if progress.mark <= last.mark:
            self.counts.repeats += 1
            self.counts.repeated[partition] = last.offset
            return []
        for verdict in message.verdicts:
            if verdict.verdict in BREACHES and not verdict.history:
                self._remember(verdict)
        for status in message.statuses:
            self._count(status)
        if progress.watermark is None:
            progress = msgspec.structs.replace(progress, watermark=last.watermark)
        self._progress[partition] = progress
        self._advanced.add(partition)
        least = _least(self._progress)
        return [] if least is None else [self._alert(change) for change in self._watch.advance(least)]

    def _count(self, status: StatusChange) -> None:
        self.counts.statuses += 1
        if status.pack is not None and status.rule is not None and status.severity is not None:
            rule = (status.pack, status.rule)
            if self._severity(rule) != status.severity:
                self._severities[rule] = status.severity
        self._watch.add(status)

    def _remember(self, verdict: VerdictRecord) -> None:
        """Remember a violation as the newest one of its rule."""
        rule = (verdict.pack, verdict.rule)
        newest = RecentVerdict(value(verdict.agent), verdict.id)
        self._verdicts[rule] = (newest, *self._recent(rule))[:VERDICTS_REMEMBERED]

    def _recent(self, rule: tuple[str, str]) -> tuple[RecentVerdict, ...]:
        return self._verdicts.get(rule) or self._state.verdicts.get(rule, ())

    def _named(self, key: RateKey) -> tuple[str, ...]:
        """Return the ids that an alert of a rule and agent names."""
        recent = self._recent((key.pack, key.rule))
        if key.agent != OTHER_AGENTS:
            recent = tuple(each for each in recent if each.agent == value(key.agent))
        return tuple(each.id for each in recent[:VERDICTS_NAMED])

    def _severity(self, rule: tuple[str, str]) -> str | None:
        if rule == CAPTURE:
            return CAPTURE_SEVERITY
        rule = rule[0], rule_id(rule[1])
        return self._severities.get(rule) or self._state.severities.get(rule)

    def _alert(self, change: AlarmChange) -> Alert:
        """Return the alert of an alarm: it begins with its tick, and ends with that of its resolution."""
        key, alarm = change.key, change.alarm
        if alarm.state is AlarmState.FIRED:
            alert = Alert(
                pack=key.pack,
                rule=key.rule,
                severity=self._severity((key.pack, key.rule)) or UNKNOWN_SEVERITY,
                agent=value(key.agent),
                starts=change.begins,
                ends=None,
                tolerated=alarm.tolerated,
                observed=alarm.observed,
                violating=alarm.violating,
                applicable=alarm.applicable,
                verdicts=self._named(key),
            )
            self._firing[key] = alert
            self.counts.raised += 1
            return alert
        fired = self._firing.get(key) or self._state.firing[key]
        self._firing[key] = None
        self.counts.resolved += 1
        return replace(
            fired,
            ends=change.ends,
            observed=alarm.observed if alarm.applicable else fired.observed,
            violating=alarm.violating,
            applicable=alarm.applicable,
        )


def _least(progress: dict[int, PartitionProgress]) -> int | None:
    """Return the least watermark of all partitions; None while a partition has none."""
    known = [reached.watermark for reached in progress.values() if reached.watermark is not None]
    return min(known) if len(known) == len(progress) else None
