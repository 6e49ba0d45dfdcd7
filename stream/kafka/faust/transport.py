"""Faust's transport of Kafka, with the parts that the monitor replaces.

The consumer reads only committed records; Faust reads all unless it works in transactions. It continues at
the offsets of the monitor's state, never at those of the group, since Faust acknowledges messages that it
drops in a rebalance. It commits the offsets of that state too, for readers of the monitor's lag. The producer
writes each record once and in order.
"""

# Faust's own types are partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, NoReturn, Protocol

from aiokafka.errors import IllegalStateError  # pyright: ignore[reportMissingTypeStubs]
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, Message
from mode.utils.futures import notify

from ...process.faultpoints import MonitorFault, fault_point
from .membership import Membership, refusal_of, stay

FETCH_WAIT_MS = 200
"""The time for which a broker holds a fetch back that finds no record.

A broker answers the requests of a connection in their order: a monitor that asks for the offsets of its
partitions, at each assignment, waits for the fetch before.
"""


class Progress(Protocol):
    """The process, which knows the next offset of each partition."""

    def going_on(self) -> Mapping[TP, int]:
        """Return the next offset of each partition that is judged; all before it is durable."""
        ...

    async def finish(self) -> None:
        """Finish the messages in hand, commit, and take no message before the next assignment."""
        ...

    def fail(self, error: BaseException) -> NoReturn:
        """End the process."""
        ...


