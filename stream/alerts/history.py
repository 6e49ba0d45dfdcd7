"""The replay of status changes by tick: to learn tolerated rates, and to backtest alarms.

A history is a sequence of pairs of a time in nanoseconds and a status change, ordered by time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from ...schemas.records.session_status import SessionStatus, StatusChange
from ...schemas.time import NS, rfc3339
from .counted_statuses import counted_statuses
from .rates import Rates, default_rates, rates_of, tolerance
from .session_counts import SessionCounter, TickCounts
from .watch import AlarmChange, Watch

TimedStatus: TypeAlias = tuple[int, StatusChange]


def learn_rates(history: Iterable[TimedStatus], tick_s: int, idle_s: float) -> Rates:
    """Return the rates of a history. Sessions undecided at its end count in none."""
    timed = list(history)
    nothing = default_rates(tick_s, idle_s)
    if not timed:
        return nothing
    delays = _delays(timed, tick_s * NS)
    waits = tolerance(rates_of([], delays, tick_s, idle_s))
    counter = SessionCounter(tick_s, waits.settle_ticks)
    ticks: list[TickCounts] = []
    for statuses, watermark in _by_tick(timed, tick_s * NS, timed[-1][0] + 1):
        for status in statuses:
            counter.add(status)
        ticks += counter.advance(watermark)
    rates = rates_of(ticks, delays, tick_s, idle_s)
    return msgspec.structs.replace(rates, since=rfc3339(timed[0][0]), until=rfc3339(timed[-1][0]))


def replay_history(history: Iterable[TimedStatus], watch: Watch, until: int) -> list[AlarmChange]:
    """Return the alarms that the watch raises and resolves over a history up to the time `until`."""
    changes: list[AlarmChange] = []
    for statuses, watermark in _by_tick(history, watch.counter.tick_ns, until):
        for status in statuses:
            watch.add(status)
        changes += watch.advance(watermark)
    return changes


def _by_tick(
    history: Iterable[TimedStatus], tick: int, until: int
) -> Iterator[tuple[list[StatusChange], int]]:
    """Yield the statuses and the end of each tick, also of empty ticks, and then the rest to `until`."""
    end: int | None = None
    statuses: list[StatusChange] = []
    for at, status in history:
        if end is None:
            end = (at // tick + 1) * tick
        while at >= end:
            yield statuses, end
            statuses, end = [], end + tick
        statuses.append(status)
    while end is not None and end <= until:
        yield statuses, end
        statuses, end = [], end + tick
    if statuses:
        yield statuses, until


def _delays(history: Iterable[TimedStatus], tick: int) -> dict[tuple[str, str], list[int]]:
    """Return, by pack and rule, how many ticks after the rule applied each session violated it."""
    applied: dict[tuple[str, int], dict[tuple[str, str], tuple[int, bool]]] = {}
    delays: dict[tuple[str, str], list[int]] = {}
    for at, status in history:
        occurrence = (status.session_id, status.occurrence)
        if status.pack is None or status.rule is None:
            applied.pop(occurrence, None)
            continue
        for rule, kind in counted_statuses(status):
            rules = applied.setdefault(occurrence, {})
            first, violated = rules.get(rule, (at, False))
            if kind is SessionStatus.VIOLATED and not violated:
                delays.setdefault(rule, []).append(at // tick - first // tick)
            rules[rule] = (first, violated or kind is SessionStatus.VIOLATED)
    return delays
