"""What the monitor remembers, in memory and on disk: how much it is."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tracline.stream.kafka.shelves import DiskShelf, MemoryShelf, Shelf, Shelves

VALUE = 1_000


def shelf(kind: str, folder: Path) -> Shelf:
    """An empty one."""
    return MemoryShelf() if kind == "memory" else DiskShelf(folder / "shelf", lambda: 0)


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_shelf_says_how_much_is_on_it(kind: str, tmp_path: Path) -> None:
    """What is put there adds up; on disk that is an estimate."""
    random = Random(1)
    one = shelf(kind, tmp_path)
    shelves = Shelves(1, lambda _number: one)
    shelves.open(0)
    before = shelves.size()
    one.put([(b"s/%d" % number, random.randbytes(VALUE)) for number in range(1_000)], 1)
    assert 0.9 * 1_000 * VALUE < shelves.size() - before < 1.2 * 1_000 * VALUE
    shelves.close()


def test_what_is_forgotten_or_replaced_is_not_counted() -> None:
    """In memory the size is that of the values which are there."""
    one = MemoryShelf()
    one.put([(b"s/a", b"12345"), (b"s/b", b"123"), (b"s/a", b"1")], 1)
    assert one.size == 4
    one.put([(b"s/b", None), (b"s/never", None)], 2)
    assert one.size == 1
