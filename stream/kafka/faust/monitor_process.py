"""The monitor as a Faust application: judges the events partitions that the group assigns to it.

The commit policy is outputs, then state. The process judges all messages that have come together; Kafka
acknowledges their outputs; Kafka acknowledges the state, the sessions first, then the partitions' offsets. A
process that starts reads that state. So wherever a process dies, its successor finds each session before its
message or behind it, and sends again only outputs that were sent before, with the same marks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NoReturn

from faust.types import TP

from ....rules.model.rule import RuleSet
from ....schemas.settings import SessionSettings
from ...error import StreamError
from ...group.inputs import CHECK_S
from ...messages.codec import Activation
from ...messages.record import Output, Record
from ...messages.superseded import activation_in, digest_of, in_force
from ...messages.topics import Topic
from ...process.faultpoints import MonitorFault, fault_point
from ...process.trial import RuleTrials
from ...stages.monitor import MessagePlace, MonitorStage
from ...stages.monitor_step import MonitorOptions
from ...stages.schedule import MonitorState
from ..care.activate import activation_of
from ..librdkafka.errors import group_refusal
from ..preflight import StartWait, ask_when_reachable
from ..settings import KafkaSettings
from ..topic_identity import TopicIdentities
from ..topics import PartitionCount, TopicSpec, config_of
from .activations import activations_after, listed, under_other_rules
from .app import App, app_options
from .counts import count_step
from .queue import MessageQueue
from .runtime import MonitorRuntime
from .state_store import DiskPartitionStore, MemoryPartitionStore, PartitionStore, PartitionStores
from .table import StateTable
from .topics_of_state import (
    MARKS,
    MonitorTopics,
    check,
    check_state,
    deleted,
    lost_events,
    monitor_topics,
    where_to_go_on,
)

PROCESS = "monitor"
DEAD_LETTER_CODES = ("damaged", "internal", "session-held")
"""The codes of the monitor's dead letters beside those of span data."""
PULSE_S = 0.2
STOP_S = 20.0
"""The time that the messages in hand, and the last commit, may take when the process stops."""


