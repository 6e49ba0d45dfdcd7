"""One step of the monitor in progress."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from ...archive.chunk import RuleTexts
from ...rules.model.problem import RuleError
from ...schemas.candidate import Candidate
from ...schemas.records.dead_letter import DeadLetter
from ...schemas.settings import SessionSettings
from ...schemas.time import NS_MAX, NS_MIN
from ..error import StreamError
from ..messages.codec import Activation, CandidateBatch, Damaged, EventsMessage, decode
from ..messages.drift_state import DriftStep, drift_chunk_keys, encode_drift
from ..messages.monitor_state import (
    FORGOTTEN,
    PartitionState,
    chunk_keys,
    decode_fixed_head,
    decode_head,
    decode_session,
    drift_key,
    encode_partition,
    encode_session,
    keys_of_session,
    page_key,
    partition_key,
    rules_key,
    session_key,
)
from ..messages.record import Record
from ..messages.session_state import SessionState
from ..messages.session_state import decode as decode_state
from ..messages.session_state import encode as encode_state
from .judge import AssembledBatch, Outputs, RuledAt, SessionJudge, poisoned
from .rule_set_judge import RuleSetJudge
from .rule_sets import RuleSets
from .schedule import MonitorState, RulesInForce, Write, advanced
from .session_cache import SessionCache, StoredSession
from .unread import ReadBatch, UnreadCandidates

_NOT_DUE = NS_MAX + 1
"""The due time of a session without one, later than every time."""


@dataclass(frozen=True, slots=True)
class MonitorOptions:
    """The options of the monitor, the same for all partitions.

    With `finish` an open occurrence continues under the rule set that it began with; otherwise the new rule
    set judges it from its first event. `rules` are in force until the first activation, with the `chain` of
    that digest; None requires one.
    The events' topic has `partitions` and the id `events_id`; `bytes_max` is the approximate size limit of a
    message. With `satisfied` the monitor also writes satisfied and held verdicts.
    """

    sessions: SessionSettings
    partitions: int
    bytes_max: int
    events_topic: str = "tracline.events"
    events_id: str = ""
    finish: bool = True
    rules: RuleTexts | None = None
    chain: str | None = None
    satisfied: bool = False


class StepMessage(msgspec.Struct):
    """A message of a step; `judged` is complete once the step has judged its `batches`.

    `watermark` is that of the partition after the message. `flaws` are the place, code and reason of dead
    letters of the message, `span_dead_letters` are those of spans. A message that `is_skipped` is a repeat or
    damaged; `activated` has packs by their digest.
    """

    record: Record
    watermark: int | None
    is_repeat: bool = False
    is_skipped: bool = False
    is_tick: bool = False
    activated: dict[str, RuleTexts] = {}
    flaws: list[tuple[str, str, str]] = []
    span_dead_letters: list[DeadLetter] = []
    batches: list[AssembledBatch] = []
    judged: Outputs = msgspec.field(default_factory=Outputs)


class ChangedPartition(msgspec.Struct):
    """The changes of a step in one partition: its facts, the texts of rules, and the sessions.

    `sessions` has the offset of the last message that changed each, and `due` when each is due now.
    """

    facts: PartitionState
    rules: dict[str, RuleTexts] = {}
    sessions: dict[str, int] = {}
    due: dict[str, int] = {}


class MonitorStep:
    """A step: `add` its messages, `finish`, and take the `writes`. It changes neither state nor table.

    With `is_separate` each message is judged by itself, and each session of it where that raises an error.
    """

    def __init__(
        self,
        options: MonitorOptions,
        state: MonitorState,
        rule_sets: RuleSets,
        cache: SessionCache,
        unread: UnreadCandidates,
        *,
        is_separate: bool,
    ) -> None:
        self._options, self._state, self._rule_sets, self._cache = options, state, rule_sets, cache
        self._unread, self._is_separate = unread, is_separate
        self._messages: list[StepMessage] = []
        self._changed: dict[int, ChangedPartition] = {}
        self._drift: dict[int, DriftStep] = {}
        self._sessions: dict[str, SessionState] = {}
        self._records: dict[str, bytes | None] = {}
        self._ruled: dict[str, RuledAt] = {}
        self._judges: dict[str, RuleSetJudge] = {}

    @property
    def rules(self) -> frozenset[tuple[str, str]]:
        """Return the packs and ids of the rules that the step judged by or activated."""
        return frozenset[tuple[str, str]]().union(*(judge.rules for judge in self._judges.values()))

    def add(self, records: Sequence[Record], superseding: Mapping[tuple[int, int], Activation]) -> None:
        """Take messages; `superseding` has the activations that come into force instead, by their place.

        Raises StreamError where this release cannot continue.
        """
        contents = [self._content(record) for record in records]
        pairs = zip(contents, records, strict=True)
        batches = [(content, record.time) for content, record in pairs if isinstance(content, CandidateBatch)]
        read = iter(self._unread.read_all(batches))
        for record, content in zip(records, contents, strict=True):
            of_batch: ReadBatch = next(read) if isinstance(content, CandidateBatch) else ([], [])
            if isinstance(content, Activation):
                content = superseding.get((record.partition, record.offset), content)
            self._add(record, content, of_batch)

    def _content(self, record: Record) -> EventsMessage | Damaged | None:
        """Return what a record holds, the error where it is damaged; None where the state has it already."""
        if record.offset <= self._state.partitions[record.partition].facts.offset:
            return None
        try:
            return decode(record.value)
        except Damaged as error:
            return error

    def _add(self, record: Record, content: EventsMessage | Damaged | None, read: ReadBatch) -> None:
        """Take a message with that content; of candidates, `read` has those that have claims."""
        number = record.partition
        changed = self._changed.get(number)
        facts = self._state.partitions[number].facts if changed is None else changed.facts
        message = StepMessage(record, facts.watermark)
        self._messages.append(message)
        if content is None or record.offset <= facts.offset:
            message.is_repeat = message.is_skipped = True
            return
        if changed is None:
            partition = self._state.partitions[number]
            changed = self._changed[number] = ChangedPartition(facts)
            self._drift[number] = DriftStep(partition.drift, facts.offset)
        try:
            if isinstance(content, Damaged):
                raise content
            activated = self._activated(number, facts, content)
        except Damaged as error:
            message.is_skipped = True
            message.flaws.append(("record", "damaged", str(error)))
            changed.facts = msgspec.structs.replace(facts, offset=record.offset)
            return
        before = facts.watermark
        facts = changed.facts = advanced(facts, content, record.offset)
        if activated is not None:
            judge, texts = activated
            # The messages before are judged by the rules before.
            self._judge_pending()
            facts = changed.facts = msgspec.structs.replace(facts, active=judge.key)
            changed.rules[judge.key] = texts
            message.activated[judge.digest] = texts
            self._judges[judge.key] = judge
        message.watermark, message.is_tick = facts.watermark, not isinstance(content, CandidateBatch)
        candidates, message.span_dead_letters = read
        self._add_candidates(message, changed, candidates, NS_MIN if before is None else before)

    def finish(self) -> list[StepMessage]:
        """Judge what is not judged yet, and return the messages."""
        self._judge_pending()
        for message in self._messages:
            message.flaws += [flaw for poison in message.judged.poison for flaw in poisoned(poison)]
            if message.record.partition in self._drift and not message.is_skipped:
                drift, judged = self._drift[message.record.partition], message.judged
                crossings = drift.watch(message.record.offset, judged.crossings, judged.bets)
                message.judged = msgspec.structs.replace(judged, crossings=crossings)
        return self._messages

    def _add_candidates(
        self, message: StepMessage, changed: ChangedPartition, candidates: Sequence[Candidate], before: int
    ) -> None:
        """Add the candidates of a message to their sessions, and advance those that are due.

        `before` is the watermark before the message.
        """
        facts, until = changed.facts, message.watermark
        until = NS_MIN if until is None else until
        names = {candidate.session_id for candidate in candidates}
        fresh = {name for name in names if not self._has(changed, name, message.record.offset)}
        unfinished = set(facts.unfinished.values())
        waiting = fresh & unfinished
        going = (fresh | self._due(message.record, changed, until)) - unfinished
        if not (waiting or going):
            return
        if facts.active is None:
            hint = "activate one with `tracline stream activate PACK...`, or start with --rules"
            raise StreamError("TRL742", "no rule set is in force", hint)
        for chosen, watermark in ((waiting, NS_MIN), (going, until)):
            if chosen:
                new = fresh & chosen
                added = [each for each in candidates if each.session_id in new]
                self._step_sessions(message, facts.active, chosen, added, (before, watermark))
                changed.sessions.update(dict.fromkeys(chosen, message.record.offset))
                changed.due.update((name, self._due_of(name)) for name in chosen)

    def _step_sessions(
        self,
        message: StepMessage,
        active: str,
        names: Collection[str],
        candidates: Sequence[Candidate],
        marks: tuple[int, int],
    ) -> None:
        """Step sessions under a rule set; `marks` are the watermarks before the message and after it."""
        before, watermark = marks
        judge = self._judge_under(active)
        states = {name: self._session(message.record.partition, name) for name in sorted(names)}
        if self._is_separate:
            stored = {name: encode_state(state) for name, state in states.items()}
            judged = judge.step(
                states, candidates, watermark, lambda name: decode_state(stored[name]), before
            )
            self._sessions.update(judged.states)
            message.judged += judged.outputs
        else:
            batch = judge.assemble(states, candidates, watermark, self._ruled, before)
            self._ruled.update(batch.ruled)
            message.batches.append(batch)

    def _judge_pending(self) -> None:
        """Judge the assembled messages: those with the same rules in force together."""
        pending: dict[str, list[tuple[StepMessage, AssembledBatch]]] = {}
        for message in self._messages:
            for batch in message.batches:
                pending.setdefault(batch.active, []).append((message, batch))
            message.batches = []
        for key, pairs in pending.items():
            names = {name for _, batch in pairs for name in batch.ruled}
            states = {name: self._sessions[name] for name in names}
            outputs = self._judge_under(key).judge(states, [batch for _, batch in pairs])
            for (message, _), judged in zip(pairs, outputs, strict=True):
                message.judged += judged
        self._ruled = {}

    def _judge_under(self, active: str) -> SessionJudge:
        return SessionJudge(self._rule_set(active), self._rule_set, finish=self._options.finish)

    def _rule_set(self, key: str) -> RuleSetJudge:
        if key not in self._judges:
            self._judges[key] = self._rule_sets.find(key, self._state)
        return self._judges[key]

    def _session(self, number: int, session_id: str) -> SessionState:
        """Return a session's state as the messages before have left it."""
        state = self._sessions.get(session_id)
        if state is None:
            stored = self._stored(number, session_id)
            state = self._cache.take(session_id, stored, partial(self._decoded, number, session_id))
        elif state.session.due is None:
            # The session is forgotten, and begins again: its next occurrence may have the time of the last.
            self._judge_pending()
            state = self._cache.empty(session_id)
        self._sessions[session_id] = state
        return state

    def _stored(self, number: int, session_id: str) -> StoredSession | None:
        """Return a session's record with its chunks; None where the session is new or forgotten."""
        record = self._record(session_id)
        if record is None or (head := decode_fixed_head(record)).due == FORGOTTEN:
            return None
        get = self._state.table.get
        return StoredSession(record, [get(key) for key in chunk_keys(number, session_id, head)])

    def _decoded(
        self, number: int, session_id: str, record: bytes, chunks: Sequence[bytes | None]
    ) -> SessionState:
        keys = [page_key(number, session_id, place) for place in decode_head(record).pages]
        return decode_session(record, chunks, map(self._state.table.get, keys))

    def _record(self, session_id: str) -> bytes | None:
        if session_id not in self._records:
            self._records[session_id] = self._state.table.get(session_key(session_id))
        return self._records[session_id]

    def _has(self, changed: ChangedPartition, session_id: str, offset: int) -> bool:
        """Return whether a session's record has the message at that offset already."""
        record = None if session_id in changed.sessions else self._record(session_id)
        return record is not None and decode_fixed_head(record).offset >= offset

    def _due(self, record: Record, changed: ChangedPartition, until: int) -> set[str]:
        """Return the sessions of the partition that are due at that watermark."""
        due = set(self._state.partitions[record.partition].due_at(until, record.offset))
        return (due - changed.due.keys()) | {name for name, time in changed.due.items() if time <= until}

    def _due_of(self, session_id: str) -> int:
        due = self._sessions[session_id].session.due
        return _NOT_DUE if due is None else due

    def _activated(
        self, number: int, facts: PartitionState, message: EventsMessage
    ) -> tuple[RuleSetJudge, RuleTexts] | None:
        """Return the rule set that comes into force with this message, and its texts.

        Raises Damaged where a message activates rules with errors, and StreamError (TRL742) where the rules
        of the options have some: no message is at fault then.
        """
        rules = None
        if isinstance(message, Activation):
            rules = RulesInForce(message.packs, message.chain_digest)
        elif facts.active is None:
            rules = self._state.partitions[number].resumed
            if rules is None and self._options.rules is not None:
                rules = RulesInForce(self._options.rules, self._options.chain)
        if rules is None:
            return None
        try:
            return self._rule_sets.compiled(rules), rules.texts
        except RuleError as error:
            if isinstance(message, Activation):
                raise Damaged(f"activates rules that cannot be used ({type(error).__name__})") from None
            hint = "see what is wrong with them: tracline check PACK..."
            raise StreamError("TRL742", "the rules given at the start cannot be used", hint) from None

    def writes(self) -> dict[int, list[Write]]:
        """Return the writes of each partition: rules, drift, sessions, the facts, and deletions."""
        return {number: self._writes_of(number, changed) for number, changed in self._changed.items()}

    def _drift_writes(self, number: int, offset: int) -> tuple[list[Write], list[str]]:
        """Return the writes of a partition's detectors after that offset, and the chunks to be deleted."""
        state = self._drift[number].written(offset)
        if state is None:
            return [], []
        key = drift_key(number)
        record, chunks = encode_drift(state, self._options.bytes_max)
        named = drift_chunk_keys(number, record)
        old = drift_chunk_keys(number, self._state.table.get(key))
        return [*zip(named, chunks, strict=True), (key, record)], [each for each in old if each not in named]

    def _writes_of(self, number: int, changed: ChangedPartition) -> list[Write]:
        writes: list[Write] = [
            (rules_key(number, key), msgspec.json.encode(texts)) for key, texts in changed.rules.items()
        ]
        drift, deleted = self._drift_writes(number, changed.facts.offset)
        writes += drift
        cached: dict[str, tuple[StoredSession, SessionState]] = {}
        for session_id, offset in sorted(changed.sessions.items()):
            key, state, before = session_key(session_id), self._sessions[session_id], self._record(session_id)
            due = state.session.due
            if due is None and before is None:
                continue
            until = FORGOTTEN if due is None else due
            data, chunks, pages, head = encode_session(state, offset, until, self._options.bytes_max)
            writes += [(page_key(number, session_id, place), page) for place, page in pages]
            writes += zip(chunk_keys(number, session_id, head), chunks, strict=True)
            writes.append((key, data))
            named = keys_of_session(number, session_id, head)
            if due is None:
                # It has this message, and must not have it again if the process dies before the deletion.
                deleted += [key, *named]
            else:
                cached[session_id] = StoredSession(data, chunks), state
            old = [] if before is None else keys_of_session(number, session_id, decode_head(before))
            deleted += [each for each in old if each not in named]
        facts = msgspec.structs.replace(changed.facts, topic_id=self._options.events_id)
        writes.append((partition_key(number), encode_partition(facts)))
        written = {key for key, _ in writes}
        lost = sorted(self._state.partitions[number].lost - written)
        self._cache.put(cached)
        return [*writes, *((key, None) for key in (*deleted, *lost))]
