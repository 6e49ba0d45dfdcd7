"""The spans of one trace that have come so far (session assembly, stage a)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter

import msgspec

from ..span_content import SpanRole
from .coverage import Coverage, coverage_of
from .span_reading import SpanReading

ANCESTORS_MAX = 200
"""Spans above one that are looked at: what is further up is not known to it."""


SAME_ID_MAX = 100
"""Spans sent under one id, the earliest, among which a parent is looked for."""


KEYS_MAX = 1_000
"""Session keys of a trace that are remembered."""


_AGE = attrgetter("age")
_NEVER = 1 << 64


class Trace(msgspec.Struct, rename={"ended_by_key": "said"}):
    """The spans of one trace that have come so far.

    `spans` are by id, the earliest first of those that share one. `keyed` is the earliest span that says a
    session key. `said` is when the first span ended that says a key, for each key, and under the empty key
    when the first model's call ended that says none.
    """

    spans: dict[str, list[SpanReading]] = msgspec.field(default_factory=dict[str, list[SpanReading]])
    keyed: SpanReading | None = None
    ended_by_key: dict[str, int] = msgspec.field(default_factory=dict[str, int])

    def add(self, reading: SpanReading) -> None:
        """Add a span."""
        insort(self.spans.setdefault(reading.span_id, []), reading, key=_AGE)
        content = reading.content
        if content.session is not None and (self.keyed is None or reading.age < self.keyed.age):
            self.keyed = reading
        key = "" if content.session is None else str(content.session)
        if (key or content.role is SpanRole.CHAT) and (
            key in self.ended_by_key or len(self.ended_by_key) < KEYS_MAX
        ):
            self.ended_by_key[key] = min(reading.ended, self.ended_by_key.get(key, reading.ended))

    def replace(self, reading: SpanReading, other: SpanReading) -> None:
        """Put a span in the place of one that differs from it in what it tells."""
        same = self.spans.get(reading.span_id, [])
        if reading in same:
            same.remove(reading)
            insort(same, other, key=_AGE)

    def all(self) -> Iterator[SpanReading]:
        """Return every span that has come."""
        return (reading for same in self.spans.values() for reading in same)

    def parent(self, reading: SpanReading) -> SpanReading | None:
        """Return the span above; None at a root, where it has not come, and where a span calls itself its parent."""
        found = [] if reading.parent_id is None else self.spans.get(reading.parent_id, [])
        if reading.parent_id == reading.span_id:
            # Another span may have been sent under the same id, and be meant.
            found = [one for one in islice(found, SAME_ID_MAX) if one.parent_id != one.span_id]
        return found[0] if found else None

    def above(self, reading: SpanReading) -> Sequence[SpanReading]:
        """Return the spans above, nearest first, `ANCESTORS_MAX` at most; in a cycle none above its earliest."""
        chain, met = [reading], {id(reading): 0}
        while len(chain) <= ANCESTORS_MAX and (upper := self.parent(chain[-1])) is not None:
            if id(upper) in met:
                # The span itself may stand there a second time, without what it tells.
                ages = [one.age for one in chain]
                return chain[1 : ages.index(min(ages[met[id(upper)] :])) + 1]
            met[id(upper)] = len(chain)
            chain.append(upper)
        return chain[1:]

    def root(self, reading: SpanReading) -> SpanReading | None:
        """Return the root above a span, or itself; None where it is not known."""
        *_, last = (reading, *self.above(reading))
        return last if last.parent_id is None else None

    def speaks_for_itself(self, reading: SpanReading) -> bool:
        """Return whether a span says session and agent, so that nothing above it need be waited for.

        A conversation of its own may be that of a sub-agent, whose caller is known to have spoken before in
        another one, or without saying any: then the session is said above it.
        """
        return reading.is_named and not self.may_be_sub_agents(reading)

    def may_be_sub_agents(self, reading: SpanReading) -> bool:
        """Whether a span's conversation may be a sub-agent's: before it ended a model spoke in another."""
        if not reading.content.own_conversation or reading.parent_id is None:
            return False
        return any(
            ended <= reading.ended and key != reading.content.session
            for key, ended in self.ended_by_key.items()
        )

    def settled(self, reading: SpanReading) -> int:
        """Return the time at which it is said whose a span is and who did it.

        That is its own end where it says so itself, else the latest end of it and of all that is known to be
        above it.
        """
        return max(
            one.ended for one in (reading, *(() if self.speaks_for_itself(reading) else self.above(reading)))
        )

    def coverage(self) -> Coverage:
        """Return what of its spans need not be told: others of them tell the same."""
        return coverage_of([(reading, self.above(reading)) for reading in self.all()])


def unblocked(ready: Sequence[SpanReading], waiting: Iterable[SpanReading]) -> list[SpanReading]:
    """Of the spans of a trace that might go on, those that none which waits holds up.

    A span that began before another one ended has something to tell that comes before the other's end:
    until it goes on the other waits, and so does what that one holds up.
    """
    going = list(ready)
    bound = min((one.began for one in waiting if one.has_claims), default=_NEVER)
    while held := [one for one in going if one.has_claims and one.ended > bound]:
        going = [one for one in going if not (one.has_claims and one.ended > bound)]
        bound = min(one.began for one in held)
    return going


def cut_links(trace: Trace) -> int:
    """How many parent links are not followed: of spans that call themselves their parent, and of cycles."""
    selves = sum(h.parent_id == h.span_id and trace.parent(h) is None for h in trace.all())
    cycles = {h.age for h in trace.all() if trace.parent(h) is not None and not trace.above(h)}
    return selves + len(cycles)


def orphans(trace: Trace) -> int:
    """Return how many spans name a parent that never came."""
    return sum(h.parent_id is not None and h.parent_id not in trace.spans for h in trace.all())
