"""Work in a second thread, a step ahead of its caller, behind it or beside it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Done = TypeVar("Done")


def ahead(work: Callable[[Item], Done], items: Iterable[Item], threads: int) -> Iterator[Done]:
    """Yield the result for each item in order; with several threads the next result is in progress."""
    if threads == 1:
        yield from map(work, items)
        return
    rest = iter(items)
    with ThreadPoolExecutor(1) as pool:
        following = [pool.submit(work, item) for item in _first(rest)]
        while following:
            result = following.pop().result()
            following = [pool.submit(work, item) for item in _first(rest)]
            yield result


def behind(work: Callable[[Item], None], items: Iterable[Item], threads: int) -> None:
    """Do the work for each item in order; with several threads the next item is made meanwhile.

    At most one item waits. An exception of the work is raised after the next item.
    """
    if threads == 1:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(_nothing)
        for item in items:
            running.result()
            running = pool.submit(work, item)
        running.result()


@contextmanager
def beside(work: Callable[[], Done], threads: int) -> Generator[Callable[[], Done]]:
    """Begin the work, and yield a function that waits for its result; with one thread that does it."""
    if threads == 1:
        yield work
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work).result


def _nothing() -> None:
    pass


def _first(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the next item, if there is one."""
    for item in items:
        yield item
        return
