"""The membership of the monitor in its consumer group, as aiokafka's coordinator has it."""

# aiokafka has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NoReturn

from ...error import StreamError

ASK_S = 0.05


class Membership:
    """The membership of a consumer: when the group last confirmed it, and whether the group ended it."""

    def __init__(self) -> None:
        self._confirmed_at = 0.0
        self._is_outsider = False

    def watch(self, consumer: Any) -> None:
        """Begin to note the group's answers to heartbeats."""
        coordinator = consumer._coordinator
        beat = coordinator._do_heartbeat

        async def noted() -> bool:
            sent_at = time.monotonic()
            is_member: bool = await beat()
            if is_member:
                self._confirmed_at = sent_at
            elif coordinator.generation < 0:
                self._is_outsider = True
            return is_member

        coordinator._do_heartbeat = noted

    def confirm(self) -> None:
        """Note an assignment, which confirms the membership."""
        self._confirmed_at, self._is_outsider = time.monotonic(), False

    async def wait(self, timeout_s: float, fail: Callable[[BaseException], NoReturn]) -> None:
        """Return while no other member can have our partitions; fail (TRL746) where others have them."""
        while time.monotonic() - self._confirmed_at >= timeout_s:
            if self._is_outsider:
                problem = f"was silent for more than {timeout_s:g} s, and others have its partitions"
                hint = "nothing is lost: start it again, with more --timeout-s where it was busy"
                fail(StreamError("TRL746", problem, hint))
            await asyncio.sleep(ASK_S)


def stay(consumer: Any) -> None:
    """Let a consumer without partitions stay in its group, to take over when another one ends.

    aiokafka (0.14) removes a consumer that has read nothing for `max_poll_interval_ms`, as if it hung.
    """
    coordinator = consumer._coordinator
    beat = coordinator._do_heartbeat

    async def beating() -> bool:
        if not consumer.assignment():
            with consumer._subscription.fetch_context():
                pass
        return await beat()

    coordinator._do_heartbeat = beating


def refusal_of(consumer: Any) -> BaseException | None:
    """Return the error for which a consumer has left its group; None for a member.

    aiokafka does not raise it on the way in which Faust reads, and Faust would wait forever.
    """
    coordinator = consumer._coordinator
    if coordinator is None:
        # It is about to start.
        return None
    task = coordinator._coordination_task
    if task.done() and not task.cancelled() and (error := task.exception()) is not None:
        return error
    return coordinator._pending_exception
