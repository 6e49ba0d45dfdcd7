"""Answers that take long, kept for a while, so that pages leave the machine to the pipeline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

Answer = TypeVar("Answer")

REST = 10
"""An answer is kept for so many times as long as it took: asking costs a tenth of one core at most."""
ANSWERS_KEPT_MAX = 64


class AnswerCache:
    """Answers by key; for any number of threads, of which one at a time makes an answer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: dict[Hashable, tuple[float, object]] = {}

    def get(self, key: Hashable, make: Callable[[], Answer]) -> tuple[Answer, bool]:
        """The answer, and whether it was made for this call; the key says what `make` answers."""
        with self._lock:
            began = self._clock()
            until, answer = self._answers.get(key, (began, None))
            if began < until:
                return cast("Answer", answer), False
            made = make()
            now = self._clock()
            self._answers.pop(key, None)
            self._answers[key] = (now + REST * (now - began), made)
            if len(self._answers) > ANSWERS_KEPT_MAX:
                del self._answers[next(iter(self._answers))]
            return made, True
