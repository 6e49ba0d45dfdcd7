"""Stopping a long-running process by a signal."""

from __future__ import annotations

import signal
import threading
from typing import Any


def stop_event() -> threading.Event:
    """Return an event that SIGTERM or Ctrl-C sets; a second signal interrupts the process."""
    stop = threading.Event()

    def on_signal(number: int, frame: Any) -> None:  # noqa: ARG001 (the signal module's signature)
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop
