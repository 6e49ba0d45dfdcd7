"""Rows of bytes that are computed once for each key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

REMEMBERED_MAX = 1 << 13
"""Keys of one memory; with another key it begins again."""


class RememberedRows:
    """Rows of bytes by key."""

    def __init__(self) -> None:
        self._known: dict[Any, bytes] = {}

    def rows(
        self, keys: Sequence[Hashable], compute: Callable[[list[int]], NDArray[np.uint8]]
    ) -> NDArray[np.uint8]:
        """Return the row of each key; `compute` returns those at some places of `keys`."""
        known = self._known
        new = {key: place for place, key in enumerate(keys) if key not in known}
        if len(known) + len(new) > REMEMBERED_MAX:
            known = self._known = {}
            new = {key: place for place, key in enumerate(keys)}
        if new:
            known.update(zip(new, map(bytes, compute(list(new.values()))), strict=True))
        data = b"".join([known[key] for key in keys])
        return np.frombuffer(data, dtype=np.uint8).reshape(len(keys), -1 if data else 0)