class CommittedThread(driver.AIOKafkaConsumerThread):
    """The thread that reads committed records; it notes when the group last confirmed its membership."""

    app: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.membership = Membership()
        self._last: dict[TP, int] = {}
        self._before: dict[TP, dict[int, int]] = {}
        self.repeated: set[TP] = set()
        """Partitions whose offsets came again since the assignment, until the process checks the topic."""

    def before(self, tp: TP, offset: int) -> int | None:
        """Return the offset of the message before that one, or the offset before the position of a seek.

        Offsets have gaps where transactions end. The answer is dropped: a caller asks once for each message.
        None where the message was read before a seek.
        """
        return self._before.get(tp, {}).pop(offset, None)

    async def _seek_wait(self, consumer: Any, partitions: Mapping[TP, Any]) -> None:
        self._last.update((tp, offset - 1) for tp, offset in partitions.items())
        await sought(super()._seek_wait(consumer, partitions), consumer, partitions)
        for tp, offset in partitions.items():
            self._last[tp], self._before[tp] = offset - 1, {}

    async def _fetch_records(
        self, consumer: Any, active_partitions: set[TP], *args: Any, **kwargs: Any
    ) -> Any:
        # Faust changes the set while aiokafka waits, and aiokafka takes an empty one for all partitions.
        active = set(active_partitions)
        fetched: Any = await super()._fetch_records(consumer, active, *args, **kwargs) if active else {}
        for place, records in fetched.items():
            tp = TP(place.topic, place.partition)
            if tp.topic not in self.app.tables.changelog_topics:
                before = self._before.setdefault(tp, {})
                for record in records:
                    offset: int = record.offset
                    last = self._last.get(tp, offset - 1)
                    if offset <= last:
                        # It was fetched before a seek, or aiokafka began at 0 in a recreated topic.
                        self.repeated.add(tp)
                        continue
                    before[offset], self._last[tp] = last, offset
        return fetched

    async def on_start(self) -> None:
        """Begin to read, and to note the group's answers to heartbeats."""
        await super().on_start()
        consumer: Any = self._ensure_consumer()
        stay(consumer)
        self.membership.watch(consumer)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Take over an assignment, which confirms the membership."""
        self.membership.confirm()
        # Records of an earlier assignment may be fetched again.
        self._last, self._before, self.repeated = {}, {}, set()
        await super().on_partitions_assigned(assigned, generation_id)

    def _create_worker_consumer(self, transport: driver.Transport) -> Any:
        consumer: Any = super()._create_worker_consumer(transport)
        assert consumer._isolation_level == "read_uncommitted", "aiokafka has another name for it"
        consumer._isolation_level = "read_committed"
        assert consumer._fetch_max_wait_ms > FETCH_WAIT_MS, "aiokafka has another name for it"
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        return consumer


async def sought(seeking: Awaitable[None], consumer: Any, partitions: Iterable[TP]) -> None:
    """Wait for a seek; in a rebalance meanwhile, the next owner of the partitions seeks for itself."""
    try:
        await seeking
    except IllegalStateError:
        if consumer.assignment().issuperset(partitions):
            raise


class Consumer(driver.Consumer):
    """A consumer that continues at, and commits, the offsets of its app's progress."""

    app: Any
    _thread: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._held: set[TP] = set()
        super().__init__(*args, **kwargs)

    def _new_consumer_thread(self) -> CommittedThread:
        return CommittedThread(self, loop=self.loop, beacon=self.beacon)

    @property
    def refusal(self) -> BaseException | None:
        """Return the error for which the process has left its group; see `refusal_of`."""
        return None if self._thread._consumer is None else refusal_of(self._thread._consumer)

    async def membership(self) -> None:
        """Return while no other member can have our partitions; end the process where others have them."""
        await self._thread.membership.wait(self.app.conf.broker_session_timeout, self.app.progress.fail)

    def ack(self, message: Message) -> bool:
        """Note that the stream has dropped a message; whether it is judged, the progress knows."""
        is_first = not message.acked
        message.acked = True
        self._unacked_messages.discard(message)
        notify(self._waiting_for_ack)
        return is_first

    async def wait_empty(self) -> None:
        """Finish the messages in hand, before a rebalance or the end of the process.

        Faust would wait until the stream has dropped all messages, which may itself wait for the rebalance.
        """
        await self.app.progress.finish()

    def _filter_committable_offsets(self, tps: Iterable[TP]) -> dict[TP, int]:  # noqa: ARG002
        going_on = self.app.progress.going_on()
        return {tp: offset for tp, offset in going_on.items() if offset > (self._committed_offset[tp] or 0)}

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        done = await super()._commit(offsets)
        fault_point(MonitorFault.COMMITTED)
        return done

    async def perform_seek(self) -> None:
        """Seek to the offsets of the state."""
        assigned = self.assignment()
        going_on = {tp: at for tp, at in self.app.progress.going_on().items() if tp in assigned}
        if going_on:
            await self._thread.seek_wait(going_on)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Ignore gaps: every transaction's marker leaves one, and nothing here reads them."""

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        """Read the changelog at once, events only after the last `resume_flow`.

        Faust would read events while it looks for their positions, and then drop them.
        """
        changelogs = self.app.tables.changelog_topics
        self._held = {tp for tp in tps if tp.topic not in changelogs}
        super().resume_partitions({tp for tp in tps if tp.topic in changelogs})

    def stop_flow(self) -> None:
        """Stop the flow of messages before a rebalance."""
        super().stop_flow()
        self._held = set()

    def resume_flow(self) -> None:
        """Resume the flow of messages, that of events after recovery, which seeks to their positions."""
        super().resume_flow()
        if self.app.in_recovery:
            return
        held, self._held = self._held, set()
        super().resume_partitions(held)

    def on_buffer_drop(self, tp: TP) -> None:
        """Resume a partition whose buffered messages are judged, except in a rebalance."""
        if self.flow_active and not self.app.rebalancing and tp in self.assignment():
            super().on_buffer_drop(tp)
        else:
            self._buffered_partitions.discard(tp)

    def before(self, message: Any) -> int | None:
        """Return the offset of the message before that one, as `CommittedThread.before`."""
        return self._thread.before(message.tp, message.offset)

    @property
    def repeated(self) -> set[TP]:
        """Return the partitions whose offsets came again, until the process checks the topic."""
        return self._thread.repeated


class Producer(driver.Producer):
    """A producer whose records are neither doubled nor out of order when it sends them again."""

    app: Any

    async def on_start(self) -> None:
        """Begin to send; a process that slept sends its waiting records only while it is a member."""
        await super().on_start()
        producer: Any = self._ensure_producer()
        sender = producer._sender
        send = sender._send_produce_req

        async def guarded(node_id: Any, batches: Any) -> None:
            await self.app.consumer.membership()
            await send(node_id, batches)

        sender._send_produce_req = guarded

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"acks": "all", "enable_idempotence": True}


class Transport(driver.Transport):
    """The transport with this consumer and this producer."""

    Consumer = Consumer
    Producer = Producer
