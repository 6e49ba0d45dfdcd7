"""The watch over all rates of a pipeline: statuses and watermarks in, changes of alarms out.

Its state is stored as small named records, of which only the changed ones are written, to a compacted topic.
The live process and `tracline alerts backtest` both run this code.
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
    """An alarm of a rule and agent that fires or is resolved, in the tick from `begins` to `ends`.

    `watermark` is the one that settled the tick. Times are nanoseconds since the epoch.
    """

    key: RateKey
    begins: int
    ends: int
    watermark: int
    alarm: Alarm


class Watch:
    """The watch over every rule and agent. It is deterministic in the order of statuses and watermarks.

    `ticks` counts the settled ticks with sessions.
    """

    def __init__(self, tolerance: Tolerance, settings: DetectorSettings) -> None:
        self.counter = SessionCounter(tolerance.tick_s, tolerance.settle_ticks)
        self.detectors: dict[RateKey, DetectorState] = {}
        self.ticks = 0
        self._tolerance, self._settings = tolerance, settings
        self._stepped: dict[RateKey, int] = {}
        self._touched: set[RateKey] = set()
        self._tick_s: int | None = None

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
        firing = {key for key, detector in self.detectors.items() if detector.firing}
        return [
            change
            for key in sorted(firing | settled.keys())
            for change in self._step_ticks(key, settled.get(key, ()))
        ]

    def changes(self) -> dict[str, bytes | None]:
        """Return the records that changed since the last call, by name; None deletes a record."""
        named: dict[str, bytes | None] = {}
        for key in sorted(self._touched | self.counter.changed_keys):
            rate = RateState(
                self.counter.cohorts.get(key, {}), self.detectors.get(key), self._stepped.get(key)
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
        """Restore the state from all records of a watch. This one must be new.

        Raises StreamError: TRL761 where the records are damaged or incompatible, TRL763 where their ticks
        have another length.
        """
        found = watch_state.decode(records)
        tick_s, self._tick_s = self._tolerance.tick_s, found.tick_s
        if found.tick_s not in {None, tick_s}:
            what = f"the alerts' state has ticks of {found.tick_s} s, not of {tick_s} s"
            hint = f"set ticks of {found.tick_s} s as before, or start the alerts with an empty state"
            raise StreamError("TRL763", what, hint)
        for key, rate in found.rates.items():
            if rate.cohorts:
                self.counter.cohorts[key] = rate.cohorts
            if rate.detector is not None:
                self.detectors[key] = rate.detector
            if rate.looked is not None:
                self._stepped[key] = rate.looked
        self.counter.restore(found.sessions, found.rates, found.watermark)

    def _step_ticks(self, key: RateKey, settled: Sequence[TickCounts]) -> Iterator[AlarmChange]:
        """Step the detector of a key by its settled ticks and, during an alarm, by those without sessions."""
        self.ticks += sum(tick.applicable > 0 for tick in settled)
        for tick in settled:
            yield from self._step_silence(key, tick.number)
            yield from self._step(key, tick)
        yield from self._step_silence(key, self.counter.final(key))

    def _step_silence(self, key: RateKey, until: int) -> Iterator[AlarmChange]:
        for number in range(self._stepped.get(key, until), until - 1):
            if not self.detectors[key].firing:
                return
            yield from self._step(key, TickCounts(key, number + 1, 0, 0))

    def _step(self, key: RateKey, tick: TickCounts) -> Iterator[AlarmChange]:
        before = self.detectors.get(key, DetectorState())
        tolerated = self._tolerance.tolerated(key)
        after, alarm = step(before, tick.violating, tick.applicable, tolerated, self._settings)
        self.detectors[key], self._stepped[key] = after, tick.number
        self._touched.add(key)
        if alarm is not None:
            begins, watermark = tick.number * self.counter.tick_ns, self.counter.watermark
            assert watermark is not None
            yield AlarmChange(key, begins, begins + self.counter.tick_ns, watermark, alarm)
