"""Groups of values whose sizes stay within a limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def grouped(sized: Iterable[tuple[T, int]], size_max: int) -> Iterator[list[T]]:
    """Yield values in their order, in groups of at most that size; a larger value is a group of its own."""
    group: list[T] = []
    used = 0
    for value, size in sized:
        if group and used + size > size_max:
            yield group
            group, used = [], 0
        group.append(value)
        used += size
    if group:
        yield group
