"""Ending a process that works until it is told to stop."""

from __future__ import annotations

import signal
import threading
from typing import Any


def stop_event() -> threading.Event:
    """Set when the process is asked to end (SIGTERM, Ctrl-C); who asks twice interrupts it."""
    asked = threading.Event()

    def ask(number: int, frame: Any) -> None:  # noqa: ARG001 (the signal module's signature)
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    return asked
