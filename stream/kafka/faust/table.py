"""The monitor's state as a Faust table: changelog and recovery are Faust's, writing is not.

`StateTable.write` sends records to the changelog, in order and to the partition of their message; the stores
take them once Kafka has acknowledged them all. Assigning to a Faust table only queues the record.
"""

# Faust's own types are partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
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
    """The process that owns the state."""

    async def recovered(self, partitions: frozenset[int]) -> None:
        """Continue with these partitions, which are all of the process; their stores have the state."""
        ...

    def fail(self, error: BaseException) -> NoReturn:
        """End the process."""
        ...


class Tables(TableManager):
    """Faust's tables, without the second that Faust gives its agents to start: the monitor's has by then."""

    async def on_start(self) -> None:
        """Register the changelog, and begin to read it."""
        await self._update_channels()
        await self.recovery.start()


class RecoveredStore(Store[str, bytes]):
    """The stores as Faust's recovery fills them. Faust continues after an error here; the monitor ends."""

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
        """Return the offset of the last record of the changelog that need not be read again."""
        return self._stores.applied(tp.partition)

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],  # noqa: ARG002
        generation_id: int = 0,  # noqa: ARG002
    ) -> None:
        """Open the stores of the assigned partitions, and delete those of the revoked ones."""
        with self._sound():
            for tp in revoked:
                if self._is_of_changelog(tp):
                    self._stores.discard(tp.partition)
            for tp in assigned:
                if self._is_of_changelog(tp):
                    self._stores.open(tp.partition)

    def apply_changelog_batch(self, batch: Iterable[Any], to_key: Any, to_value: Any) -> None:  # noqa: ARG002
        """Put records of the changelog into the stores of their partitions."""
        writes: dict[int, list[tuple[bytes, bytes | None]]] = {}
        ends: dict[int, int] = {}
        for event in batch:
            message = event.message
            writes.setdefault(message.partition, []).append((message.key, message.value))
            ends[message.partition] = message.offset
        with self._sound():
            for number, its_writes in writes.items():
                self._stores.open(number).put(its_writes, ends[number])

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:  # noqa: ARG002
        """Hand the restored partitions to the monitor."""
        with self._sound():
            await self._monitor.recovered(frozenset(tp.partition for tp in active_tps))

    async def stop(self) -> None:
        """Release the stores."""
        self._stores.close()
        await super().stop()

    def reset_state(self) -> None:
        """Leave the stores, each of which knows whether it is stale."""

    async def backup_partition(self, *_: Any, **__: Any) -> None:
        """Do nothing: the changelog is the backup."""

    def restore_backup(self, *_: Any, **__: Any) -> None:
        """Do nothing: recovery reads the changelog."""

    def __getitem__(self, key: str) -> bytes:
        value = self._stores.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: bytes) -> None:
        raise TypeError("only `StateTable.write` changes the table")

    def __delitem__(self, key: str) -> None:
        raise TypeError("only `StateTable.write` changes the table")

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self._stores.items(self._stores.numbers()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _is_of_changelog(self, tp: TP) -> bool:
        return tp.topic == self.table.changelog_topic_name


class StateTable(faust.Table[str, bytes]):
    """The table; `write` is the only way to change it."""

    app: Any

    def __init__(self, app: Any, *, stores: PartitionStores, monitor: MonitorRunner, **kwargs: Any) -> None:
        super().__init__(app, name=NAME, key_type=bytes, value_type=bytes, **kwargs)
        self._stores, self._monitor = stores, monitor

    def _new_store(self) -> RecoveredStore:
        return RecoveredStore("store://", self.app, self, stores=self._stores, monitor=self._monitor)

    async def write(self, writes: Mapping[int, Sequence[tuple[str, bytes | None]]]) -> None:
        """Write to the changelog, in order by partition; return once Kafka and the stores have all of it."""
        if not writes:
            return
        topic, send = self.changelog_topic_name, self.app.producer.send
        encoded = {
            number: [(key.encode("utf-8", "surrogatepass"), value) for key, value in its_writes]
            for number, its_writes in writes.items()
        }
        acknowledged = {
            number: [await send(topic, key, value, number, None, None) for key, value in its_writes]
            for number, its_writes in encoded.items()
        }
        fault_point(MonitorFault.WRITTEN)
        ends = {number: await asyncio.gather(*futures) for number, futures in acknowledged.items()}
        fault_point(MonitorFault.ACKNOWLEDGED)
        for number, its_writes in encoded.items():
            store = self._stores.open(number)
            # Kafka returns no offset for a record that it had before.
            store.put(its_writes, max(store.applied, *(end.offset for end in ends[number])))
