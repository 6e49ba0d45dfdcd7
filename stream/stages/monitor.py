"""The monitor without its broker: messages of `tracline.events` in; outputs, and what to remember, out.

For every message: outputs first, all of them acknowledged, then the writes. Each write of a session holds
the message's offset; the partition's own comes behind them, and what is forgotten goes last. So a message
that a crash cut short is taken again: sessions that hold its offset are left alone, the others make the
same outputs again, and whoever reads those drops what he has seen (`wire.Mark`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from ...rules.engine.judge import compile_rule_set
from ...rules.model.problem import RuleError
from ...rules.packs.load import load_texts
from ...schemas.sessions.assemble import SessionAssembler
from ...schemas.settings import SessionSettings
from ...schemas.time import NS, rfc3339
from ..error import StreamError
from ..messages.codec import (
    Activation,
    CandidateBatch,
    Damaged,
    DeadLetter,
    JudgedBatch,
    Mark,
    Message,
    RuleTexts,
    encode_dead_letter,
    judged_messages,
    partition_of,
    verdict_messages,
)
from ..messages.codec import decode as decode_message
from ..messages.monitor_state import (
    HINT,
    PartitionState,
    SessionHead,
    decode_head,
    decode_partition,
    decode_session,
    encode_partition,
    encode_session,
)
from ..messages.record import Output, Record
from ..messages.session_state import SessionState
from ..messages.status import as_json
from ..messages.topics import Topic
from .judge import Outputs, RuleSetJudge, Worker, poisoned
from .schedule import Partition

STATES_KEPT_MAX = 20_000
"""Sessions whose state is kept decoded beside the table."""
STEP_NS = NS // 2
"""The least by which a partition's watermark moves: to judge one event takes almost as long as a hundred."""
_LONG_AGO = -(1 << 63)
_SESSION, _PARTITION, _RULES, _PIECE = "s/", "p/", "r/", "c/"


class Table(Protocol):
    """What the monitor remembers, by key; the adapter keeps it, and writes it to the changelog."""

    def get(self, key: str) -> bytes | None:
        """Return what is written under a key."""
        ...


