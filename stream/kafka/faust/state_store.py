"""The monitor's local copy of its state: a store for each partition, in memory or on disk.

A store never has more than the changelog: Kafka has acknowledged every record before it is put there. Faust's
stores write before they send, so that after a crash a table on disk could have records that no other process
ever reads.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ....schemas.attempt import attempt
from ....schemas.time import NS
from ...error import StreamError
from ...messages.codec import partition_of

STALE_S = 12 * 3_600
"""The greatest age of a store on disk: its topic holds the deletion of a key for twice that long."""
WRITE_BUFFER_BYTES = 16 << 20
_FULL = ("no space left", "file too large", "quota exceeded")
"""Parts of the system's messages about a full disk or quota."""
_APPLIED = b"@applied"
_AT = struct.Struct(">qq")
_NOTHING = -1


class PartitionStore(Protocol):
    """The records of one partition by key, and the part of the changelog that they cover."""

    @property
    def applied(self) -> int:
        """Return the offset of the last record of the changelog that it has; -1 where it is empty."""
        ...

    @property
    def size(self) -> int:
        """Return the size of all records in bytes (estimated)."""
        ...

    def get(self, key: bytes) -> bytes | None:
        """Return the record under a key."""
        ...

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys and records."""
        ...

    def put(self, writes: Iterable[tuple[bytes, bytes | None]], applied: int) -> None:
        """Write records, None deletes a key; after a crash the store has all of the writes or none."""
        ...

    def close(self) -> None:
        """Release it; its files stay."""
        ...

    def discard(self) -> None:
        """Release it, and delete its files."""
        ...


class MemoryPartitionStore:
    """A store that ends with the process."""

    def __init__(self) -> None:
        self._held: dict[bytes, bytes] = {}
        self.applied = _NOTHING
        self.size = 0

    def get(self, key: bytes) -> bytes | None:
        """Return the record under a key."""
        return self._held.get(key)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys and records."""
        return iter(self._held.items())

    def put(self, writes: Iterable[tuple[bytes, bytes | None]], applied: int) -> None:
        """Write records; None deletes a key."""
        for key, value in writes:
            self.size += len(value or b"") - len(self._held.get(key, b""))
            if value is None:
                self._held.pop(key, None)
            else:
                self._held[key] = value
        self.applied = applied

    def close(self) -> None:
        """Drop all records."""
        self._held.clear()

    def discard(self) -> None:
        """Drop all records."""
        self._held.clear()


