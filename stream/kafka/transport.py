"""Faust's transport of Kafka, where the monitor needs another one.

Reading: only what is committed (Faust reads the rest, too, unless it works in transactions). Where to go on
is what the monitor's own state says, never the group's offsets, since Faust acknowledges messages that it
throws away when partitions move: what is committed is told from that state as well, for whoever looks how
far the monitor is. Writing: once, and in order.
"""

# Faust's own types are partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from faust.transport.drivers import aiokafka as driver
from faust.types import TP, Message
from mode.utils.futures import notify

from ..faults import MonitorFault, reach


class Progress(Protocol):
    """Who knows how far each partition is."""

    def going_on(self) -> Mapping[TP, int]:
        """The offset to go on from, of each partition that is worked on: all before it is done with."""
        ...


class CommittedThread(driver.AIOKafkaConsumerThread):
    """The thread that reads: only what is committed. It knows when the group last took it for a member."""

    member_at = 0.0

    async def on_start(self) -> None:
        """Begin to read, and to note each heartbeat that was answered well, by when it was sent."""
        await super().on_start()
        consumer: Any = self._ensure_consumer()
        coordinator = consumer._coordinator
        beat = coordinator._do_heartbeat

        async def noted() -> bool:
            sent_at = time.monotonic()
            is_member: bool = await beat()
            if is_member:
                self.member_at = sent_at
            return is_member

        coordinator._do_heartbeat = noted

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Have partitions: the group has just said so."""
        self.member_at = time.monotonic()
        await super().on_partitions_assigned(assigned, generation_id)

    def _create_worker_consumer(self, transport: driver.Transport) -> Any:
        consumer: Any = super()._create_worker_consumer(transport)
        assert consumer._isolation_level == "read_uncommitted", "aiokafka calls it otherwise now"
        consumer._isolation_level = "read_committed"
        return consumer


class Consumer(driver.Consumer):
    """The consumer: goes on, and commits, where its app's progress says."""

    app: Any
    _thread: Any

    def _new_consumer_thread(self) -> CommittedThread:
        return CommittedThread(self, loop=self.loop, beacon=self.beacon)

    def is_member(self, timeout_s: float) -> bool:
        """Whether no one else can have our partitions yet: the group has heard of us within that time."""
        return time.monotonic() - self._thread.member_at < timeout_s

    def ack(self, message: Message) -> bool:
        """Hear that the stream has let go of a message, which says nothing of whether it was worked off."""
        is_first = not message.acked
        message.acked = True
        self._unacked_messages.discard(message)
        notify(self._waiting_for_ack)
        return is_first

    def _filter_committable_offsets(self, tps: Iterable[TP]) -> dict[TP, int]:  # noqa: ARG002
        going_on = self.app.progress.going_on()
        return {tp: offset for tp, offset in going_on.items() if offset > (self._committed_offset[tp] or 0)}

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        done = await super()._commit(offsets)
        reach(MonitorFault.COMMITTED)
        return done

    async def perform_seek(self) -> None:
        """Read on from where the state says."""
        assigned = self.assignment()
        going_on = {tp: at for tp, at in self.app.progress.going_on().items() if tp in assigned}
        if going_on:
            await self._thread.seek_wait(going_on)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Leave gaps alone: every transaction's mark leaves one, and nobody asks for them here."""

    def on_buffer_drop(self, tp: TP) -> None:
        """Read on from a partition whose messages have been worked off, if it is still ours."""
        if tp in self.assignment():
            super().on_buffer_drop(tp)


class Producer(driver.Producer):
    """The producer: a record that is sent again after an error is neither doubled nor out of order."""

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"acks": "all", "enable_idempotence": True}


class Transport(driver.Transport):
    """The transport with both."""

    Consumer = Consumer
    Producer = Producer
