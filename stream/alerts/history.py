"""History told again tick by tick: to learn what is tolerated, and when an alarm would have been raised.

History comes as pairs of when a status was said, in nanoseconds, and the status, in the order of those times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from ...schemas.time import NS, rfc3339
from ..messages.status import SessionStatus, StatusChange
from .rates import Rates, default_rates, rates_of, tolerance
from .sessions import SessionCounter, TickCounts
from .watch import AlarmChange, Watch

TimedStatus: TypeAlias = tuple[int, StatusChange]


def learn_rates(history: Iterable[TimedStatus], tick_s: int, idle_s: float) -> Rates:
    """The rates of a history. Sessions that are still undecided at its end count in none."""
    said = list(history)
    nothing = default_rates(tick_s, idle_s)
    if not said:
        return nothing
    delays = _delays(said, tick_s * NS)
    waits = tolerance(rates_of([], delays, tick_s, idle_s))
    counter = SessionCounter(tick_s, waits.settle_ticks)
    ticks: list[TickCounts] = []
    for some, watermark in _in_turn(said, tick_s * NS, said[-1][0] + 1):
        for status in some:
            counter.add(status)
        ticks += counter.advance(watermark)
    rates = rates_of(ticks, delays, tick_s, idle_s)
    return msgspec.structs.replace(rates, since=rfc3339(said[0][0]), until=rfc3339(said[-1][0]))


def replay_history(history: Iterable[TimedStatus], watch: Watch, until: int) -> list[AlarmChange]:
    """The alarms that the watch raises and resolves over a history up to the time `until`."""
    changes: list[AlarmChange] = []
    for some, watermark in _in_turn(history, watch.counter.tick_ns, until):
        for status in some:
            watch.add(status)
        changes += watch.advance(watermark)
    return changes


def _in_turn(said: Iterable[TimedStatus], tick: int, until: int) -> Iterator[tuple[list[StatusChange], int]]:
    """What was said in each tick and when that ends, quiet ticks among them, and then the rest to `until`."""
    end: int | None = None
    some: list[StatusChange] = []
    for at, status in said:
        if end is None:
            end = (at // tick + 1) * tick
        while at >= end:
            yield some, end
            some, end = [], end + tick
        some.append(status)
    while end is not None and end <= until:
        yield some, end
        some, end = [], end + tick
    if some:
        yield some, until


def _delays(said: Iterable[TimedStatus], tick: int) -> dict[tuple[str, str], list[int]]:
    """By pack and rule, in how many ticks after the rule applied each session violated it."""
    applied: dict[tuple[str, int], dict[tuple[str, str], int]] = {}
    delays: dict[tuple[str, str], list[int]] = {}
    for at, status in said:
        place = (status.session_id, status.occurrence)
        if status.pack is None or status.rule is None:
            applied.pop(place, None)
            continue
        rule = (status.pack, status.rule)
        first = applied.setdefault(place, {}).setdefault(rule, at)
        if status.status is SessionStatus.VIOLATED:
            delays.setdefault(rule, []).append(at // tick - first // tick)
    return delays
