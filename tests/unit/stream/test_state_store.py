"""The monitor's local state between two reads of Kafka, in memory and on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracline.schemas.time import NS
from tracline.stream.error import StreamError
from tracline.stream.kafka.faust.state_store import (
    STALE_S,
    DiskPartitionStore,
    MemoryPartitionStore,
    PartitionStore,
    PartitionStores,
    locked,
)
from tracline.stream.messages.codec import partition_of

NOW = 1_772_000_000 * NS


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> PartitionStore:
    """A store that is empty."""
    return (
        MemoryPartitionStore()
        if request.param == "memory"
        else DiskPartitionStore(tmp_path / "store", lambda: NOW)
    )


def test_a_store_holds_the_last_write_of_each_key(store: PartitionStore) -> None:
    """A put replaces the value that was there; a forgotten key is gone, though it was put just before."""
    assert store.applied == -1
    store.put([(b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"c", None)], 3)
    store.put([(b"a", b"2"), (b"b", None), (b"b", b""), (b"d", None)], 9)
    assert dict(store.items()) == {b"a": b"2", b"b": b""}
    assert [store.get(key) for key in (b"a", b"b", b"c", b"d")] == [b"2", b"", None, None]
    assert store.applied == 9


def test_a_store_on_disk_is_there_again(tmp_path: Path) -> None:
    """After a restart it holds what it held, and its offset; discarded, it is empty."""
    store = DiskPartitionStore(tmp_path / "store", lambda: NOW)
    store.put([(b"a", b"1")], 7)
    store.close()
    store = DiskPartitionStore(tmp_path / "store", lambda: NOW + STALE_S * NS)
    assert (store.get(b"a"), store.applied) == (b"1", 7)
    store.discard()
    assert not (tmp_path / "store").exists()
    store = DiskPartitionStore(tmp_path / "store", lambda: NOW)
    assert (store.get(b"a"), store.applied) == (None, -1)


@pytest.mark.parametrize("later_s", [STALE_S, -STALE_S])
def test_a_store_that_was_left_alone_for_long_is_recreated(tmp_path: Path, later_s: int) -> None:
    """A key that the changelog forgot meanwhile must be forgotten here; also if the clock is of no help."""
    store = DiskPartitionStore(tmp_path / "store", lambda: NOW)
    store.put([(b"a", b"1")], 7)
    store.close()
    store = DiskPartitionStore(tmp_path / "store", lambda: NOW + later_s * NS + later_s)
    assert list(store.items()) == []
    assert store.applied == -1


@pytest.mark.parametrize("session_id", ["plain", "a/b", "", "\udc80", "2/3"])
def test_each_key_is_in_the_store_of_its_partition(session_id: str) -> None:
    """Sessions, facts and rule sets are found where their partition is, and nowhere once it is gone."""
    made: dict[int, PartitionStore] = {}

    def make(number: int) -> PartitionStore:
        return made.setdefault(number, MemoryPartitionStore())

    stores = PartitionStores(5, make)
    partition = partition_of(session_id, 5)
    for number in range(5):
        stores.open(number)
    key = f"s/{session_id}"
    made[partition].put([(key.encode("utf-8", "surrogatepass"), b"state")], 0)
    made[3].put([(b"p/3", b"facts"), (b"r/3/abc", b"rules")], 4)
    assert (stores.get(key), stores.get("p/3"), stores.get("r/3/abc")) == (b"state", b"facts", b"rules")
    assert (key, b"state") in list(stores.items([partition]))
    assert (stores.applied(3), stores.applied(4)) == (4, None if partition != 4 else 0)
    stores.discard(3)
    assert stores.get("p/3") is None
    assert sorted(stores.numbers()) == [0, 1, 2, 4]
    stores.close()
    assert stores.get(key) is None


def test_a_folder_is_of_one_process(tmp_path: Path) -> None:
    """A process that finds the folder taken gets an error; once the folder is released, it may have it."""
    with locked(tmp_path / "data"):
        with (
            pytest.raises(StreamError, match="another process keeps its state") as caught,
            locked(tmp_path / "data"),
        ):
            pass
        assert caught.value.code == "TRL743"
    with locked(tmp_path / "data") as folder:
        assert folder.is_dir()


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    """A file where the folder should be is an error that names it."""
    (tmp_path / "data").write_text("")
    with pytest.raises(StreamError, match="data cannot be written") as caught, locked(tmp_path / "data"):
        pass
    assert caught.value.code == "TRL743"


def test_a_damaged_store_is_reported(tmp_path: Path) -> None:
    """A database that cannot be opened is named, with what to do."""
    store = DiskPartitionStore(tmp_path / "store", lambda: NOW)
    store.put([(b"a", b"1")], 0)
    store.close()
    (tmp_path / "store" / "CURRENT").write_text("nonsense\n")
    with pytest.raises(StreamError, match="cannot be used: Corruption") as caught:
        DiskPartitionStore(tmp_path / "store", lambda: NOW)
    assert caught.value.code == "TRL743"
    assert "restored from Kafka" in caught.value.hint
