"""The times at which sessions are due, and the monitor's state: facts and schedule of each events partition.

The state is an index of the table. The process applies to it the writes that the table has, at a start all of
them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from ...archive.chunk import RuleTexts
from ...predict.drift.detectors import Detectors, RuleDrift, by_rule
from ...schemas.time import NS
from ..messages.codec import Activation, CandidateBatch, EventsMessage, partition_of
from ..messages.drift_state import DriftState, decode_drift, drift_chunk_keys
from ..messages.monitor_state import (
    CHUNK,
    DRIFT,
    PAGE,
    PARTITION,
    SESSION,
    PartitionState,
    decode_fixed_head,
    decode_head,
    decode_partition,
    drift_key,
    key_of,
    keys_of_session,
)

STEP_NS = NS // 2
"""The smallest step of a partition's watermark: judging one event takes almost as long as a hundred."""

PASSED_MAX = 10_000
"""Replaced entries of the heap, in addition to as many as there are sessions."""

Write: TypeAlias = tuple[str, bytes | None]
"""A key of the table with its new value; None deletes the key."""


class RulesInForce(NamedTuple):
    """The packs of a rule set that comes into force, and the digest of the chain that follows them."""

    texts: RuleTexts
    chain: str | None = None


class Table(Protocol):
    """A view of the table that the process owns: the records by key."""

    def get(self, key: str) -> bytes | None:
        """Return the record under a key."""
        ...


@dataclass(slots=True)
class Schedule:
    """The watermark at which each session is due; `heap` may have replaced entries, too."""

    due: dict[str, int] = field(default_factory=dict[str, int])
    heap: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def plan(self, session_id: str, due: int | None) -> None:
        """Note when a session is due; None forgets it."""
        if due is None:
            self.due.pop(session_id, None)
        elif self.due.get(session_id) != due:
            self.due[session_id] = due
            heapq.heappush(self.heap, (due, session_id))
        if len(self.heap) > 2 * len(self.due) + PASSED_MAX:
            # A session that continues is due later each time; its replaced entries would stay until then.
            self.heap = [(due, session_id) for session_id, due in self.due.items()]
            heapq.heapify(self.heap)

    def due_at(self, watermark: int) -> Iterator[str]:
        """Yield the sessions that are due at the watermark."""
        places = [0]
        while places:
            place = places.pop()
            if place < len(self.heap) and self.heap[place][0] <= watermark:
                due, session_id = self.heap[place]
                if self.due.get(session_id) == due:
                    yield session_id
                places += (2 * place + 1, 2 * place + 2)

    def trim(self) -> None:
        """Drop the replaced entries at the front."""
        while self.heap and self.due.get(self.heap[0][1]) != self.heap[0][0]:
            heapq.heappop(self.heap)


@dataclass(slots=True)
class Partition:
    """An events partition: its facts, and the schedule of its sessions.

    `ahead` has the sessions whose record is of a message behind `facts.offset`: the process before this one
    died while it wrote, and such a session rests until the message at that offset is stepped again. `lost`
    are keys of chunks and pages that no session's record names. `resumed` is the rule set that an earlier
    release had in force; the next message activates it again where `facts.active` is None. `drift` has the
    detectors of the chains that follow its sessions.
    """

    facts: PartitionState = field(default_factory=PartitionState)
    schedule: Schedule = field(default_factory=Schedule)
    ahead: dict[str, int] = field(default_factory=dict[str, int])
    lost: set[str] = field(default_factory=set[str])
    resumed: RulesInForce | None = None
    drift: DriftState = field(default_factory=DriftState)
    _detectors: tuple[DriftState, Detectors] | None = field(default=None, init=False, compare=False)
    """Those of `drift` after all its bets, once they were asked for."""

    @property
    def detectors(self) -> Detectors:
        """Return the detectors after all bets."""
        if self._detectors is None or self._detectors[0] is not self.drift:
            self._detectors = self.drift, self.drift.at(self.drift.offset)
        return self._detectors[1]

    def due_at(self, watermark: int, offset: int) -> Iterator[str]:
        """Yield the sessions that are due at the watermark of the message at that offset."""
        due = self.schedule.due_at(watermark)
        return (session_id for session_id in due if self.ahead.get(session_id, offset) <= offset)

    def advance(self, facts: PartitionState) -> None:
        """Take over new facts, and drop what they have passed."""
        self.facts = facts
        self.ahead = {name: offset for name, offset in self.ahead.items() if offset > facts.offset}
        self.schedule.trim()


