"""The monitor's state as a Faust table: changelog and recovery are Faust's, writing is its own.

A write is sent to the changelog, in order and to the partition of the message that it belongs to; the
process's own stores take it once Kafka has acknowledged all of it. Assigning to the table, as Faust has
it, would only queue the record.
"""

# Faust's own types are partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import faust
from faust.stores.base import Store
from faust.tables.manager import TableManager
from faust.types import TP

from ...process.faultpoints import MonitorFault, fault_point
from .state_store import PartitionStores

NAME = "state"


class MonitorRunner(Protocol):
    """Whose state it is."""

    async def recovered(self, partitions: frozenset[int]) -> None:
        """All that is remembered of these partitions is on their stores; there are no others here."""
        ...

    def fail(self, error: BaseException) -> NoReturn:
        """End the process."""
        ...


class Tables(TableManager):
    """Faust's tables, which begin at once: it would give agents a second to start, and ours has by then."""

    async def on_start(self) -> None:
        """Say what the changelog is called, and begin to read it."""
        await self._update_channels()
        await self.recovery.start()


class ShelfStore(Store[str, bytes]):
    """The stores, as Faust's recovery fills them. Faust goes on after an error here; the monitor must not."""

    app: Any
    table: Any

    def __init__(self, *args: Any, stores: PartitionStores, monitor: MonitorRunner, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stores, self._monitor = stores, monitor

    @contextmanager
    def _sound(self) -> Generator[None]:
        try:
            yield
        except Exception as error:
            self._monitor.fail(error)
            raise

    def persisted_offset(self, tp: TP) -> int | None:
        """Up to where the changelog need not be read again."""
        return self._stores.applied(tp.partition)

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],  # noqa: ARG002
        generation_id: int = 0,  # noqa: ARG002
    ) -> None:
        """Open the stores of partitions that are ours now, and forget those that are not any more."""
        with self._sound():
            for tp in revoked:
                if self._is_ours(tp):
                    self._stores.discard(tp.partition)
            for tp in assigned:
                if self._is_ours(tp):
                    self._stores.open(tp.partition)

    def apply_changelog_batch(self, batch: Iterable[Any], to_key: Any, to_value: Any) -> None:  # noqa: ARG002
        """Put what was read of the changelog where it belongs."""
        writes: dict[int, list[tuple[bytes, bytes | None]]] = {}
        ends: dict[int, int] = {}
        for event in batch:
            message = event.message
            writes.setdefault(message.partition, []).append((message.key, message.value))
            ends[message.partition] = message.offset
        with self._sound():
            for number, own in writes.items():
                self._stores.open(number).put(own, ends[number])

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:  # noqa: ARG002
        """All that is remembered of these partitions is here."""
        with self._sound():
            await self._monitor.recovered(frozenset(tp.partition for tp in active_tps))

    async def stop(self) -> None:
        """Let go of the stores."""
        self._stores.close()
        await super().stop()

    def reset_state(self) -> None:
        """Leave the stores: which of them may stay they know themselves."""

    async def backup_partition(self, *_: Any, **__: Any) -> None:
        """Leave it: the changelog is the backup."""

    def restore_backup(self, *_: Any, **__: Any) -> None:
        """Leave it: recovery restores the changelog."""

    def __getitem__(self, key: str) -> bytes:
        value = self._stores.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: bytes) -> None:
        raise TypeError("the table is changed by `StateTable.write` alone")

    def __delitem__(self, key: str) -> None:
        raise TypeError("the table is changed by `StateTable.write` alone")

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self._stores.items(self._stores.numbers()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _is_ours(self, tp: TP) -> bool:
        return tp.topic == self.table.changelog_topic_name


class StateTable(faust.Table[str, bytes]):
    """The table; `write` is the only way to change it."""

    app: Any

    def __init__(self, app: Any, *, stores: PartitionStores, monitor: MonitorRunner, **kwargs: Any) -> None:
        super().__init__(app, name=NAME, key_type=bytes, value_type=bytes, **kwargs)
        self._stores, self._monitor = stores, monitor

    def _new_store(self) -> ShelfStore:
        return ShelfStore("store://", self.app, self, stores=self._stores, monitor=self._monitor)

    async def write(self, partition: int, writes: Sequence[tuple[str, bytes | None]]) -> None:
        """Write to the changelog, in order, and return once Kafka and the store have all of it."""
        if not writes:
            return
        topic = self.changelog_topic_name
        encoded = [(key.encode("utf-8", "surrogatepass"), value) for key, value in writes]
        acknowledged = [
            await self.app.producer.send(topic, key, value, partition, None, None) for key, value in encoded
        ]
        fault_point(MonitorFault.WRITTEN)
        ends = await asyncio.gather(*acknowledged)
        fault_point(MonitorFault.ACKNOWLEDGED)
        store = self._stores.open(partition)
        # Of a record that it has twice Kafka does not say where it is.
        store.put(encoded, max(store.applied, *(end.offset for end in ends)))