class DiskPartitionStore:
    """A store in a RocksDB database, which a restart continues.

    A store that was unused for longer than `STALE_S` is recreated: the changelog may no longer hold the
    deletions of that time. `now` returns nanoseconds since the epoch.
    """

    def __init__(self, path: Path, now: Callable[[], int]) -> None:
        self._path, self._now = path, now
        self._base = _opened(path)
        with _disk_errors(path):
            self.applied, at = self._applied()
        # The clock may have been ahead then, or be behind now.
        if self.applied != _NOTHING and abs(now() - at) > STALE_S * NS:
            self.discard()
            self._base = _opened(path)
            self.applied = _NOTHING

    @property
    def size(self) -> int:
        """Return the bytes on disk and in RocksDB's buffers, as RocksDB estimates them."""
        names = ("rocksdb.estimate-live-data-size", "rocksdb.cur-size-active-mem-table")
        with _disk_errors(self._path):
            return sum(self._base.property_int_value(name) or 0 for name in names)

    def _applied(self) -> tuple[int, int]:
        data: bytes | None = self._base.get(_APPLIED)
        return _AT.unpack(data) if data is not None and len(data) == _AT.size else (_NOTHING, 0)

    def get(self, key: bytes) -> bytes | None:
        """Return the record under a key."""
        with _disk_errors(self._path):
            return self._base.get(key)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys and records. Raises StreamError (TRL743) where a file is damaged."""
        with _disk_errors(self._path):
            cursor = self._base.iter()
            cursor.seek_to_first()
            while cursor.valid():
                if (key := cursor.key()) != _APPLIED:
                    yield key, cursor.value()
                cursor.next()
            # The cursor ends at a damaged block as it does at the end; only its status differs.
            cursor.status()

    def put(self, writes: Iterable[tuple[bytes, bytes | None]], applied: int) -> None:
        """Write records; None deletes a key. Raises StreamError (TRL743) where the disk refuses them."""
        from rocksdict import WriteBatch

        batch: Any = WriteBatch(raw_mode=True)
        for key, value in writes:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        batch.put(_APPLIED, _AT.pack(applied, self._now()))
        with _disk_errors(self._path):
            self._base.write(batch)
        self.applied = applied

    def close(self) -> None:
        """Release it; its files stay."""
        with _disk_errors(self._path):
            self._base.close()

    def discard(self) -> None:
        """Release it, and delete its files."""
        # An error ends nothing: the files that it could not write are deleted next.
        attempt(self._base.close)
        with _disk_errors(self._path):
            shutil.rmtree(self._path)


def _opened(path: Path) -> Any:
    from rocksdict import Options, Rdict

    options: Any = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    with _disk_errors(path):
        return Rdict(str(path), options)


@contextmanager
def _disk_errors(path: Path) -> Generator[None]:
    """Raise StreamError (TRL743), which names the folder, for an error of RocksDB inside.

    RocksDB has no errors of its own; its texts name files alone.
    """
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            # An error in this program, or the end of the process.
            raise
        hint = "make room on the disk and start again: nothing is lost"
        if not any(text in str(error).lower() for text in _FULL):
            hint = f"delete {path}, which is restored from Kafka, or choose another data_folder"
        raise StreamError("TRL743", f"{path} cannot be used: {error}", hint) from None


@contextmanager
def locked(folder: Path) -> Generator[Path]:
    """Lock the folder for this process. Raises StreamError (TRL743) where another process has locked it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise StreamError(
            "TRL743", f"{folder} cannot be written: {reason}", "choose another --data"
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "give each process a --data of its own"
            raise StreamError("TRL743", f"another process keeps its state in {folder}", hint) from None
        yield folder
    finally:
        os.close(lock)


class PartitionStores:
    """The stores of the partitions that this process is assigned, of `partitions` in total.

    `make` creates or opens the store of a partition.
    """

    def __init__(self, partitions: int, make: Callable[[int], PartitionStore]) -> None:
        self._partitions, self._make = partitions, make
        self._open: dict[int, PartitionStore] = {}

    def get(self, key: str) -> bytes | None:
        """Return the record under a key; None where its partition is not assigned."""
        store = self._open.get(self._partition(key))
        return None if store is None else store.get(_bytes(key))

    def items(self, partitions: Iterable[int]) -> Iterator[tuple[str, bytes]]:
        """Yield all keys and records of these partitions."""
        for number in partitions:
            for key, value in self._open[number].items():
                yield key.decode("utf-8", "surrogatepass"), value

    def size(self) -> int:
        """Return the size of the open stores in bytes (estimated)."""
        return sum(store.size for store in self._open.values())

    def numbers(self) -> list[int]:
        """Return the partitions with an open store."""
        return list(self._open)

    def applied(self, partition: int) -> int | None:
        """Return the last offset of the changelog that a store has; None where it is empty or not open."""
        store = self._open.get(partition)
        return None if store is None or store.applied == _NOTHING else store.applied

    def applied_of(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the last offset of the changelog by partition, of these stores that are not empty."""
        found = {number: self.applied(number) for number in partitions}
        return {number: applied for number, applied in found.items() if applied is not None}

    def open(self, partition: int) -> PartitionStore:
        """Open the store of a partition, or return it. Raises StreamError (TRL743) where it cannot."""
        if partition not in self._open:
            self._open[partition] = self._make(partition)
        return self._open[partition]

    def discard(self, partition: int) -> None:
        """Delete the store of a partition that another process is assigned: it would grow stale here."""
        store = self._open.pop(partition, None)
        if store is not None:
            store.discard()

    def close(self) -> None:
        """Release all stores."""
        while self._open:
            self._open.popitem()[1].close()

    def _partition(self, key: str) -> int:
        kind, _, rest = key.partition("/")
        return partition_of(rest, self._partitions) if kind == "s" else int(rest.partition("/")[0])


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
