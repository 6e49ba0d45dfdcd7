"""What the monitor remembers, between two looks into Kafka: a store for each partition, in memory or on disk.

A store never holds more than the changelog: what is put on it was acknowledged there before. Faust's own
stores write first and send then, so that after a crash a table on disk might hold what no other process
will ever know.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from ....schemas.time import NS
from ...error import StreamError
from ...messages.codec import partition_of

STALE_S = 12 * 3_600
"""How old a store on disk may be: its topic keeps for twice that long what says that a key is forgotten."""
WRITE_BUFFER_BYTES = 16 << 20
_FULL = ("no space left", "file too large", "quota exceeded")
"""How the system calls a disk, or a share of one, that is full."""
_APPLIED = b"@applied"
_AT = struct.Struct(">qq")
_NOTHING = -1


class PartitionStore(Protocol):
    """What is remembered of one partition, by key, and how much of the changelog that is."""

    @property
    def applied(self) -> int:
        """The offset in the changelog up to which it holds everything; -1 where it is empty."""
        ...

    @property
    def size(self) -> int:
        """Return how many bytes are under all its keys, or about."""
        ...

    def get(self, key: bytes) -> bytes | None:
        """Return what is under a key."""
        ...

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys and what is under them."""
        ...

    def put(self, writes: Iterable[tuple[bytes, bytes | None]], applied: int) -> None:
        """Put all of this there, None where a key is forgotten; all of it or, after a crash, nothing."""
        ...

    def close(self) -> None:
        """Let go of it; what is on disk stays."""
        ...

    def discard(self) -> None:
        """Let go of it, and leave nothing on disk."""
        ...


class MemoryPartitionStore:
    """A store that ends with the process."""

    def __init__(self) -> None:
        self._held: dict[bytes, bytes] = {}
        self.applied = _NOTHING
        self.size = 0

    def get(self, key: bytes) -> bytes | None:
        """Return what is under a key."""
        return self._held.get(key)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys and what is under them."""
        return iter(self._held.items())

    def put(self, writes: Iterable[tuple[bytes, bytes | None]], applied: int) -> None:
        """Put all of this there."""
        for key, value in writes:
            self.size += len(value or b"") - len(self._held.get(key, b""))
            if value is None:
                self._held.pop(key, None)
            else:
                self._held[key] = value
        self.applied = applied

    def close(self) -> None:
        """Let go of it."""
        self._held.clear()

    def discard(self) -> None:
        """Let go of it."""
        self._held.clear()


class DiskPartitionStore:
    """A store in a RocksDB database, which a restart goes on with.

    One that was left alone for longer than `STALE_S` is made anew: what was forgotten meanwhile, the
    changelog may not say any more. `now` is the time in nanoseconds since the epoch.
    """

    def __init__(self, path: Path, now: Callable[[], int]) -> None:
        self._path, self._now = path, now
        self._base = _opened(path)
        with _disk_errors(path):
            self.applied, at = self._applied()
        # A clock that was ahead then says as little of its age as one that is behind now.
        if self.applied != _NOTHING and abs(now() - at) > STALE_S * NS:
            self.discard()
            self._base = _opened(path)
            self.applied = _NOTHING

    @property
    def size(self) -> int:
        """Return how many bytes there are on disk and on their way there, as RocksDB estimates."""
        names = ("rocksdb.estimate-live-data-size", "rocksdb.cur-size-active-mem-table")
        with _disk_errors(self._path):
            return sum(self._base.property_int_value(name) or 0 for name in names)

    def _applied(self) -> tuple[int, int]:
        data: bytes | None = self._base.get(_APPLIED)
        return _AT.unpack(data) if data is not None and len(data) == _AT.size else (_NOTHING, 0)

    def get(self, key: bytes) -> bytes | None:
        """Return what is under a key."""
        with _disk_errors(self._path):
            return self._base.get(key)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys and what is under them. Raises StreamError (TRL743) where a file is damaged."""
        with _disk_errors(self._path):
            cursor = self._base.iter()
            cursor.seek_to_first()
            while cursor.valid():
                if (key := cursor.key()) != _APPLIED:
                    yield key, cursor.value()
                cursor.next()
            # The cursor ends at a damaged block as it does at the end; only its status tells them apart.
            cursor.status()

    def put(self, writes: Iterable[tuple[bytes, bytes | None]], applied: int) -> None:
        """Put all of this there. Raises StreamError (TRL743) where the disk does not take it."""
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
        """Let go of it; what is on disk stays."""
        with _disk_errors(self._path):
            self._base.close()

    def discard(self) -> None:
        """Let go of it, and leave nothing on disk."""
        with suppress(Exception):
            # What it could not write is deleted next.
            self._base.close()
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
            # A fault of ours, or the end of the process.
            raise
        hint = "make room on the disk and start again: nothing is lost"
        if not any(text in str(error).lower() for text in _FULL):
            hint = f"delete {path}, which is made again from Kafka, or choose another data_folder"
        raise StreamError("TRL743", f"{path} cannot be used: {error}", hint) from None


@contextmanager
def locked(folder: Path) -> Generator[Path]:
    """The folder, for this process alone. Raises StreamError (TRL743) where another has it, or none may."""
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
    """The stores of the partitions that this process has; `partitions` is how many there are in all.

    `make` makes or opens the store of a partition.
    """

    def __init__(self, partitions: int, make: Callable[[int], PartitionStore]) -> None:
        self._partitions, self._make = partitions, make
        self._open: dict[int, PartitionStore] = {}

    def get(self, key: str) -> bytes | None:
        """Return what is under a key; nothing where its partition is not here."""
        store = self._open.get(self._partition(key))
        return None if store is None else store.get(_bytes(key))

    def items(self, partitions: Iterable[int]) -> Iterator[tuple[str, bytes]]:
        """All that is remembered of these partitions."""
        for number in partitions:
            for key, value in self._open[number].items():
                yield key.decode("utf-8", "surrogatepass"), value

    def size(self) -> int:
        """Return how many bytes are on the stores that are here, or about."""
        return sum(store.size for store in self._open.values())

    def numbers(self) -> list[int]:
        """The partitions whose stores are here."""
        return list(self._open)

    def applied(self, partition: int) -> int | None:
        """Up to where the store of a partition holds the changelog; None where it is empty or not here."""
        store = self._open.get(partition)
        return None if store is None or store.applied == _NOTHING else store.applied

    def held(self, partitions: Iterable[int]) -> dict[int, int]:
        """Up to where the stores of these partitions hold the changelog, of those that are not empty."""
        held = {number: self.applied(number) for number in partitions}
        return {number: applied for number, applied in held.items() if applied is not None}

    def open(self, partition: int) -> PartitionStore:
        """The store of a partition. Raises StreamError (TRL743) where it cannot be opened."""
        if partition not in self._open:
            self._open[partition] = self._make(partition)
        return self._open[partition]

    def discard(self, partition: int) -> None:
        """Forget a partition that another process goes on with: here it would grow old."""
        store = self._open.pop(partition, None)
        if store is not None:
            store.discard()

    def close(self) -> None:
        """Let go of all stores."""
        while self._open:
            self._open.popitem()[1].close()

    def _partition(self, key: str) -> int:
        kind, _, rest = key.partition("/")
        return partition_of(rest, self._partitions) if kind == "s" else int(rest.partition("/")[0])


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
