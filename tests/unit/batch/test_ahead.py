"""Work in a second thread has the results, the order and the errors of work in one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tracline.batch.prepare.ahead import ahead, behind


@pytest.mark.parametrize("threads", [1, 2])
def test_work_is_done_in_order(threads: int) -> None:
    """Both ways do all work in the order of the items, also for no items."""
    done: list[int] = []
    behind(done.append, iter(range(5)), threads)
    assert done == list(range(5))
    behind(done.append, [], threads)
    assert [*ahead(lambda item: item + 1, done, threads), *ahead(str, [], threads)] == [1, 2, 3, 4, 5]


def test_the_next_item_is_made_while_one_is_worked_on() -> None:
    """The work of the first item ends only after the second item is made."""
    made, workers = threading.Event(), set[int]()

    def items() -> Iterator[int]:
        yield 0
        made.set()
        yield 1

    def work(_item: int) -> None:
        assert made.wait(60)
        workers.add(threading.get_ident())

    behind(work, items(), 2)
    assert len(workers) == 1
    assert threading.get_ident() not in workers


@pytest.mark.parametrize("threads", [1, 2])
def test_errors_reach_the_caller(threads: int) -> None:
    """An error of the work, of the first or the last item, and one of the items are raised."""
    for bad in (0, 2):
        with pytest.raises(ZeroDivisionError):
            behind(lambda item, bad=bad: [1 // (item - bad)].clear(), range(3), threads)

    def broken() -> Iterator[int]:
        yield 1
        raise KeyError

    with pytest.raises(KeyError):
        behind(lambda _item: None, broken(), threads)
