"""All rates of a pipeline watched: statuses and watermarks in, alarms that fire and are resolved out.

What it goes by can be written down as records, each small and named, and only those that changed: a compacted
topic holds them. The live process and `tracline alerts backtest` run this same code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ...predict.detector import Alarm, DetectorSettings, DetectorState, step
from ..error import StreamError
from ..messages.status import StatusChange
from . import watch_state
from .rates import Tolerance
from .sessions import RateKey, SessionCounter, TickCounts
from .watch_state import RateState


@dataclass(frozen=True, slots=True)
class AlarmChange:
    """An alarm of a rule and agent that fires or is resolved, of the tick from `begins` to `ends`.

    `told` is the watermark at which that came out. Times are nanoseconds since the epoch.
    """

    key: RateKey
    begins: int
    ends: int
    watermark: int
    alarm: Alarm


class Watch:
    """Watches every rule and agent it hears of. The same statuses and watermarks give the same changes.

    `ticks` counts the settled ticks of all of them that this one took in, those without sessions aside.
    """

    def __init__(self, tolerance: Tolerance, settings: DetectorSettings) -> None:
        self.counter = SessionCounter(tolerance.tick_s, tolerance.settle_ticks)
        self.detectors: dict[RateKey, DetectorState] = {}
        self.ticks = 0
        self._tolerance, self._settings = tolerance, settings
        self._looked: dict[RateKey, int] = {}
        self._touched: set[RateKey] = set()
        self._tick_s: int | None = None

    def add(self, status: StatusChange) -> None:
        """Take in what a rule has said of a session."""
        self.counter.add(status)

    def advance(self, watermark: int) -> list[AlarmChange]:
        """What comes out now that nothing earlier than the watermark is to come, by rule and agent in turn.

        A message is heard whole before the watermark behind it is told.
        """
        settled = {key: list(some) for key, some in groupby(self.counter.advance(watermark), lambda t: t.key)}
        firing = {key for key, detector in self.detectors.items() if detector.firing}
        return [
            change
            for key in sorted(firing | settled.keys())
            for change in self._look(key, settled.get(key, ()))
        ]

    def changes(self) -> dict[str, bytes | None]:
        """The records that changed since the last call, by name; None: it is to be forgotten."""
        named: dict[str, bytes | None] = {}
        for key in sorted(self._touched | self.counter.changed_keys):
            rate = RateState(
                self.counter.cohorts.get(key, {}), self.detectors.get(key), self._looked.get(key)
            )
            named[watch_state.rate_name(key)] = watch_state.encode(rate)
        for place in sorted(self.counter.changed_sessions):
            session = self.counter.sessions.get(place)
            named[watch_state.session_name(place)] = (
                None if session is None else watch_state.encode_session(session)
            )
        if self.counter.watermark is not None:
            named[watch_state.WATERMARK] = watch_state.encode(self.counter.watermark)
        if self._tick_s is None:
            self._tick_s = self._tolerance.tick_s
            named[watch_state.TICK_S] = watch_state.encode(self._tick_s)
        self._touched, self.counter.changed_keys, self.counter.changed_sessions = set(), set(), set()
        return named

    def restore(self, records: Mapping[str, bytes]) -> None:
        """Stand where the watch stood that wrote these records, all of them; this one has heard nothing yet.

        Raises StreamError: TRL761 where they are none of this release's, TRL763 where they are of ticks of
        another length.
        """
        found = watch_state.decode(records)
        own, self._tick_s = self._tolerance.tick_s, found.tick_s
        if found.tick_s not in {None, own}:
            what = f"the alerts' state counts in ticks of {found.tick_s} s, not of {own} s"
            hint = f"have ticks of {found.tick_s} s as before, or let the alerts begin with an empty state"
            raise StreamError("TRL763", what, hint)
        for key, rate in found.rates.items():
            if rate.cohorts:
                self.counter.cohorts[key] = rate.cohorts
            if rate.detector is not None:
                self.detectors[key] = rate.detector
            if rate.looked is not None:
                self._looked[key] = rate.looked
        self.counter.restore(found.sessions, found.rates, found.watermark)

    def _look(self, key: RateKey, settled: Sequence[TickCounts]) -> Iterator[AlarmChange]:
        """Take in the settled ticks of a key, and while an alarm lasts those without any session, too."""
        self.ticks += sum(tick.applicable > 0 for tick in settled)
        for tick in settled:
            yield from self._silence(key, tick.number)
            yield from self._step(key, tick)
        yield from self._silence(key, self.counter.final(key))

    def _silence(self, key: RateKey, until: int) -> Iterator[AlarmChange]:
        for number in range(self._looked.get(key, until), until - 1):
            if not self.detectors[key].firing:
                return
            yield from self._step(key, TickCounts(key, number + 1, 0, 0))

    def _step(self, key: RateKey, tick: TickCounts) -> Iterator[AlarmChange]:
        before = self.detectors.get(key, DetectorState())
        tolerated = self._tolerance.tolerated(key)
        after, alarm = step(before, tick.violating, tick.applicable, tolerated, self._settings)
        self.detectors[key], self._looked[key] = after, tick.number
        self._touched.add(key)
        if alarm is not None:
            begins, told = tick.number * self.counter.tick_ns, self.counter.watermark
            assert told is not None
            yield AlarmChange(key, begins, begins + self.counter.tick_ns, told, alarm)
