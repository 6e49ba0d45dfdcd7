"""The monitor as a Faust application: judges the events partitions that the group assigns to it.

The commit policy is outputs, then state. The process judges a message; Kafka acknowledges all outputs; Kafka
acknowledges the state, the sessions first, then the partition's offset. A process that starts reads that
state. So wherever a process dies, its successor finds each session before the message or behind it, and
sends again only outputs that were sent before, with the same marks.

Each partition has a queue: while one partition waits for Kafka another one is judged.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import faust
from faust.types import TP

from ....rules.model.rule import RuleSet
from ....schemas.settings import SessionSettings
from ....schemas.time import NS
from ....schemas.verdict import Verdict
from ...error import StreamError
from ...group.inputs import CHECK_S
from ...messages.codec import RuleTexts
from ...messages.superseded import activation_in, digest_of, in_force
from ...messages.topics import Topic
from ...process.faultpoints import MonitorFault, fault_point
from ...process.monitor_metrics import MonitorMetrics
from ...process.trial import RuleTrials
from ...stages.monitor import MonitorOptions, MonitorStage, MonitorStep
from ...stages.rekey import Output, Record
from ..assignment import group_refusal
from ..care.activate import activation_of
from ..settings import KafkaSettings, faust_broker
from ..topic_checks import TopicChecks, topic_id
from ..topics import PartitionCount, StartWait, TopicSpec, ask_when_reachable, config_of, look, require
from .activations import activations_after
from .queue import PartitionQueue
from .state_store import DiskPartitionStore, MemoryPartitionStore, PartitionStore, PartitionStores
from .table import StateTable, Tables
from .topics_of_state import (
    MARKS,
    MonitorTopics,
    check,
    check_state,
    deleted,
    lost_events,
    uneven,
    where_to_go_on,
)
from .transport import Transport

PROCESS = "monitor"
SENDS = (Topic.JUDGED, Topic.VERDICTS, Topic.DEAD_LETTER)
DEAD_LETTER_CODES = ("damaged", "internal", "session-held")
"""The codes of the monitor's dead letters beside those of span data."""
BUFFERED_MESSAGES = 128
"""Messages that Faust has read and not handed on."""
BATCH_BYTES = 1 << 20
LINGER_S = 0.005
COMMIT_S = 1.0
PULSE_S = 0.2
STOP_S = 10.0
"""How long the messages in hand, and the last commit, may take when the process is told to stop."""
REQUEST_S = 40.0


@dataclass(frozen=True, slots=True)
class MonitorRuntime:
    """The runtime of the process: its time (ns since the epoch), reports and metrics.

    `timeout_s` is how long it may be silent before the group assigns its partitions to others. `fail` ends
    the process at once, and reports why. It ends by itself when `stopping` is set.
    """

    timeout_s: float
    metrics: MonitorMetrics
    report: Callable[[str], None]
    fail: Callable[[BaseException], NoReturn]
    stopping: threading.Event
    now: Callable[[], int] = time.time_ns


