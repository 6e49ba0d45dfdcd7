"""Faust's transport of Kafka, where the monitor needs another one.

Reading: only what is committed (Faust reads the rest, too, unless it works in transactions). Where to go on
is what the monitor's own state says, never the group's offsets, since Faust acknowledges messages that it
throws away when partitions move: what is committed is told from that state as well, for whoever looks how
far the monitor is. Writing: once, and in order.
"""

# Faust's own types are partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, NoReturn, Protocol

from aiokafka.errors import IllegalStateError  # pyright: ignore[reportMissingTypeStubs]
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, Message
from mode.utils.futures import notify

from ...error import StreamError
from ...process.faultpoints import MonitorFault, fault_point

ASK_S = 0.05


class Progress(Protocol):
    """Who knows how far each partition is."""

    def going_on(self) -> Mapping[TP, int]:
        """The offset to go on from, of each partition that is worked on: all before it is done with."""
        ...

    async def finish(self) -> None:
        """Finish the messages in hand, commit, and take none until partitions are assigned again."""
        ...

    def fail(self, error: BaseException) -> NoReturn:
        """End the process."""
        ...


class CommittedThread(driver.AIOKafkaConsumerThread):
    """The thread that reads: only what is committed. It knows when the group last took it for a member."""

    app: Any
    member_at = 0.0
    """When it last was, in seconds of the monotonic clock."""
    is_outsider = False
    """Whether the group has let it go since it was given its partitions."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._last: dict[TP, int] = {}
        self._before: dict[TP, dict[int, int]] = {}
        self.repeated: set[TP] = set()
        """Partitions of which an offset came again since they were assigned, until the topic was checked."""

    def before(self, tp: TP, offset: int) -> int | None:
        """The offset of the message before that one, or the one behind which reading was to begin.

        Offsets have gaps where transactions end. To be asked once, for each message; None where it was read
        before reading began anew.
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
                        # Either this was fetched before a seek, or aiokafka begins at 0 in another topic.
                        self.repeated.add(tp)
                        continue
                    before[offset], self._last[tp] = last, offset
        return fetched

    async def on_start(self) -> None:
        """Begin to read, and to note what the group answers to heartbeats."""
        await super().on_start()
        consumer: Any = self._ensure_consumer()
        stay(consumer)
        coordinator = consumer._coordinator
        beat = coordinator._do_heartbeat

        async def noted() -> bool:
            sent_at = time.monotonic()
            is_member: bool = await beat()
            if is_member:
                self.member_at = sent_at
            elif coordinator.generation < 0:
                self.is_outsider = True
            return is_member

        coordinator._do_heartbeat = noted

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Have partitions: the group has just said so."""
        self.member_at, self.is_outsider = time.monotonic(), False
        # What was fetched when partitions were here before may be fetched again.
        self._last, self._before, self.repeated = {}, {}, set()
        await super().on_partitions_assigned(assigned, generation_id)

    def _create_worker_consumer(self, transport: driver.Transport) -> Any:
        consumer: Any = super()._create_worker_consumer(transport)
        assert consumer._isolation_level == "read_uncommitted", "aiokafka calls it otherwise now"
        consumer._isolation_level = "read_committed"
        return consumer


async def sought(seeking: Awaitable[None], consumer: Any, partitions: Iterable[TP]) -> None:
    """Wait for a seek; where its partitions move meanwhile, whoever is given them next seeks for himself."""
    try:
        await seeking
    except IllegalStateError:
        if consumer.assignment().issuperset(partitions):
            raise


def stay(consumer: Any) -> None:
    """Let a consumer that has no partitions stay in its group, to take over when another one ends.

    aiokafka (0.14) takes it for one that hangs, since it reads nothing: after `max_poll_interval_ms` it would
    leave the group for good.
    """
    coordinator = consumer._coordinator
    beat = coordinator._do_heartbeat

    async def beating() -> bool:
        if not consumer.assignment():
            with consumer._subscription.fetch_context():
                pass
        return await beat()

    coordinator._do_heartbeat = beating


def refusal_of(consumer: Any) -> BaseException | None:
    """Why a consumer takes no part in its group any more; None where it does.

    Faust is not told, and would wait for ever: it reads in a way in which aiokafka raises nothing.
    """
    coordinator = consumer._coordinator
    if coordinator is None:
        # It is about to start.
        return None
    task = coordinator._coordination_task
    if task.done() and not task.cancelled() and (error := task.exception()) is not None:
        return error
    return coordinator._pending_exception


class Consumer(driver.Consumer):
    """The consumer: goes on, and commits, where its app's progress says."""

    app: Any
    _thread: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._held: set[TP] = set()
        super().__init__(*args, **kwargs)

    def _new_consumer_thread(self) -> CommittedThread:
        return CommittedThread(self, loop=self.loop, beacon=self.beacon)

    @property
    def refusal(self) -> BaseException | None:
        """Why the process takes no part in its group any more; see `refusal_of`."""
        return None if self._thread._consumer is None else refusal_of(self._thread._consumer)

    async def membership(self) -> None:
        """Return while no one else can have our partitions yet; end the process where others have them."""
        timeout_s = self.app.conf.broker_session_timeout
        while time.monotonic() - self._thread.member_at >= timeout_s:
            if self._thread.is_outsider:
                what = f"was silent for more than {timeout_s:g} s, and others have its partitions"
                hint = "nothing is lost: start it again, with more --timeout-s where it was busy"
                self.app.progress.fail(StreamError("TRL746", what, hint))
            await asyncio.sleep(ASK_S)

    def ack(self, message: Message) -> bool:
        """Hear that the stream has let go of a message, which says nothing of whether it was worked off."""
        is_first = not message.acked
        message.acked = True
        self._unacked_messages.discard(message)
        notify(self._waiting_for_ack)
        return is_first

    async def wait_empty(self) -> None:
        """Finish what is in hand, before partitions move or the process ends.

        Faust would wait until the stream has let go of all that it was given, though that may itself wait
        for the partitions to be let go of.
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
        """Read on from where the state says."""
        assigned = self.assignment()
        going_on = {tp: at for tp, at in self.app.progress.going_on().items() if tp in assigned}
        if going_on:
            await self._thread.seek_wait(going_on)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Leave gaps alone: every transaction's mark leaves one, and nobody asks for them here."""

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        """Read the changelog; events not before the last `resume_flow`.

        Faust would read them already while it looks for where to begin, and then throw away what it has.
        """
        changelogs = self.app.tables.changelog_topics
        self._held = {tp for tp in tps if tp.topic not in changelogs}
        super().resume_partitions({tp for tp in tps if tp.topic in changelogs})

    def stop_flow(self) -> None:
        """Let no message through: partitions are about to move."""
        super().stop_flow()
        self._held = set()

    def resume_flow(self) -> None:
        """Let messages through; events not before recovery has ended, which seeks where to go on."""
        super().resume_flow()
        if self.app.in_recovery:
            return
        held, self._held = self._held, set()
        super().resume_partitions(held)

    def on_buffer_drop(self, tp: TP) -> None:
        """Read on from a partition whose messages have been worked off, unless partitions move."""
        if self.flow_active and not self.app.rebalancing and tp in self.assignment():
            super().on_buffer_drop(tp)
        else:
            self._buffered_partitions.discard(tp)

    def before(self, message: Any) -> int | None:
        """The offset of the message before that one, as `CommittedThread.before` has it."""
        return self._thread.before(message.tp, message.offset)

    @property
    def repeated(self) -> set[TP]:
        """The partitions of which an offset came again, until the topic was checked."""
        return self._thread.repeated


class Producer(driver.Producer):
    """The producer: a record that is sent again after an error is neither doubled nor out of order."""

    app: Any

    async def on_start(self) -> None:
        """Begin to send; what waits to be sent while the process sleeps is not sent when it wakes."""
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
    """The transport with both."""

    Consumer = Consumer
    Producer = Producer
