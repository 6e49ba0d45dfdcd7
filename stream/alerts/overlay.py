"""A step's view of a dictionary that stays as it is until the step is committed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class OverlayWrites(Generic[K, V]):
    """The changes of a dictionary: the values that were put, the last one last, and the deleted keys."""

    put: dict[K, V]
    deleted: set[K]

    def apply(self, values: dict[K, V]) -> None:
        """Change the dictionary; what was put becomes the last in its order."""
        for key in self.deleted:
            values.pop(key, None)
        for key, value in self.put.items():
            values.pop(key, None)
            values[key] = value


class Overlay(Generic[K, V]):
    """The values of a dictionary with the changes of a step; a value put again becomes the last in order.

    The dictionary must not change meanwhile, and its values are not changed in place: the step puts copies.
    """

    def __init__(self, before: dict[K, V]) -> None:
        self._before = before
        self._put: dict[K, V] = {}
        self._deleted: set[K] = set()
        self._count = len(before)
        self._unchanged = iter(before)
        self._oldest = next(self._unchanged, None)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[K]:
        """Yield the keys in order; the step must not change them meanwhile."""
        yield from (key for key in self._before if not self._is_changed(key))
        yield from self._put

    def get(self, key: K) -> V | None:
        """Return the value as it is now, not to be changed in place; None where there is none."""
        if key in self._put:
            return self._put[key]
        return None if key in self._deleted else self._before.get(key)

    def copied(self, key: K) -> V | None:
        """Return the value that this step has put and may change in place; None where it has put none."""
        return self._put.get(key)

    def put(self, key: K, value: V) -> None:
        """Set a value, which becomes the last in order."""
        self._count += self.get(key) is None
        self._put.pop(key, None)
        self._put[key] = value
        self._deleted.discard(key)

    def delete(self, key: K) -> None:
        """Delete a key, if it is there."""
        self._count -= self.get(key) is not None
        self._put.pop(key, None)
        if key in self._before:
            self._deleted.add(key)

    def first(self) -> K | None:
        """Return the first key in order, None where there is none."""
        while self._oldest is not None and self._is_changed(self._oldest):
            self._oldest = next(self._unchanged, None)
        return self._oldest if self._oldest is not None else next(iter(self._put), None)

    def writes(self) -> OverlayWrites[K, V]:
        """Return the changes; the step must not go on afterwards."""
        return OverlayWrites(self._put, self._deleted)

    def _is_changed(self, key: K) -> bool:
        return key in self._put or key in self._deleted
