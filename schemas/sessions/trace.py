"""The spans of one trace that have come so far (session assembly, stage a)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter

import msgspec

from ..span_content import SpanRole
from ..time import NS_MAX
from .coverage import Coverage, coverage_of
from .span_reading import SpanReading

ANCESTORS_MAX = 200
"""Ancestors of a span that are looked at."""
SAME_ID_MAX = 100
"""Spans with one id, the earliest, among which a parent is looked for."""
KEYS_MAX = 1_000
"""Session keys of a trace that are remembered."""

_AGE = attrgetter("age")


class Trace(msgspec.Struct, rename={"ended_by_key": "said"}):
    """The spans of one trace that have come so far.

    `spans` are by id, those with one id by age. `keyed` is the earliest span with a session key.
    `ended_by_key` has for each session key when the first span with it ended, and for the empty key when the
    first model's call without one ended.
    """

    spans: dict[str, list[SpanReading]] = msgspec.field(default_factory=dict[str, list[SpanReading]])
    keyed: SpanReading | None = None
    ended_by_key: dict[str, int] = msgspec.field(default_factory=dict[str, int])

    def add(self, reading: SpanReading) -> None:
        """Add a span."""
        self._insert(self.spans.get(reading.span_id, ()), reading)
        session, ended = reading.content.session, self.ended_by_key
        if session is not None and (self.keyed is None or reading.age < self.keyed.age):
            self.keyed = reading
        key = "" if session is None else str(session)
        if (key or reading.content.role is SpanRole.CHAT) and (key in ended or len(ended) < KEYS_MAX):
            ended[key] = min(reading.ended, ended.get(key, reading.ended))

    def replace(self, former: SpanReading, reading: SpanReading) -> None:
        """Replace a span by one with the same ids and other content."""
        same = list(self.spans.get(former.span_id, ()))
        if former in same:
            same.remove(former)
            self._insert(same, reading)

    def copy(self) -> Trace:
        """Return a trace that can change while this one stays; both have the same spans."""
        return Trace(dict(self.spans), self.keyed, dict(self.ended_by_key))

    def _insert(self, same: Sequence[SpanReading], reading: SpanReading) -> None:
        """Put a span among those with its id, in a new list: a copy of the trace has the former one."""
        inserted = [*same]
        insort(inserted, reading, key=_AGE)
        self.spans[reading.span_id] = inserted

    def all(self) -> Iterator[SpanReading]:
        """Return every span that has come."""
        return (reading for same in self.spans.values() for reading in same)

    def parent(self, reading: SpanReading) -> SpanReading | None:
        """Return the parent; None at a root, where it has not come, and where a span names itself."""
        found = [] if reading.parent_id is None else self.spans.get(reading.parent_id, [])
        if reading.parent_id == reading.span_id:
            # The parent may be another span that was sent with the same id.
            found = [span for span in islice(found, SAME_ID_MAX) if span.parent_id != span.span_id]
        return found[0] if found else None

    def above(self, reading: SpanReading) -> Sequence[SpanReading]:
        """Return the ancestors, nearest first, `ANCESTORS_MAX` at most; in a cycle up to its earliest."""
        chain, places = [reading], {id(reading): 0}
        while len(chain) <= ANCESTORS_MAX and (upper := self.parent(chain[-1])) is not None:
            if id(upper) in places:
                # The chain may hold the span itself a second time, without its claims.
                ages = [span.age for span in chain]
                return chain[1 : ages.index(min(ages[places[id(upper)] :])) + 1]
            places[id(upper)] = len(chain)
            chain.append(upper)
        return chain[1:]

    def root(self, reading: SpanReading) -> SpanReading | None:
        """Return the root above a span, or the span itself; None where the root is not known."""
        *_, last = (reading, *self.above(reading))
        return last if last.parent_id is None else None

    def is_self_described(self, reading: SpanReading) -> bool:
        """Return whether a span itself names session and agent, so that it need not wait for its ancestors.

        A conversation of its own may be a sub-agent's: a model call before it had another conversation, or
        none. Then an ancestor names the session.
        """
        return reading.is_named and not self.may_be_sub_agents(reading)

    def may_be_sub_agents(self, reading: SpanReading) -> bool:
        """Return whether a span's conversation may be a sub-agent's: another was in use before it ended."""
        session = reading.content.session
        if not reading.content.own_conversation or reading.parent_id is None:
            return False
        return any(ended <= reading.ended and key != session for key, ended in self.ended_by_key.items())

    def settled(self, reading: SpanReading) -> int:
        """Return the time by which a span's session and agent are named.

        That is the span's end where it names them itself, else the latest end among it and its ancestors.
        """
        above = () if self.is_self_described(reading) else self.above(reading)
        return max(span.ended for span in (reading, *above))

    def coverage(self) -> Coverage:
        """Return which claims of its spans other spans of it make."""
        return coverage_of([(reading, self.above(reading)) for reading in self.all()])


def unblocked(ready: Sequence[SpanReading], waiting: Iterable[SpanReading]) -> list[SpanReading]:
    """Return the spans of a trace, of those that are ready, which no waiting span blocks.

    A span blocks another one that ends after the span began: the span has claims from before that end. A
    blocked span blocks others in turn.
    """
    released = list(ready)
    bound = min((span.began for span in waiting if span.has_claims), default=NS_MAX)
    while blocked := [span for span in released if span.has_claims and span.ended > bound]:
        released = [span for span in released if not (span.has_claims and span.ended > bound)]
        bound = min(span.began for span in blocked)
    return released


def cut_links(trace: Trace) -> int:
    """Return the number of parent links that are not followed: spans that name themselves, and cycles."""
    selves = sum(span.parent_id == span.span_id and trace.parent(span) is None for span in trace.all())
    cycles = {span.age for span in trace.all() if trace.parent(span) is not None and not trace.above(span)}
    return selves + len(cycles)


def orphans(trace: Trace) -> int:
    """Return the number of spans with a parent that never came."""
    return sum(span.parent_id is not None and span.parent_id not in trace.spans for span in trace.all())
