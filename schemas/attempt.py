"""The boundary around code that reads or judges what others sent: an error there ends nothing.

Whatever an input makes the code raise, the caller gets a `Broken` and continues with the next input. Nothing
is lost: the caller makes a dead letter of the input, which names the error. Other modules that catch all
exceptions raise an error again or end the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Broken(NamedTuple):
    """The failed work on an input, with the error that the input raised."""

    error: Exception

    @property
    def reason(self) -> str:
        """Return the error's name; its text may hold telemetry."""
        return type(self.error).__name__


def attempt(work: Callable[[], T], unless: tuple[type[Exception], ...] = (MemoryError,)) -> T | Broken:
    """Return the result of the work. Raises the errors `unless`, of which the input is not the cause."""
    try:
        return work()
    except unless:
        raise
    except Exception as error:
        # Any error: the input is hostile, and the process must outlive it.
        return Broken(error)
