"""The watch over all rates of a pipeline: statuses and watermarks in, changes of alarms out.

The live process and `tracline alerts backtest` both run this code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ...predict.detector import Alarm, DetectorSettings, DetectorState, step
from ...schemas.records.session_status import StatusChange
from .overlay import Overlay, OverlayWrites
from .rates import Tolerance
from .session_counts import CounterState, CounterWrites, RateKey, SessionCounter, TickCounts


@dataclass(frozen=True, slots=True)
class AlarmChange:
    """An alarm of a rule and agent that fires or is resolved, in the tick from `begins` to `ends`.

    `watermark` is the one that settled the tick. Times are nanoseconds since the epoch.
    """

    key: RateKey
    begins: int
    ends: int
    watermark: int
    alarm: Alarm


@dataclass(frozen=True, slots=True)
class WatchWrites:
    """The changes of a step of a watch: of its counter, its detectors, and their last stepped ticks."""

    counter: CounterWrites
    detectors: OverlayWrites[RateKey, DetectorState]
    stepped: OverlayWrites[RateKey, int]
    tick_s: int


@dataclass(slots=True)
class WatchState:
    """The state of a watch between two steps.

    `detectors` are by rate, `stepped` is the last tick that each has taken. `tick_s` is the length of the
    ticks that the state counts by, None where no record has it. Only `apply` changes the state.
    """

    counter: CounterState = field(default_factory=CounterState)
    detectors: dict[RateKey, DetectorState] = field(default_factory=dict[RateKey, DetectorState])
    stepped: dict[RateKey, int] = field(default_factory=dict[RateKey, int])
    tick_s: int | None = None

    def apply(self, writes: WatchWrites) -> None:
        """Become what a step has made of this state; takes as long as there are changes."""
        self.counter.apply(writes.counter)
        writes.detectors.apply(self.detectors)
        writes.stepped.apply(self.stepped)
        self.tick_s = writes.tick_s


class Watch:
    """A step of the watch over every rule and agent, over a state that stays as it is.

    It is deterministic in the order of statuses and watermarks. `ticks` counts the settled ticks with
    sessions.
    """

    def __init__(
        self, tolerance: Tolerance, settings: DetectorSettings, state: WatchState | None = None
    ) -> None:
        before = state or WatchState()
        self.counter = SessionCounter(tolerance.tick_s, tolerance.settle_ticks, before.counter)
        self.detectors = Overlay(before.detectors)
        self.ticks = 0
        self._tolerance, self._settings = tolerance, settings
        self._stepped = Overlay(before.stepped)

    def writes(self) -> WatchWrites:
        """Return the changes; the step must not go on afterwards."""
        detectors, stepped = self.detectors.writes(), self._stepped.writes()
        return WatchWrites(self.counter.writes(), detectors, stepped, self._tolerance.tick_s)

    def add(self, status: StatusChange) -> None:
        """Count a status change."""
        self.counter.add(status)

    def advance(self, watermark: int) -> list[AlarmChange]:
        """Return the alarms that change at this watermark, by rule and agent in order.

        The caller adds all statuses of a message before it advances to the message's watermark.
        """
        settled = {
            key: list(ticks) for key, ticks in groupby(self.counter.advance(watermark), lambda t: t.key)
        }
        firing = {key for key in self.detectors if self._is_firing(key)}
        return [
            change
            for key in sorted(firing | settled.keys())
            for change in self._step_ticks(key, settled.get(key, ()))
        ]

    def _is_firing(self, key: RateKey) -> bool:
        detector = self.detectors.get(key)
        return detector is not None and detector.firing

    def _step_ticks(self, key: RateKey, settled: Sequence[TickCounts]) -> Iterator[AlarmChange]:
        """Step the detector of a key by its settled ticks and, during an alarm, by those without sessions."""
        self.ticks += sum(tick.applicable > 0 for tick in settled)
        for tick in settled:
            yield from self._step_silence(key, tick.number)
            yield from self._step(key, tick)
        yield from self._step_silence(key, self.counter.final(key))

    def _step_silence(self, key: RateKey, until: int) -> Iterator[AlarmChange]:
        stepped = self._stepped.get(key)
        for number in range(until if stepped is None else stepped, until - 1):
            if not self._is_firing(key):
                return
            yield from self._step(key, TickCounts(key, number + 1, 0, 0))

    def _step(self, key: RateKey, tick: TickCounts) -> Iterator[AlarmChange]:
        before = self.detectors.get(key) or DetectorState()
        tolerated = self._tolerance.tolerated(key)
        after, alarm = step(before, tick.violating, tick.applicable, tolerated, self._settings)
        self.detectors.put(key, after)
        self._stepped.put(key, tick.number)
        if alarm is not None:
            begins, watermark = tick.number * self.counter.tick_ns, self.counter.watermark
            assert watermark is not None
            yield AlarmChange(key, begins, begins + self.counter.tick_ns, watermark, alarm)
