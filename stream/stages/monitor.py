"""The stage of the monitor: messages of `tracline.events` in; outputs, and the writes of the table, out.

A step takes messages of several partitions and judges them together. Its outputs are those of steps with one
message each: an output names its message (`codec.Mark`), and depends on nothing that comes after that
message. So outputs that a crash repeats are the same, however the messages are divided into steps.

The process makes all outputs durable before the first write. A session's record holds the offset of the last
message that changed it; the partition's record follows those of its sessions, and deletions are last. After a
crash between two writes the messages of the step come again. A session whose record holds a later offset
rests until then, the others give the same outputs again, and a consumer drops these by their marks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from ...predict.following.loaded_chains import LoadedChains
from ...schemas.attempt import Broken, attempt
from ...schemas.records.dead_letter import DeadLetter
from ...schemas.time import NS
from ..error import PROCESS_ERRORS
from ..messages.codec import (
    Activation,
    JudgedBatch,
    Mark,
    VerdictsMessage,
    judged_messages,
    verdict_messages,
)
from ..messages.monitor_state import rules_key
from ..messages.record import Output, Record, dead_letter_output
from ..messages.risk_messages import risk_messages
from ..messages.topics import Topic
from .judge import Outputs
from .monitor_step import MonitorOptions, MonitorStep, StepMessage
from .result import StageResult
from .rule_set_judge import chain_part
from .rule_sets import RuleSets
from .schedule import MonitorState, Write
from .session_cache import SessionCache
from .unread import UnreadCandidates

MessagePlace: TypeAlias = tuple[int, int]
"""The partition and the offset of a message."""
Writes: TypeAlias = Mapping[int, Sequence[Write]]
"""The writes of a step in their order, by partition."""


@dataclass(frozen=True, slots=True)
class JudgedMessage:
    """A message of a step: what it led to, the codes of its dead letters, and the watermark after it.

    `is_repeat` where the state had the message before the step.
    """

    record: Record
    judged: Outputs
    dead_letters: tuple[str, ...]
    watermark: int | None
    is_repeat: bool


@dataclass(frozen=True, slots=True)
class MonitorCounts:
    """The messages of a step, and the packs and ids of the rules that it judged by or activated.

    `activated` is true where rules came into force.
    """

    messages: tuple[JudgedMessage, ...]
    rules: frozenset[tuple[str, str]]
    activated: bool = False


MonitorResult: TypeAlias = StageResult[Output, Writes, MonitorCounts]


class MonitorStage:
    """The stage: a function of its arguments. It caches compiled rule sets and decoded sessions."""

    def __init__(self, options: MonitorOptions, chains: LoadedChains | None = None) -> None:
        self._options = options
        self._rule_sets = RuleSets(satisfied=options.satisfied, chains=chains)
        self._sessions = SessionCache(round(options.sessions.idle_s * NS))
        self._unread = UnreadCandidates()

    def restore(self, state: MonitorState, partitions: Iterable[int], items: Iterable[Write]) -> None:
        """Add partitions to the state; `items` are what the table has of them, and perhaps of others.

        Raises StreamError (TRL741) where another release wrote it, or it is damaged.
        """
        numbers = list(partitions)
        state.restore(numbers, items, self._options.partitions)
        for number in numbers:
            self._rule_sets.resume(state, number)

    def rules_in_force(self, state: MonitorState) -> frozenset[tuple[str, str]]:
        """Return the packs and ids of the rules in force in any partition."""
        active = {partition.facts.active for partition in state.partitions.values()}
        return frozenset[tuple[str, str]]().union(
            *(self._rule_sets.find(key, state).rules for key in active if key is not None)
        )

    def lacking(self, state: MonitorState) -> frozenset[str]:
        """Return the digests of the chains that rules in force name and this process lacks."""
        return self._rule_sets.lacking(state)

    def under_other_rules(self, state: MonitorState) -> list[int]:
        """Return the partitions whose rules in force are others than the options', or without their chain."""
        rules, chain = self._options.rules, self._options.chain
        if rules is None:
            return []
        texts = msgspec.json.encode(rules)
        active = {number: partition.facts.active for number, partition in state.partitions.items()}
        return [
            number
            for number, key in active.items()
            if key is not None
            and (
                state.table.get(rules_key(number, key)) != texts
                or (chain is not None and chain_part(key) != chain)
            )
        ]

    def step(
        self,
        state: MonitorState,
        records: Sequence[Record],
        superseding: Mapping[MessagePlace, Activation] | None = None,
    ) -> MonitorResult:
        """Judge messages; for activations, `superseding` may have those that come into force instead.

        Raises StreamError where this release cannot continue.
        """
        rules = superseding or {}
        result = attempt(lambda: self._step(state, records, rules, is_separate=False), PROCESS_ERRORS)
        if isinstance(result, Broken):
            # A session that cannot be judged must not stop the others.
            return self._step(state, records, rules, is_separate=True)
        return result

    def _step(
        self,
        state: MonitorState,
        records: Sequence[Record],
        superseding: Mapping[MessagePlace, Activation],
        *,
        is_separate: bool,
    ) -> MonitorResult:
        step = MonitorStep(
            self._options, state, self._rule_sets, self._sessions, self._unread, is_separate=is_separate
        )
        step.add(records, superseding)
        messages = step.finish()
        outputs = [output for message in messages for output in self._outputs(message)]
        is_activated = any(message.activated for message in messages)
        counts = MonitorCounts(tuple(map(_counted, messages)), step.rules, is_activated)
        return StageResult(tuple(outputs), step.writes(), counts)

    def _outputs(self, message: StepMessage) -> Iterator[Output]:
        """Yield the dead letters of a message, and the messages of judged events and of verdicts.

        At a tick these have at least the watermark.
        """
        record, judged, watermark = message.record, message.judged, message.watermark
        yield from _dead_letters(self._options.events_topic, record, message.flaws)
        for dead_letter in message.span_dead_letters:
            yield dead_letter_output(dead_letter)
        if message.is_skipped:
            return
        bytes_max, mark = self._options.bytes_max, Mark(record.partition, record.offset, 0)
        if judged.events or message.activated or message.is_tick:
            digests = list(dict.fromkeys(judged.digests))
            numbers = {digest: number for number, digest in enumerate(digests)}
            sets = [numbers[digest] for digest in judged.digests]
            batch = JudgedBatch(mark, watermark, judged.events, digests, sets, message.activated)
            for data in judged_messages(batch.with_chains(judged.chains), bytes_max):
                yield Output(Topic.JUDGED, record.partition, None, data)
        if judged.records or judged.statuses or message.is_tick:
            verdicts = VerdictsMessage(mark, watermark, judged.records, judged.statuses)
            for data in verdict_messages(verdicts, bytes_max):
                yield Output(Topic.VERDICTS, record.partition, None, data)
        for data in risk_messages(mark, watermark, judged.crossings, bytes_max):
            yield Output(Topic.RISK, record.partition, None, data)


def _dead_letters(topic: str, record: Record, flaws: Iterable[tuple[str, str, str]]) -> Iterator[Output]:
    """Yield the dead letters of a message of the topic: place, code and reason of each flaw."""
    at = topic, record.partition, record.offset, record.time
    for place, code, reason in flaws:
        digest = hashlib.sha256(record.value).hexdigest()
        dead_letter = DeadLetter("monitor", *at, place, code, reason, digest)
        yield dead_letter_output(dead_letter)


def _counted(message: StepMessage) -> JudgedMessage:
    flaws = [code for _, code, _ in message.flaws]
    codes = (*flaws, *(dead_letter.code for dead_letter in message.span_dead_letters))
    return JudgedMessage(message.record, message.judged, codes, message.watermark, message.is_repeat)