class MonitorProcess:
    """The process; `run` works until it is to stop."""

    def __init__(
        self,
        kafka: KafkaSettings,
        sessions: SessionSettings,
        rules: RuleSet | None,
        topics: MonitorTopics,
        runtime: MonitorRuntime,
        trials: RuleTrials,
    ) -> None:
        """Take the settings and topics; `rules` are in force until others are activated."""
        self._trials = trials
        self._kafka, self._topics, self._runtime = kafka, topics, runtime
        self._names = {topic: kafka.topic(topic) for topic in Topic}
        self._stores = PartitionStores(topics.partitions, self._store)
        options = MonitorOptions(
            sessions,
            topics.partitions,
            kafka.message_bytes_max,
            self._names[Topic.EVENTS],
            topics.events_id,
            finish=kafka.on_rule_change == "finish",
            rules=None if rules is None else dict(rules.sources),
            chain=runtime.chain,
        )
        self._stage, self._state = MonitorStage(options, runtime.chains), MonitorState(self._stores)
        self._lacking: set[str] = set()
        """The chains of rules in force that were reported as missing."""
        self._checks = TopicIdentities(kafka, PROCESS, {topics.events: topics.events_id})
        self._queue: MessageQueue | None = None
        self._next: dict[int, int] = {}
        """The next offset of each partition that is judged."""
        self._counted: set[tuple[str, str]] = set()
        """The rules that have counters."""
        self._assignments = 0
        self._is_ready = False
        self._app: Any = None
        self._table: Any = None

    @property
    def is_ready(self) -> bool:
        """Return whether the process judges the partitions of its assignment (there may be none)."""
        return self._is_ready

    def run(self) -> None:
        """Work until the runtime is stopping; then finish the messages in hand and leave the group."""
        asyncio.run(self._work())

    def fail(self, error: BaseException) -> NoReturn:
        """End the process."""
        self._runtime.fail(error)

    def going_on(self) -> Mapping[TP, int]:
        """Return the next offset of each partition that is judged."""
        return {TP(self._names[Topic.EVENTS], number): offset for number, offset in self._next.items()}

    async def recovered(self, partitions: frozenset[int]) -> None:
        """Restore these partitions, which are the whole assignment, and begin to judge them."""
        self._assignments += 1
        assignments, consumer, state = self._assignments, self._app.consumer, self._state
        if self._queue is not None:
            # Faust may recover twice without a word of a rebalance in between.
            await self._queue.close()
            if assignments != self._assignments:
                return
        state.revoke(list(state.offsets))
        self._stage.restore(state, partitions, self._stores.items(partitions))
        self._add_rules(self._stage.rules_in_force(state))
        self._report_lacking()
        offsets, applied = state.offsets, self._stores.applied_of(partitions)
        await check_state(self._topics, self._checks, state.topic_ids, offsets, applied)
        going_on = await where_to_go_on(self._topics, consumer, offsets)
        if assignments != self._assignments:
            return
        for number, offset in going_on.items():
            self._report_deleted(number, offset - offsets[number] - 1)
        if others := self._stage.under_other_rules(state):
            self._runtime.report(under_other_rules(others, names_chain=self._runtime.chain is not None))
        # Faust may have committed offsets of messages that were not judged.
        places = {TP(self._names[Topic.EVENTS], number): offset for number, offset in going_on.items()}
        if places:
            await consumer._thread.seek_wait(places)
        if assignments != self._assignments:
            return
        self._next = going_on
        last = {number: offset - 1 for number, offset in going_on.items()}
        queue = self._queue = MessageQueue(self._app.consumer_generation_id, last)
        queue.task = asyncio.get_running_loop().create_task(self._drive(queue))
        self._is_ready = True
        text = f"assigned partitions {listed(partitions)}" if partitions else "no partition assigned"
        self._runtime.report(text)

    async def _check_events(self) -> None:
        """End the process (TRL744) where the topic of events has been recreated since it was judged."""
        judged = {place.partition: offset for place, offset in self.going_on().items()}
        if (loss := await check(self._checks, self._topics.events, judged)) is not None:
            self.fail(lost_events(loss))

    async def _keep_checking(self) -> None:
        """Check the topic of events every `CHECK_S` seconds."""
        try:
            while True:
                await asyncio.sleep(CHECK_S)
                await self._check_events()
        except Exception as error:
            self.fail(error)
            raise

    async def finish(self) -> None:
        """Finish the messages in hand, commit, and drop all partitions: the group assigns them again."""
        self._assignments += 1
        self._is_ready = False
        if self._queue is not None:
            await self._queue.close()
        if self._next:
            await self._app.consumer.commit()
        self._state.revoke(list(self._next))
        self._queue, self._next = None, {}

    async def _revoked(self, *_: Any, **__: Any) -> None:
        await self.finish()

    async def _work(self) -> None:
        self._build()
        starting = asyncio.create_task(self._app.start())
        checking = asyncio.create_task(self._keep_checking())
        while not self._runtime.stopping.is_set():
            if starting.done() and (error := starting.exception()) is not None:
                self.fail(error)
            if self._app.crashed:
                self.fail(_crashed(self._app.crash_reason))
            if (refusal := self._app.consumer.refusal) is not None:
                refused = group_refusal(refusal, self._kafka.group(PROCESS), self._runtime.timeout_s)
                self.fail(refused or _crashed(refusal))
            self._measure()
            await asyncio.sleep(PULSE_S)
        checking.cancel()
        leaving = asyncio.create_task(self._leave())
        # Faust would take no notice of a cancellation.
        await asyncio.wait([leaving], timeout=STOP_S)
        if not leaving.done():
            problem = f"the messages in hand were not finished within {STOP_S:.0f} s"
            hint = "they are judged again at the next start; see how Kafka is"
            self.fail(StreamError("TRL745", problem, hint))
        leaving.result()
        starting.cancel()
        self._checks.close()

    async def _leave(self) -> None:
        await self.finish()
        await self._app.stop()

    async def _read(self, stream: Any) -> None:
        """Put each message of the present assignment into the queue."""
        try:
            async for event in stream.events():
                if self._queue is not None:
                    await self._queue.offer(event.message, self._app.consumer.before(event.message))
        except Exception as error:
            self.fail(error)
            raise

    async def _drive(self, queue: MessageQueue) -> None:
        """Judge messages in their order. An error ends the process, before the offset is committed."""
        try:
            while messages := await queue.take():
                await self._judge(messages)
        except BaseException as error:
            self.fail(error)
            raise

    async def _judge(self, messages: Sequence[Any]) -> None:
        """Judge messages together, and make their outputs and then the state durable."""
        fault_point(MonitorFault.RECEIVED)
        records = [self._record(message) for message in messages]
        going_on, superseding = dict(self._next), dict[MessagePlace, Activation]()
        for message, record in zip(messages, records, strict=True):
            await self._check_place(message, going_on[record.partition])
            if record.offset >= going_on[record.partition]:
                going_on[record.partition] = record.offset + 1
                if (activation := await self._coming_into_force(record)) is not None:
                    superseding[record.partition, record.offset] = activation
        result = self._stage.step(self._state, records, superseding)
        fault_point(MonitorFault.STEPPED)
        if result.outputs:
            await self._send(result.outputs)
            fault_point(MonitorFault.PRODUCED)
        await self._table.write(result.writes)
        self._state.apply(result.writes)
        self._next = going_on
        self._add_rules(result.metrics.rules)
        if result.metrics.activated:
            self._report_lacking()
        count_step(self._runtime.metrics, result, self._names, self._runtime.now())

    async def _check_place(self, message: Any, expected: int) -> None:
        """Check that a message is of the topic that was judged; report those that Kafka deleted before it."""
        place, consumer = TP(message.topic, message.partition), self._app.consumer
        if place in consumer.repeated:
            await self._check_events()
            consumer.repeated.discard(place)
        self._report_deleted(message.partition, await deleted(consumer, place, expected, message.offset))

    async def _coming_into_force(self, record: Record) -> Activation | None:
        """Return the activation that comes into force with a record, if it is one, once its packs are tried.

        Raises StreamError (TRL748) where no process survives judging by them, with the way past them.
        """
        activation = activation_in(record.value)
        if activation is None:
            return None
        name = self._names[Topic.EVENTS]
        later = await asyncio.to_thread(activations_after, self._kafka, name, record.partition, record.offset)
        current = in_force(activation, later)
        try:
            await asyncio.to_thread(self._trials.require, current.packs)
        except StreamError as error:
            rules = f"the rules activated at offset {record.offset} of partition {record.partition}: {error}"
            digest = digest_of(current.packs)
            hint = f"bring others into force: tracline stream activate PACK... --supersede {digest}"
            raise StreamError("TRL748", rules, hint) from error
        return current

    def _report_lacking(self) -> None:
        """Report the chains of rules in force that are not at hand, each once, and count them."""
        lacking = self._stage.lacking(self._state)
        self._runtime.metrics.chains_lacking.set(len(lacking))
        for digest in sorted(lacking - self._lacking):
            text = f"TRL805 the chain {digest} of the rules in force is not at hand, or not of these rules"
            self._runtime.report(f"{text}: risks are not computed; start with --predict and its folder")
        self._lacking |= lacking

    def _report_deleted(self, number: int, count: int) -> None:
        """Report messages that Kafka deleted, if there are any."""
        if count > MARKS:
            text = f"Kafka has deleted up to {count} messages that were not judged"
            self._runtime.report(f"partition {number}: {text}; increase the retention of events")
            self._runtime.metrics.kafka.deleted(self._names[Topic.EVENTS], count)

    async def _send(self, outputs: Iterable[Output]) -> None:
        """Send outputs, and return once Kafka has acknowledged all of them."""
        send = self._app.producer.send
        acknowledged: list[Any] = []
        for output in outputs:
            key = None if output.key is None else output.key.encode("utf-8")
            name = self._names[output.topic]
            acknowledged.append(await send(name, key, output.value, output.partition, None, None))
        await asyncio.gather(*acknowledged)

    def _record(self, message: Any) -> Record:
        """Return a message with the time at which it was written; without a timestamp, with the time now."""
        time = self._runtime.now()
        if message.timestamp is not None and message.timestamp >= 0:
            time = round(message.timestamp * 1000) * 1_000_000
        return Record(message.partition, message.offset, time, message.value or b"")

    def _add_rules(self, rules: Set[tuple[str, str]]) -> None:
        """Give rules counters before their first verdict."""
        if new := rules - self._counted:
            self._runtime.metrics.add_rules(new)
            self._counted |= new

    def _measure(self) -> None:
        """Set the metrics of state, time and lag."""
        metrics = self._runtime.metrics
        metrics.judging.sessions_open.set(self._state.open_sessions)
        metrics.state_bytes.set(self._stores.size())
        metrics.risk.set_drift(self._state.drift)
        known = [watermark for watermark in self._state.watermarks.values() if watermark is not None]
        metrics.progress.watermark(min(known, default=None))
        name = self._names[Topic.EVENTS]
        behind: dict[tuple[str, int], int] = {}
        for place, offset in self.going_on().items():
            end = self._app.consumer.highwater(place)
            behind[name, place.partition] = max(0, (end or 0) - offset)
        metrics.kafka.lag(behind)

    def _build(self) -> None:
        """Build the app, its table and its one agent."""
        chains = self._runtime.chains.digests
        options = app_options(self._kafka, self._topics, self._runtime.timeout_s, chains)
        app: Any = App(self._kafka.group(PROCESS), **options)
        app.progress, self._app = self, app
        compacted = TopicSpec(Topic.REKEY_STATE, PartitionCount.SESSIONS, days=None)
        self._table = StateTable(
            app,
            stores=self._stores,
            monitor=self,
            partitions=self._topics.partitions,
            extra_topic_configs=config_of(compacted, self._kafka, self._topics.replicas),
        )
        app.tables.add(self._table)
        raw: Any = {"key_serializer": "raw", "value_serializer": "raw", "allow_empty": True}
        app.on_partitions_revoked.connect(self._revoked)
        events = app.topic(self._names[Topic.EVENTS], key_type=bytes, value_type=bytes, **raw)
        app.agent(events, name=PROCESS)(self._read)
        app.finalize()

    def _store(self, partition: int) -> PartitionStore:
        if self._kafka.store == "memory":
            return MemoryPartitionStore()
        folder = Path(self._kafka.data_folder) / self._kafka.group(PROCESS)
        return DiskPartitionStore(folder / f"partition-{partition}", self._runtime.now)


def monitor_process(
    kafka: KafkaSettings,
    sessions: SessionSettings,
    rules: RuleSet | None,
    runtime: MonitorRuntime,
    trials: RuleTrials,
    wait_s: float,
) -> MonitorProcess | None:
    """Return the process over the topics as they are; None where it is to end before a broker answers.

    Raises StreamError: TRL721 to TRL724 where settings, brokers or topics are not as they must be; TRL744
    where the topic of events has another number of partitions than its state, TRL734 where the rules are too
    large for a message.
    """
    wait = StartWait(wait_s, runtime.stopping, runtime.report)
    topics = ask_when_reachable(
        kafka, PROCESS, wait, lambda admin: monitor_topics(admin, kafka, runtime.sends)
    )
    if topics is None:
        return None
    if rules is not None:
        activation_of(kafka, rules.sources)
    return MonitorProcess(kafka, sessions, rules, topics, runtime, trials)


def _crashed(reason: BaseException | None) -> StreamError:
    problem = f"Kafka's client gave up: {type(reason).__name__}"
    return StreamError("TRL745", problem, "nothing is lost: start it again, and look how the brokers are")