class App(faust.App):
    """A Faust app that reads and writes by our own transport, and makes no folders."""

    progress: MonitorProcess

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)

    def _new_producer_transport(self) -> Transport:
        return Transport(self.conf.broker_producer, self)

    def _create_directories(self) -> None:
        """Leave the disk alone: what is on it is on the shelves."""


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
        """`rules` are in force until others are activated."""
        self._trials = trials
        self._kafka, self._topics, self._runtime = kafka, topics, runtime
        self._names = {topic: kafka.topic(topic) for topic in Topic}
        self._stores = PartitionStores(topics.partitions, self._store)
        terms = MonitorOptions(
            sessions,
            topics.partitions,
            kafka.message_bytes_max,
            self._names[Topic.EVENTS],
            topics.events_id,
            finish=kafka.on_rule_change == "finish",
            rules=None if rules is None else dict(rules.sources),
        )
        self._stage = MonitorStage(terms, self._stores)
        self._checks = TopicChecks(kafka, PROCESS, {topics.events: topics.events_id})
        self._queues: dict[int, PartitionQueue] = {}
        self._next: dict[int, int] = {}
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
        return {TP(self._names[Topic.EVENTS], number): self._next[number] for number in self._queues}

    async def recovered(self, partitions: frozenset[int]) -> None:
        """Restore these partitions, which are the whole assignment, and judge them."""
        assignments, consumer = self._assignments, self._app.consumer
        self._stage.revoke(list(self._stage.offsets()))
        self._stage.assign(partitions, self._stores.items(partitions))
        self._runtime.metrics.judging.add_rules(self._stage.met())
        offsets = self._stage.offsets()
        held = self._stores.held(partitions)
        await check_state(self._topics, self._checks, self._stage.topic_ids(), offsets, held)
        going_on = await where_to_go_on(self._topics, consumer, offsets)
        if assignments != self._assignments:
            return
        for number, offset in going_on.items():
            self._report_deleted(number, offset - offsets[number] - 1)
        if passed_over := self._stage.passed_over():
            text = f"partitions {_listed(passed_over)} go on under the rules in force there"
            hint = "bring these into force with: tracline stream activate PACK..."
            self._runtime.report(f"{text}, not those of --rules; {hint}")
        # Faust may have committed offsets of messages that were not judged.
        places = {TP(self._names[Topic.EVENTS], number): offset for number, offset in going_on.items()}
        if places:
            await consumer._thread.seek_wait(places)
        if assignments != self._assignments:
            return
        self._next = going_on
        for number in partitions:
            queue = self._queues[number] = PartitionQueue(
                self._app.consumer_generation_id, self._next[number] - 1
            )
            queue.task = asyncio.get_running_loop().create_task(self._drive(queue))
        self._is_ready = True
        text = f"goes on with partitions {_listed(partitions)}" if partitions else "has no partition"
        self._runtime.report(text)

    async def _check_events(self) -> None:
        """End the process where the topic of events is not the one that was judged (TRL744)."""
        judged = {place.partition: offset for place, offset in self.going_on().items()}
        if (loss := await check(self._checks, self._topics.events, judged)) is not None:
            self.fail(lost_events(loss))

    async def _keep_checking(self) -> None:
        """Check the topic of events now and then."""
        try:
            while True:
                await asyncio.sleep(CHECK_S)
                await self._check_events()
        except Exception as error:
            self.fail(error)
            raise

    async def finish(self) -> None:
        """Finish the messages in hand, commit, and forget all partitions: the group divides them anew."""
        self._assignments += 1
        self._is_ready = False
        await asyncio.gather(*(queue.close() for queue in self._queues.values()))
        if self._queues:
            await self._app.consumer.commit()
        self._stage.revoke(list(self._queues))
        self._queues = {}

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
            what = f"the messages in hand were not done with in {STOP_S:.0f} s"
            self.fail(
                StreamError("TRL745", what, "they are judged again at the next start; see how Kafka is")
            )
        leaving.result()
        starting.cancel()
        self._checks.close()

    async def _leave(self) -> None:
        await self.finish()
        await self._app.stop()

    async def _read(self, stream: Any) -> None:
        """Hand each message to its queue, if it is of the time since the partition is ours."""
        try:
            async for event in stream.events():
                queue = self._queues.get(event.message.partition)
                if queue is not None:
                    await queue.offer(event.message, self._app.consumer.before(event.message))
        except Exception as error:
            self.fail(error)
            raise

    async def _drive(self, queue: PartitionQueue) -> None:
        """Judge messages in their order. An error ends the process, before the offset is committed."""
        try:
            while (message := await queue.messages.get()) is not None:
                await self._work_off(message)
        except BaseException as error:
            self.fail(error)
            raise

    async def _work_off(self, message: Any) -> None:
        fault_point(MonitorFault.RECEIVED)
        place, expected = TP(message.topic, message.partition), self._next[message.partition]
        if place in self._app.consumer.repeated:
            await self._check_events()
            self._app.consumer.repeated.discard(place)
        lost = await deleted(self._app.consumer, place, expected, message.offset)
        self._report_deleted(message.partition, lost)
        record = Record(message.partition, message.offset, self._time(message), message.value or b"")
        step = self._stage.step(record, await self._coming_into_force(record))
        fault_point(MonitorFault.STEPPED)
        if step.outputs:
            await self._send(step.outputs)
            fault_point(MonitorFault.PRODUCED)
        await self._table.write(record.partition, step.writes)
        self._next[record.partition] = max(record.offset + 1, self._next[record.partition])
        self._count(record, step)

    async def _coming_into_force(self, record: Record) -> RuleTexts | None:
        """Return the packs that come into force with a record, if it is an activation, once they are tried.

        Raises StreamError (TRL748) where no process survives judging by them, with the way past them.
        """
        met = activation_in(record.value)
        if met is None or record.offset < self._next[record.partition]:
            return None
        name = self._names[Topic.EVENTS]
        later = await asyncio.to_thread(activations_after, self._kafka, name, record.partition, record.offset)
        packs = in_force(met, later).packs
        try:
            await asyncio.to_thread(self._trials.require, packs)
        except StreamError as error:
            what = f"the rules activated at offset {record.offset} of partition {record.partition}: {error}"
            hint = f"bring others into force: tracline stream activate PACK... --supersede {digest_of(packs)}"
            raise StreamError("TRL748", what, hint) from error
        return packs

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

    def _time(self, message: Any) -> int:
        """Return when the message was written; without a timestamp, now."""
        if message.timestamp is None or message.timestamp < 0:
            return self._runtime.now()
        return round(message.timestamp * 1000) * 1_000_000

    def _count(self, record: Record, step: MonitorStep) -> None:
        """Count a message that was judged."""
        metrics, judged = self._runtime.metrics, step.judged
        metrics.kafka.read(self._names[Topic.EVENTS], 1, len(record.value))
        if not step.writes:
            metrics.skipped.inc()
        for topic, count in Counter(output.topic for output in step.outputs).items():
            metrics.kafka.sent(self._names[topic], count)
        for kind, count in Counter(event.kind for event in judged.events).items():
            metrics.judging.judged(kind, count)
        given = Counter((record.pack, record.rule, record.verdict) for record in judged.records)
        metrics.judging.add_rules(self._stage.met())
        for (pack, rule, verdict), count in given.items():
            metrics.judging.verdict(pack, rule, Verdict(verdict), count)
        metrics.judging.late.inc(judged.late)
        metrics.judging.repeats.inc(judged.repeats)
        if judged.events:
            metrics.judging.delay.observe((self._runtime.now() - record.time) / NS)
        for code in step.dead_letters:
            metrics.progress.dead_letter(code)

    def _measure(self) -> None:
        """Set the metrics of state, time and lag."""
        metrics = self._runtime.metrics
        metrics.judging.sessions_open.set(self._stage.open_sessions())
        metrics.state_bytes.set(self._stores.size())
        known = [one for one in self._stage.watermarks().values() if one is not None]
        metrics.progress.watermark(min(known, default=None))
        name = self._names[Topic.EVENTS]
        behind: dict[tuple[str, int], int] = {}
        for place, offset in self.going_on().items():
            end = self._app.consumer.highwater(place)
            behind[name, place.partition] = max(0, (end or 0) - offset)
        metrics.kafka.lag(behind)

    def _build(self) -> None:
        """Build the app, its table and its one agent."""
        app: Any = App(self._kafka.group(PROCESS), **self._options())
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

    def _options(self) -> dict[str, Any]:
        timeout_s = self._runtime.timeout_s
        return {
            **faust_broker(self._kafka),
            "autodiscover": False,
            "TableManager": Tables,
            "web_enabled": False,
            "topic_disable_leader": True,
            "topic_partitions": self._topics.partitions,
            "topic_replication_factor": self._topics.replicas,
            "processing_guarantee": "at_least_once",
            "table_standby_replicas": 0,
            "stream_wait_empty": True,
            "stream_buffer_maxsize": BUFFERED_MESSAGES,
            "stream_recovery_delay": 0.0,
            "consumer_auto_offset_reset": "earliest",
            "consumer_max_fetch_size": max(BATCH_BYTES, self._kafka.request_bytes_max),
            "producer_linger": LINGER_S,
            "producer_max_batch_size": BATCH_BYTES,
            "broker_commit_interval": COMMIT_S,
            "broker_session_timeout": timeout_s,
            "broker_heartbeat_interval": min(3.0, timeout_s / 4),
            "broker_request_timeout": max(REQUEST_S, 2 * timeout_s),
        }

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
    where the topic of events has more or fewer partitions than the state that is kept of it, TRL734 where
    the rules are too large for a message.
    """
    wait = StartWait(wait_s, runtime.stopping, runtime.report)
    topics = ask_when_reachable(kafka, PROCESS, wait, lambda admin: _topics(admin, kafka))
    if topics is None:
        return None
    if rules is not None:
        activation_of(kafka, rules.sources)
    return MonitorProcess(kafka, sessions, rules, topics, runtime, trials)


def _topics(admin: Any, kafka: KafkaSettings) -> MonitorTopics:
    """Return the topics of the monitor. Raises StreamError (TRL724, TRL744)."""
    found = look(admin, kafka)
    require(found, kafka, Topic.EVENTS, *SENDS)
    name, events = kafka.topic(Topic.EVENTS), found[Topic.EVENTS]
    changelog = f"{kafka.group(PROCESS)}-state-changelog"
    for topic in admin.describe_topics():
        if topic["name"] == changelog and (count := len(topic["partitions"])) != events.partitions:
            raise uneven(name, events.partitions, count)
    return MonitorTopics(name, topic_id(admin, name), changelog, events.partitions, events.replicas)


def _listed(partitions: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(partitions)))


def _crashed(reason: BaseException | None) -> StreamError:
    what = f"Kafka's client gave up: {type(reason).__name__}"
    return StreamError("TRL745", what, "nothing is lost: start it again, and look how the brokers are")