@dataclass(slots=True)
class MonitorState:
    """The state of the monitor: the table, and the partitions that this process is assigned."""

    table: Table
    partitions: dict[int, Partition] = field(default_factory=dict[int, Partition])

    def restore(self, partitions: Iterable[int], items: Iterable[Write], count: int) -> None:
        """Add these of `count` partitions; `items` are what the table has of them, and perhaps of others.

        Raises StreamError (TRL741) where another release wrote it, or it is damaged.
        """
        new = {number: Partition() for number in partitions}
        counted: set[str] = set()
        for text, value in items:
            key = key_of(text)
            if value is None:
                continue
            if key.kind == SESSION:
                number = partition_of(key.name, count)
                if number in new:
                    head = decode_head(value)
                    new[number].schedule.plan(key.name, head.due)
                    new[number].ahead[key.name] = head.offset
                    counted.update(keys_of_session(number, key.name, head))
            elif key.kind == PARTITION and key.partition in new:
                new[key.partition].facts = decode_partition(value)
            elif key.kind == DRIFT and text == drift_key(key.partition) and key.partition in new:
                new[key.partition].drift = self._drift_in(key.partition, value)
                counted.update(drift_chunk_keys(key.partition, value))
            elif key.kind in (CHUNK, PAGE, DRIFT) and key.partition in new:
                new[key.partition].lost.add(text)
        for partition in new.values():
            partition.lost -= counted
            partition.advance(partition.facts)
        self.partitions.update(new)

    def revoke(self, partitions: Iterable[int]) -> None:
        """Drop partitions that another process is assigned."""
        for number in partitions:
            self.partitions.pop(number, None)

    def apply(self, writes: Mapping[int, Iterable[Write]]) -> None:
        """Follow writes, by partition, that the table has."""
        for number, its_writes in writes.items():
            partition = self.partitions[number]
            for text, value in its_writes:
                key = key_of(text)
                if key.kind == SESSION:
                    partition.schedule.plan(key.name, None if value is None else decode_fixed_head(value).due)
                elif text == drift_key(number) and value is not None:
                    partition.drift = self._drift_in(number, value)
                elif key.kind in (CHUNK, PAGE, DRIFT):
                    partition.lost.discard(text)
                elif key.kind == PARTITION and value is not None:
                    partition.advance(decode_partition(value))

    def _drift_in(self, number: int, record: bytes) -> DriftState:
        """Return the detectors of a partition, whose record that is."""
        return decode_drift(record, map(self.table.get, drift_chunk_keys(number, record)))

    @property
    def open_sessions(self) -> int:
        """Return the number of sessions that have a state."""
        return sum(len(partition.schedule.due) for partition in self.partitions.values())

    @property
    def drift(self) -> dict[tuple[str, str], RuleDrift]:
        """Return the drift of the rules that chains follow, by pack and id."""
        return by_rule(each.detectors for each in self.partitions.values())

    @property
    def offsets(self) -> dict[int, int]:
        """Return the offset of the last finished message of each partition, -1 before there is one."""
        return {number: partition.facts.offset for number, partition in self.partitions.items()}

    @property
    def topic_ids(self) -> set[str]:
        """Return the ids of the topics of events that the state names."""
        return {partition.facts.topic_id for partition in self.partitions.values()} - {""}

    @property
    def watermarks(self) -> dict[int, int | None]:
        """Return the watermark of each partition."""
        return {number: partition.facts.watermark for number, partition in self.partitions.items()}


def advanced(facts: PartitionState, message: EventsMessage, offset: int) -> PartitionState:
    """Return the facts after a message; the watermark is the least over all sources and never falls.

    It advances by steps, so that the candidates of many small messages are judged together.
    """
    if isinstance(message, Activation):
        return msgspec.structs.replace(facts, offset=offset)
    reported = (
        {message.source: message.watermark} if isinstance(message, CandidateBatch) else message.watermarks
    )
    unfinished = dict(facts.unfinished)
    if isinstance(message, CandidateBatch):
        unfinished.pop(message.source, None)
        if message.more and message.candidates:
            unfinished[message.source] = message.candidates[0].session_id
    watermarks = dict(facts.watermarks)
    for source, watermark in reported.items():
        watermarks[source] = max(watermark, watermarks.get(source, watermark))
    least = min(watermarks.values(), default=None) if len(watermarks) >= message.sources else None
    known = facts.watermark
    if least is not None and (known is None or least >= known + STEP_NS):
        known = least
    return PartitionState(offset, message.sources, watermarks, known, facts.active, unfinished)
