"""A cache of expensive answers, so that the console takes little time from the pipeline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

Cached = TypeVar("Cached")

CACHE_FACTOR = 10
"""The time for which an answer is cached, over the time that it took: one core is busy a tenth at most."""
ANSWERS_CACHED_MAX = 64


class AnswerCache:
    """Cached answers by key. Any thread may ask; one at a time computes an answer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: dict[Hashable, tuple[float, object]] = {}

    def get(self, key: Hashable, make: Callable[[], Cached]) -> tuple[Cached, bool]:
        """Return the answer for the key, and whether `make` computed it in this call."""
        with self._lock:
            began = self._clock()
            until, answer = self._answers.get(key, (began, None))
            if began < until:
                return cast("Cached", answer), False
            made = make()
            now = self._clock()
            self._answers.pop(key, None)
            self._answers[key] = (now + CACHE_FACTOR * (now - began), made)
            if len(self._answers) > ANSWERS_CACHED_MAX:
                del self._answers[next(iter(self._answers))]
            return made, True
