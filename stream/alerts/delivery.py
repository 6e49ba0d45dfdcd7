"""Delivery of alerts to every receiver: retried until it is accepted, and repeated while the alert fires.

This module neither sleeps nor reads a clock: its caller passes the time to `work`, and asks `due` when to
call again. An offered alert waits until every receiver has accepted it. The number that may wait is limited,
so a caller asks `has_room` before it offers one.
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
"""Alerts that may wait for a receiver; beyond that none is offered."""

REQUESTS_MAX = 8
"""Requests to a receiver in one call of `work`: each may take seconds."""

DONE_MAX = 10 * PENDING_MAX
"""Delivered and resolved alerts whose ids are remembered, so that a repetition does not reopen them."""


@dataclass(frozen=True, slots=True)
class DeliveryIntervals:
    """The intervals of delivery, in seconds.

    Firing alerts are sent again every `resend_s`, which is below Alertmanager's `resolve_timeout`;
    Alertmanager resolves one that is not sent again for `lease_s`. After a failure the next attempt follows
    `retry_s` later, then twice as late each time up to `retry_max_s`, less a random share of up to a half.
    """

    resend_s: float = 60.0
    lease_s: float = 240.0
    retry_s: float = 1.0
    retry_max_s: float = 60.0
    batch_max: int = 64


class Delivery:
    """The alerts on their way to all receivers.

    `jitter` returns numbers from 0 to 1; `report` logs when a receiver fails and when it recovers.
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
        """Deliver an alert. A repeated offer changes nothing; once resolved, an alert does not fire again.

        An alert resolved before any delivery is delivered once, as resolved.
        """
        for outbox in self._outboxes:
            outbox.offer(alert)

    def resume(self, alert: Alert) -> None:
        """Send a firing alert again that an earlier process has delivered.

        Receivers that need no repetition do not get it.
        """
        for outbox in self._outboxes:
            if outbox.resends:
                outbox.offer(alert)

    def is_settled(self, alert: Alert) -> bool:
        """Return whether every receiver has accepted this status of the alert, or a later one."""
        return all(outbox.is_settled(alert) for outbox in self._outboxes)

    def due(self) -> float:
        """Return when there is something to send, in nanoseconds since the epoch; infinity for never."""
        return min((outbox.due() for outbox in self._outboxes), default=math.inf)

    def work(self, now: int) -> None:
        """Send what is due at that time, up to the limit of requests; the rest stays due."""
        for outbox in self._outboxes:
            outbox.work(now)


@dataclass(slots=True)
class _PendingAlert:
    """An alert for one receiver: the status that it has accepted, and when the alert is sent next."""

    alert: Alert
    accepted: AlertStatus | None = None
    due: float = 0.0
    failures: int = 0
    alone: bool = False


class _Outbox:
    """The alerts on their way to one receiver."""

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
        """Return the number of alerts whose latest status the receiver has not accepted."""
        return sum(entry.accepted is not entry.alert.status for entry in self._entries.values())

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
        return entry is not None and entry.accepted is alert.status

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
        """Yield the due alerts by request; one refused in a batch goes alone."""
        due = [entry for entry in self._entries.values() if entry.due <= now]
        together = [entry for entry in due if not entry.alone]
        for start in range(0, len(together), self._intervals.batch_max):
            yield together[start : start + self._intervals.batch_max]
        yield from ([entry] for entry in due if entry.alone)

    def _send(self, group: Sequence[_PendingAlert], now: int) -> bool:
        """Send one request, and return whether the receiver works at all."""
        try:
            self._receiver.send([entry.alert for entry in group], now, self._intervals.lease_s)
        except NotDelivered as error:
            self._meter.attempt(self._receiver.name, 0, error.failure)
            return self._failed(group, now, error)
        self._meter.attempt(self._receiver.name, len(group))
        for entry in group:
            self._accept(entry, now)
        if self._failures:
            self._report(f"{self._receiver.name}: accepts alerts again")
        self._failures = 0
        return True

    def _accept(self, entry: _PendingAlert, now: int) -> None:
        entry.accepted, entry.failures = entry.alert.status, 0
        entry.due = now + self._intervals.resend_s * NS if self._receiver.resend else math.inf
        if entry.accepted is AlertStatus.RESOLVED:
            name = entry.alert.id
            del self._entries[name]
            self._done[name] = None
            if len(self._done) > DONE_MAX:
                self._done.popitem(last=False)

    def _failed(self, group: Sequence[_PendingAlert], now: int, error: NotDelivered) -> bool:
        """Schedule the next attempt, of a refused alert or, where the receiver fails, of all alerts."""
        if error.failure is not DeliveryFailure.REFUSED:
            self._failures += 1
            self._rest_until = now + self._wait(self._failures)
            if self._failures == 1:
                self._report(f"{self._receiver.name}: {error}; {self.pending} alerts wait for a retry")
            return False
        for entry in group:
            if entry.alone or len(group) == 1:
                entry.failures += 1
                entry.due = now + self._wait(entry.failures)
                if entry.failures == 1:
                    name = self._receiver.name
                    self._report(f"{name}: refused alert {entry.alert.id}: {error}; it is retried")
            entry.alone = True
        return True

    def _wait(self, failures: int) -> float:
        """Return the nanoseconds until the next attempt."""
        intervals = self._intervals
        longest = min(intervals.retry_max_s, intervals.retry_s * 2 ** min(failures - 1, 30))
        return longest * (1 - self._jitter() / 2) * NS
