"""Delivery of alerts: each to every receiver, again while it fires, and again until it is taken.

Nothing here sleeps or asks a clock: whoever carries alerts calls `work` with the time, and learns from `due`
when to come again. What was offered is held until every receiver took it. How much that may be is limited:
whoever offers asks `has_room` first, and leaves the others where they are.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ...schemas.time import NS
from ..process.alert_metrics import AlertMetrics, DeliveryFailure
from .alert import Alert, AlertStatus
from .receivers import NotDelivered, Receiver

PENDING_MAX = 1_000
"""Alerts that may wait for a receiver; beyond that nothing more is offered."""

REQUESTS_MAX = 8
"""Requests to a receiver in one go: each may take seconds, and whoever carries alerts has more to do."""

DONE_MAX = 10 * PENDING_MAX
"""Alerts that are over and delivered whose ids are remembered, so that a repetition does not open them."""


@dataclass(frozen=True, slots=True)
class DeliveryIntervals:
    """How often things are sent, in seconds.

    Firing alerts are sent again every `resend_s`, which is below Alertmanager's `resolve_timeout`; one that
    is not sent again for `lease_s` is over there. After a failure the next attempt comes `retry_s` later,
    then twice as late each time up to `retry_max_s`, less a random share of up to a half.
    """

    resend_s: float = 60.0
    lease_s: float = 240.0
    retry_s: float = 1.0
    retry_max_s: float = 60.0
    batch_max: int = 64


class Delivery:
    """Alerts on their way to all receivers.

    `jitter` gives numbers from 0 to 1; `report` hears when a receiver takes no more, and when it does again.
    """

    def __init__(
        self,
        receivers: Iterable[Receiver],
        meter: AlertMetrics,
        *,
        jitter: Callable[[], float],
        report: Callable[[str], None],
        intervals: DeliveryIntervals | None = None,
    ) -> None:
        intervals = intervals or DeliveryIntervals()
        self._outboxes = [_Outbox(receiver, meter, intervals, jitter, report) for receiver in receivers]

    def has_room(self) -> bool:
        """Return whether one more alert may be offered."""
        return all(outbox.pending < PENDING_MAX for outbox in self._outboxes)

    def offer(self, alert: Alert) -> None:
        """Have it delivered. Offering it again changes nothing; once resolved it does not fire again.

        An alert that is resolved before anybody took that it fires is delivered once, as resolved.
        """
        for outbox in self._outboxes:
            outbox.offer(alert)

    def resume(self, alert: Alert) -> None:
        """Have an alert sent again that a process before this one has delivered, and that still fires.

        Receivers that forget nothing do not hear of it.
        """
        for outbox in self._outboxes:
            if outbox.resends:
                outbox.offer(alert)

    def is_settled(self, alert: Alert) -> bool:
        """Return whether every receiver took what this says, or that the alert is over."""
        return all(outbox.is_settled(alert) for outbox in self._outboxes)

    def due(self) -> float:
        """When there is something to send, in nanoseconds since the epoch; infinity for never."""
        return min((outbox.due() for outbox in self._outboxes), default=math.inf)

    def work(self, now: int) -> None:
        """Send what is due at that time of day, of much only the first; then it is due again at once."""
        for outbox in self._outboxes:
            outbox.work(now)


@dataclass(slots=True)
class _PendingAlert:
    """An alert at one receiver: what was taken of it, and when it is sent next."""

    alert: Alert
    taken: AlertStatus | None = None
    due: float = 0.0
    failures: int = 0
    alone: bool = False


class _Outbox:
    """Alerts on their way to one receiver."""

    def __init__(
        self,
        receiver: Receiver,
        meter: AlertMetrics,
        intervals: DeliveryIntervals,
        jitter: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        self._receiver, self._meter, self._intervals = receiver, meter, intervals
        self._jitter, self._report = jitter, report
        self._entries: dict[str, _PendingAlert] = {}
        self._done: OrderedDict[str, None] = OrderedDict()
        self._failures = 0
        self._rest_until = 0.0

    @property
    def resends(self) -> bool:
        """Return whether firing alerts are sent again."""
        return self._receiver.resend

    @property
    def pending(self) -> int:
        """Alerts of which something is not taken yet."""
        return sum(entry.taken is not entry.alert.status for entry in self._entries.values())

    def offer(self, alert: Alert) -> None:
        name = alert.id
        entry = self._entries.get(name)
        if name in self._done:
            return
        if entry is None:
            self._entries[name] = _PendingAlert(alert)
        elif entry.alert.status is AlertStatus.FIRING:
            if alert.status is AlertStatus.RESOLVED:
                entry.due, entry.failures = 0.0, 0
            entry.alert = alert
        self._meter.pending(self._receiver.name, self.pending)

    def is_settled(self, alert: Alert) -> bool:
        if alert.id in self._done:
            return True
        entry = self._entries.get(alert.id)
        return entry is not None and entry.taken is alert.status

    def due(self) -> float:
        first = min((entry.due for entry in self._entries.values()), default=math.inf)
        return max(first, self._rest_until)

    def work(self, now: int) -> None:
        if now < self._rest_until:
            return
        for group in islice(self._groups(now), REQUESTS_MAX):
            if not self._send(group, now):
                break
        self._meter.pending(self._receiver.name, self.pending)

    def _groups(self, now: int) -> Iterator[list[_PendingAlert]]:
        """Yield what is due, in requests; what was refused among others goes alone."""
        due = [entry for entry in self._entries.values() if entry.due <= now]
        together = [entry for entry in due if not entry.alone]
        for start in range(0, len(together), self._intervals.batch_max):
            yield together[start : start + self._intervals.batch_max]
        yield from ([entry] for entry in due if entry.alone)

    def _send(self, group: Sequence[_PendingAlert], now: int) -> bool:
        """Send one request. False where the receiver takes nothing at all for now."""
        try:
            self._receiver.send([entry.alert for entry in group], now, self._intervals.lease_s)
        except NotDelivered as error:
            self._meter.attempt(self._receiver.name, 0, error.missed)
            return self._missed(group, now, error)
        self._meter.attempt(self._receiver.name, len(group))
        for entry in group:
            self._taken(entry, now)
        if self._failures:
            self._report(f"{self._receiver.name} takes alerts again")
        self._failures = 0
        return True

    def _taken(self, entry: _PendingAlert, now: int) -> None:
        entry.taken, entry.failures = entry.alert.status, 0
        entry.due = now + self._intervals.resend_s * NS if self._receiver.resend else math.inf
        if entry.taken is AlertStatus.RESOLVED:
            name = entry.alert.id
            del self._entries[name]
            self._done[name] = None
            if len(self._done) > DONE_MAX:
                self._done.popitem(last=False)

    def _missed(self, group: Sequence[_PendingAlert], now: int, error: NotDelivered) -> bool:
        """Come again later: with one that is refused by itself, with all others the receiver is at fault."""
        if error.missed is not DeliveryFailure.REFUSED:
            self._failures += 1
            self._rest_until = now + self._wait(self._failures)
            if self._failures == 1:
                self._report(
                    f"{self._receiver.name}: {error}; {self.pending} alerts wait, and are sent again"
                )
            return False
        for entry in group:
            if entry.alone or len(group) == 1:
                entry.failures += 1
                entry.due = now + self._wait(entry.failures)
                if entry.failures == 1:
                    name = self._receiver.name
                    self._report(f"{name} refuses alert {entry.alert.id}: {error}; it is sent again")
            entry.alone = True
        return True

    def _wait(self, failures: int) -> float:
        """Nanoseconds until the next attempt."""
        pace = self._intervals
        longest = min(pace.retry_max_s, pace.retry_s * 2 ** min(failures - 1, 30))
        return longest * (1 - self._jitter() / 2) * NS
