"""Work in a second thread, a step ahead of its caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ahead(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
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


def _first(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the next item, if there is one."""
    for item in items:
        yield item
        return