@dataclass(slots=True)
class MonitorStep:
    """What a message gave: outputs, then writes in their order (None: the key is forgotten).

    For metrics: what the worker gave, the dead letters by code, and the watermark.
    """

    outputs: list[Output] = field(default_factory=list[Output])
    writes: list[tuple[str, bytes | None]] = field(default_factory=list[tuple[str, bytes | None]])
    judged: Outputs = field(default_factory=Outputs)
    dead_letters: list[str] = field(default_factory=list[str])
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class MonitorOptions:
    """The options of the monitor, the same for all partitions.

    With `finish` an open occurrence continues under the rule set that it began with; otherwise the new rule
    set judges it from its first event. `rules` are in force until the first activation; None requires one.
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
    satisfied: bool = False


class MonitorStage:
    """Steps the messages of the events partitions that are assigned to it.

    After an exception its memory is spoiled: begin again from the table.
    """

    def __init__(self, options: MonitorOptions, table: Table) -> None:
        self._options, self._table = options, table
        self._partitions: dict[int, Partition] = {}
        self._states: dict[str, SessionState] = {}
        self._judges: dict[str, RuleSetJudge] = {}
        self._compiled: dict[bytes, RuleSetJudge] = {}
        self._judges_in_use: list[RuleSetJudge] = []
        self._renamed: dict[int, RuleTexts] = {}

    def assign(self, partitions: Iterable[int], items: Iterable[tuple[str, bytes]]) -> None:
        """Go on with these partitions; `items` are what the table holds of them (others are left out).

        Raises StreamError (TRL741) where another release wrote it, or it is damaged.
        """
        new = {number: Partition() for number in partitions}
        counted: set[str] = set()
        for key, value in items:
            kind, name = key[: len(_SESSION)], key[len(_SESSION) :]
            if kind == _SESSION:
                number = partition_of(name, self._options.partitions)
                if number in new:
                    head = decode_head(value)
                    new[number].plan(name, head.due)
                    counted.update(_piece_keys(number, name, head))
            elif kind == _PARTITION and int(name) in new:
                new[int(name)].facts = decode_partition(value)
            elif kind == _PIECE and (number := int(name.partition("/")[0])) in new:
                new[number].lost.append(key)
        for partition in new.values():
            partition.lost = [key for key in partition.lost if key not in counted]
        self._partitions.update(new)
        for number, partition in new.items():
            self._renamed.pop(number, None)
            if partition.facts.active is not None:
                self._resume_rules(number, partition, partition.facts.active)

    def _resume_rules(self, number: int, partition: Partition, key: str) -> None:
        """Make the rules in force ready.

        Where another release wrote them, the version of the semantics in their key may be another, too. They
        are then activated again by the next message, unless a session is open: its labels are the other's.
        """
        try:
            self._bench(key)
        except StreamError:
            texts = self._table.get(f"{_RULES}{number}/{key}")
            if texts is None or texts not in self._compiled or partition.due:
                raise
            self._renamed[number] = msgspec.json.decode(texts, type=RuleTexts)
            partition.facts = msgspec.structs.replace(partition.facts, active=None)

    def revoke(self, partitions: Iterable[int]) -> None:
        """Forget partitions that another process goes on with."""
        for number in partitions:
            gone = self._partitions.pop(number, None)
            for session_id in gone.due if gone else ():
                self._states.pop(session_id, None)

    def met(self) -> set[tuple[str, str]]:
        """The packs and ids of the rules that are at work here since it was asked last."""
        met, self._judges_in_use = self._judges_in_use, []
        return {(rule.pack, rule.id) for judge in met for rule in judge.compiled.rules}

    def passed_over(self) -> list[int]:
        """Return the partitions whose rules in force differ from those that the monitor was started with."""
        rules = self._options.rules
        active = {number: one.facts.active for number, one in self._partitions.items()}
        stored = {n: self._table.get(f"{_RULES}{n}/{key}") for n, key in active.items() if key is not None}
        return [n for n, texts in stored.items() if rules is not None and texts != msgspec.json.encode(rules)]

    def open_sessions(self) -> int:
        """Return how many sessions are remembered."""
        return sum(len(partition.due) for partition in self._partitions.values())

    def offsets(self) -> dict[int, int]:
        """The offset of the last message that is done with in each partition, -1 before there is one."""
        return {number: one.facts.offset for number, one in self._partitions.items()}

    def topic_ids(self) -> set[str]:
        """Return the ids of the topics that the state is of, as far as it says so."""
        return {one.facts.topic_id for one in self._partitions.values()} - {""}

    def watermarks(self) -> dict[int, int | None]:
        """Return how far the time has come in each partition."""
        return {number: one.facts.watermark for number, one in self._partitions.items()}

    def step(self, record: Record, packs: RuleTexts | None = None) -> MonitorStep:
        """Take a message in; where it is an activation, `packs` come into force in place of its own.

        Raises StreamError where this release may not go on with it.
        """
        partition = self._partitions[record.partition]
        done = MonitorStep(watermark=partition.facts.watermark)
        if record.offset <= partition.facts.offset:
            return done
        try:
            message = decode_message(record.value)
            if isinstance(message, Activation) and packs is not None:
                message = Activation(packs)
            activated = self._activated(record.partition, partition.facts, message, done)
        except Damaged as error:
            self._dead_letter(done, record, [("record", "damaged", str(error))])
            self._write_facts(done, record, msgspec.structs.replace(partition.facts, offset=record.offset))
            return done
        facts = _advanced(partition.facts, message, record.offset)
        if activated:
            facts = msgspec.structs.replace(facts, active=next(iter(activated)))
        partition.facts = facts
        forgotten = self._judge(done, record, partition, message)
        self._outputs_of(done, record, message, {self._bench(key).digest: t for key, t in activated.items()})
        self._write_facts(done, record, facts)
        done.writes += [(key, None) for key in (*forgotten, *self._lost(partition, done))]
        return done

    def _judge(self, done: MonitorStep, record: Record, partition: Partition, message: Message) -> list[str]:
        """Judge the candidates, and what is due; write the sessions' states, and return keys to forget."""
        facts = partition.facts
        candidates = message.candidates if isinstance(message, CandidateBatch) else []
        fresh = {one.session_id for one in candidates}
        fresh = {one for one in fresh if not self._is_applied(one, record.offset)}
        watermark = done.watermark = facts.watermark
        until = _LONG_AGO if watermark is None else watermark
        waiting = fresh.intersection(facts.unfinished.values())
        going = fresh.union(partition.reached(until)) - waiting
        if not (waiting or going):
            return []
        if facts.active is None:
            hint = "activate one with `tracline stream activate PACK...`, or start with --rules"
            raise StreamError("TRL742", "no rule set is in force", hint)
        worker = Worker(self._bench(facts.active), self._bench, finish=self._options.finish)
        forgotten: list[str] = []
        for names, time in ((waiting, _LONG_AGO), (going, until)):
            states = {session_id: self._state(session_id) for session_id in sorted(names)}
            own = [one for one in candidates if one.session_id in names and one.session_id in fresh]
            judged = worker.step_apart(states, own, time, self._stored)
            done.judged.add(judged)
            self._dead_letter(done, record, [flaw for poison in judged.poison for flaw in poisoned(poison)])
            forgotten += self._remember(done, record, partition, states)
        while len(self._states) > STATES_KEPT_MAX:
            del self._states[next(iter(self._states))]
        return forgotten

    def _remember(
        self, done: MonitorStep, record: Record, partition: Partition, states: Mapping[str, SessionState]
    ) -> Iterator[str]:
        """Write what there is to remember of sessions; gives the keys of what is to be forgotten."""
        for session_id, state in states.items():
            key, due = _SESSION + session_id, state.session.due
            partition.plan(session_id, due)
            self._states.pop(session_id, None)
            before = self._table.get(key)
            if due is not None:
                self._states[session_id] = state
            elif before is not None:
                # It may have said its last words just now: whoever finds it must know that.
                yield key
            else:
                continue
            when = _LONG_AGO if due is None else due
            data, pieces = encode_session(state, record.offset, when, self._options.bytes_max)
            keys = _piece_keys(record.partition, session_id, SessionHead(record.offset, when, len(pieces)))
            done.writes += [*zip(keys, pieces, strict=True), (key, data)]
            old = [] if before is None else _piece_keys(record.partition, session_id, decode_head(before))
            yield from (one for one in old if one not in keys)

    def _lost(self, partition: Partition, done: MonitorStep) -> list[str]:
        """The pieces that no record counted when the partition was assigned, and that none does now."""
        lost, partition.lost = partition.lost, []
        now = {key for key, _ in done.writes}
        return [key for key in lost if key not in now]

    def _outputs_of(
        self, done: MonitorStep, record: Record, message: Message, activated: Mapping[str, RuleTexts]
    ) -> None:
        """Add the messages of judged events and of verdicts; at a tick at least their watermark."""
        judged, watermark = done.judged, done.watermark
        mark = Mark(record.partition, record.offset, 0)
        is_tick = not isinstance(message, CandidateBatch)
        if judged.events or activated or is_tick:
            digests = list(dict.fromkeys(judged.digests))
            numbers = {digest: number for number, digest in enumerate(digests)}
            sets = [numbers[digest] for digest in judged.digests]
            batch = JudgedBatch(mark, watermark, judged.events, digests, sets, dict(activated))
            for data in judged_messages(batch, self._options.bytes_max):
                done.outputs.append(Output(Topic.JUDGED, record.partition, None, data))
        if judged.records or judged.statuses or is_tick:
            time = None if watermark is None else rfc3339(watermark)
            statuses = [as_json(one) for one in judged.statuses]
            for data in verdict_messages(mark, time, judged.records, statuses, self._options.bytes_max):
                done.outputs.append(Output(Topic.VERDICTS, record.partition, None, data))

    def _activated(
        self, number: int, facts: PartitionState, message: Message, done: MonitorStep
    ) -> dict[str, RuleTexts]:
        """The rule set that comes into force with this message, by its key; it is written down.

        Raises Damaged where a message activates rules with errors, and StreamError (TRL742) where the rules
        of the start have some: messages are not to be put aside for that.
        """
        texts = message.packs if isinstance(message, Activation) else None
        if texts is None and facts.active is None:
            texts = self._renamed.get(number, self._options.rules)
        if texts is None:
            return {}
        try:
            judge = self._made(texts)
        except RuleError as error:
            if isinstance(message, Activation):
                raise Damaged(f"activates rules that cannot be used ({type(error).__name__})") from None
            hint = "see what is wrong with them: tracline check PACK..."
            raise StreamError("TRL742", "the rules given at the start cannot be used", hint) from None
        done.writes.append((f"{_RULES}{number}/{judge.key}", msgspec.json.encode(texts)))
        return {judge.key: texts}

    def _made(self, texts: RuleTexts) -> RuleSetJudge:
        """The rule set of these packs; every partition asks for it, and to compile one takes a second."""
        written = msgspec.json.encode(texts)
        if written not in self._compiled:
            judge = RuleSetJudge(compile_rule_set(load_texts(texts)), satisfied=self._options.satisfied)
            self._compiled[written] = self._judges.setdefault(judge.key, judge)
            self._judges_in_use.append(judge)
        return self._compiled[written]

    def _bench(self, key: str) -> RuleSetJudge:
        """The rule set with that key.

        Raises StreamError (TRL741) where another release wrote its states, or this one cannot use it.
        """
        if key not in self._judges:
            kept = (self._table.get(f"{_RULES}{number}/{key}") for number in self._partitions)
            texts = next((one for one in kept if one is not None), None)
            try:
                if texts is not None:
                    self._made(msgspec.json.decode(texts, type=RuleTexts))
            except (RuleError, msgspec.MsgspecError):
                what = "rules that sessions are judged by cannot be used by this release"
                raise StreamError("TRL741", what, HINT) from None
        if key not in self._judges:
            raise StreamError("TRL741", "open sessions were labelled by another release", HINT)
        return self._judges[key]

    def _state(self, session_id: str) -> SessionState:
        return self._states.get(session_id) or self._stored(session_id)

    def _stored(self, session_id: str) -> SessionState:
        """A session's state as the table has it."""
        data = self._table.get(_SESSION + session_id)
        if data is None:
            return SessionState(SessionAssembler(session_id, round(self._options.sessions.idle_s * NS)))
        keys = _piece_keys(partition_of(session_id, self._options.partitions), session_id, decode_head(data))
        return decode_session(data, map(self._table.get, keys))

    def _is_applied(self, session_id: str, offset: int) -> bool:
        """Return whether a session has taken that message in already."""
        data = self._table.get(_SESSION + session_id)
        return data is not None and decode_head(data).offset >= offset

    def _write_facts(self, done: MonitorStep, record: Record, facts: PartitionState) -> None:
        facts = msgspec.structs.replace(facts, topic_id=self._options.events_id)
        self._partitions[record.partition].facts = facts
        done.writes.append((f"{_PARTITION}{record.partition}", encode_partition(facts)))

    def _dead_letter(self, done: MonitorStep, record: Record, flaws: Iterable[tuple[str, str, str]]) -> None:
        """Add dead letters of a message: place, code and reason of each flaw."""
        digest = hashlib.sha256(record.value).hexdigest()
        at = self._options.events_topic, record.partition, record.offset, record.time
        for place, code, reason in flaws:
            letter = DeadLetter("monitor", *at, place, code, reason, digest)
            done.outputs.append(Output(Topic.DEAD_LETTER, None, None, encode_dead_letter(letter)))
            done.dead_letters.append(code)


def _piece_keys(number: int, session_id: str, head: SessionHead) -> list[str]:
    """The keys of the pieces that a session's record in that partition counts."""
    return [f"{_PIECE}{number}/{head.offset}/{index}/{session_id}" for index in range(head.chunks)]


def _advanced(facts: PartitionState, message: Message, offset: int) -> PartitionState:
    """Return the state after a message; its watermark is the least over all sources and never falls.

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
