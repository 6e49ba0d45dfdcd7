"""Places for requests in work: which sender yields, by a clock that is written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from tracline.stream.ingest.limits import AdmissionControl, ReceiverLimits
from tracline.stream.ingest.rejections import Reason, Refused

LIMITS = ReceiverLimits(requests_max=2, bytes_max=100, stall_bytes=10, yield_s=1.0)


@dataclass
class Desk:
    """A room, its clock, and how the bodies that are read in it ended."""

    limits: ReceiverLimits = LIMITS
    now: float = 0.0
    ends: dict[str, Reason | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.admissions = AdmissionControl(self.limits, lambda: self.now)
        self.chunks: dict[str, asyncio.Queue[int]] = {}

    async def read(self, name: str, peer: str) -> None:
        """Read a body of chunks of so many bytes, 0 being its end."""
        self.chunks[name] = asyncio.Queue()
        try:
            with self.admissions.admit(peer) as place:
                async with place.reading(self.limits.stall_s):
                    while size := await self.chunks[name].get():
                        place.hold(size)
            self.ends[name] = None
        except Refused as refused:
            self.ends[name] = refused.reason

    async def come(self, name: str, peer: str = "a") -> asyncio.Task[None]:
        """A sender comes, and whatever follows from that happens."""
        task = asyncio.create_task(self.read(name, peer))
        await self.settle()
        return task

    async def bring(self, name: str, size: int) -> None:
        """A sender brings so many bytes, or the end."""
        self.chunks[name].put_nowait(size)
        await self.settle()

    async def settle(self) -> None:
        """Let all that can happen now happen."""
        for _ in range(10):
            await asyncio.sleep(0)


def played(play: Callable[[Desk], Awaitable[None]], limits: ReceiverLimits = LIMITS) -> Desk:
    """Return how it went."""

    async def run() -> Desk:
        desk = Desk(limits)
        await play(desk)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        return desk

    return asyncio.run(run())


def test_a_slow_sender_yields_its_place() -> None:
    """If there is no place the sender that brought nothing for longest is asked to come again."""

    async def play(desk: Desk) -> None:
        await desk.come("first")
        await desk.come("second")
        desk.now = 5
        await desk.bring("first", 10)
        await desk.come("third")
        await desk.bring("third", 0)
        await desk.bring("first", 0)

    desk = played(play)
    assert desk.ends == {"second": Reason.CROWDED, "third": None, "first": None}
    assert (desk.admissions.requests, desk.admissions.size) == (0, 0)


def test_bytes_that_trickle_do_not_count() -> None:
    """A sender that brings less than `stall_bytes` at a time is as slow as one that brings nothing."""

    async def play(desk: Desk) -> None:
        await desk.come("trickling")
        await desk.come("sound")
        for desk.now in range(1, 5):
            await desk.bring("trickling", 1)
        await desk.bring("sound", 20)
        await desk.come("third")

    assert played(play).ends == {"trickling": Reason.CROWDED}


def test_a_sender_that_has_just_come_does_not_yield() -> None:
    """If nobody is slow the newcomer is asked to come again."""

    async def play(desk: Desk) -> None:
        for name in ("first", "second", "third"):
            await desk.come(name)

    assert played(play).ends == {"third": Reason.CROWDED}


def test_the_sender_with_most_places_yields() -> None:
    """One sender with many slow requests yields before another with one that is slower still."""

    async def play(desk: Desk) -> None:
        await desk.come("alone", "b")
        desk.now = 1
        await desk.come("one", "a")
        await desk.come("two", "a")
        desk.now = 9
        await desk.come("new", "c")

    assert played(play, ReceiverLimits(requests_max=3, yield_s=1.0)).ends == {"one": Reason.CROWDED}


def test_bytes_are_reclaimed_from_slow_senders() -> None:
    """If too many bytes are held, senders yield that hold some and bring no more."""

    async def play(desk: Desk) -> None:
        await desk.come("hoarder")
        await desk.bring("hoarder", 90)
        desk.now = 5
        await desk.come("sound")
        await desk.bring("sound", 50)
        await desk.bring("sound", 0)

    assert played(play).ends == {"hoarder": Reason.CROWDED, "sound": None}


def test_a_sender_that_stands_still_is_refused() -> None:
    """A body of which `stall_bytes` do not come within `stall_s` is refused though nobody waits."""

    async def play(desk: Desk) -> None:
        await (await desk.come("silent"))

    assert played(play, ReceiverLimits(stall_s=0.01)).ends == {"silent": Reason.SLOW}


def test_a_room_that_closes_sends_away_who_is_underway() -> None:
    """Bodies that are still read are refused so that their senders come again, and so is who comes then."""

    async def play(desk: Desk) -> None:
        await desk.come("underway")
        desk.admissions.close()
        await desk.come("late")
        await desk.settle()

    assert played(play).ends == {"underway": Reason.STOPPING, "late": Reason.STOPPING}


def test_what_is_read_is_not_taken_away() -> None:
    """A request whose body has come keeps its place however long it is in work."""
    room = AdmissionControl(LIMITS, lambda: 1_000.0)

    async def read() -> None:
        with room.admit("a") as first, room.admit("a") as second:
            for place in (first, second):
                async with place.reading(1.0):
                    place.hold(1)
            with pytest.raises(Refused), room.admit("a"):
                raise AssertionError("there is no place")

    asyncio.run(read())
