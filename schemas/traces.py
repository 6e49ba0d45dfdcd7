"""Session assembly, stage (a), live: spans wait until it is known whose they are (schemas/resolve.py)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from .candidate import Candidate
from .conversation import Flaw
from .coverage import Elsewhere
from .resolve import Heard, Trace, candidate_of, in_turn

TRACES_MAX = 100_000
"""Traces that one source remembers; those with spans that wait are kept beyond it."""
TRACE_SPANS_MAX = 20_000
"""Spans that are remembered of a trace, the first that came, and as many roots beside them.

From others nothing is inherited, and what they stand around is not known.
"""
WAITING_CHARS_MAX = 1 << 27
"""Characters of a source's spans that wait: a minute of as much as one process reads."""
WAITING_CHARS_LEFT = WAITING_CHARS_MAX * 3 // 4
"""Characters of those that go on waiting where there were more."""
SPAN_CHARS = 1_000
"""What a span counts beside its texts."""


Change: TypeAlias = Heard | tuple[int, ...]
"""A span that came to a trace, or the places among those that waited of the ones that went on."""


@dataclass(slots=True)
class Open:
    """A trace whose spans are coming: those that wait, when the last one came (record time).

    `size` is how many are remembered.
    """

    trace: Trace = field(default_factory=Trace)
    waiting: list[Heard] = field(default_factory=list[Heard])
    touched: int = 0
    size: int = 0

    def take(self, heard: Heard) -> None:
        """Let a span wait."""
        # Roots come last, and say the most.
        if self.size < TRACE_SPANS_MAX * (1 if heard.parent_id else 2):
            self.trace.add(heard.bare())
            self.size += 1
        self.waiting.append(heard)
        self.touched = max(self.touched, heard.record_time)

    def let_go(self, places: Collection[int]) -> int:
        """Let those at these places wait no more; gives how much room they took, as `Traces.chars` counts."""
        gone = sum(_chars(self.waiting[place]) for place in places)
        self.waiting = [one for place, one in enumerate(self.waiting) if place not in places]
        return gone

    def redo(self, change: Change) -> int:
        """Do what was done to it before; gives how much room those took that went on."""
        if isinstance(change, Heard):
            self.take(change)
            return 0
        return self.let_go(frozenset(change))


@dataclass(slots=True)
class Changes:
    """What was done to a trace, and how much room those took that went on."""

    done: list[Change] = field(default_factory=list[Change])
    gone: int = 0


@dataclass(frozen=True, slots=True)
class Released:
    """A span that went on, and what came of it.

    `is_early`: it asked what is above it, and its root had not come.
    """

    heard: Heard
    made: Candidate | Flaw
    is_early: bool


@dataclass(slots=True)
class Traces:
    """The traces of one source, each of them plain data that can be stored; times in nanoseconds.

    `hold` is how long a span waits for its root, `keep` how long a trace is remembered after its last span,
    both in record time; of more than `TRACES_MAX` the one that was silent longest is forgotten first, and of
    spans with more than `WAITING_CHARS_MAX`, `chars` in all, those that waited longest go on as if `hold`
    were over. `traces` stand in the order in which they were last heard of. `changed` are those to store
    again, with what was done to them since; with None that is not known, or `traces` has them no more. It
    grows with what comes until who stores them clears it.
    """

    hold: int
    keep: int
    traces: dict[str, Open] = field(default_factory=dict[str, Open])
    waiting: set[str] = field(default_factory=set[str])
    changed: dict[str, Changes | None] = field(default_factory=dict[str, Changes | None])
    chars: int = field(init=False)

    def __post_init__(self) -> None:
        """Count what waits."""
        self.chars = sum(map(_chars, self._waiting()))

    def add(self, heard: Heard) -> None:
        """Let a span wait in its trace."""
        opened = self.traces.pop(heard.trace_id, None) or Open()
        opened.take(heard)
        self.chars += _chars(heard)
        self.traces[heard.trace_id] = opened
        self.waiting.add(heard.trace_id)
        self._note(heard.trace_id, heard)

    def release(self, watermark: int, now: int) -> Iterator[Released]:
        """What need not wait any more, by the source's watermark and the record time that it has reached.

        Nothing goes on before the watermark has passed its end: sooner it could not be judged. A span that
        says its session and its agent goes on then, any other when its root is known and the watermark has
        passed the ends of all above it; both in their turn (`in_turn`), or after `hold`. One that breaks
        is a flaw, and holds up none of the others.
        """
        yield from self._release(watermark, now - self.hold)
        if self.chars > WAITING_CHARS_MAX:
            yield from self._release(watermark, self._crowded())
        self._forget(now)

    def _waiting(self) -> Iterator[Heard]:
        """The spans that wait."""
        return (heard for trace_id in self.waiting for heard in self.traces[trace_id].waiting)

    def _crowded(self) -> int:
        """The record time of the last span that may not wait any more, so that there is room for others."""
        left = self.chars
        for time, chars in sorted((heard.record_time, _chars(heard)) for heard in self._waiting()):
            left -= chars
            if left <= WAITING_CHARS_LEFT:
                return time
        raise AssertionError("nothing waits, and is too much")

    def _release(self, watermark: int, until: int) -> Iterator[Released]:
        """What need not wait any more; of what is of a record time up to that one nothing needs to."""
        for trace_id in sorted(self.waiting):
            opened = self.traces[trace_id]
            ready = _ready(opened, watermark, until)
            if not ready:
                continue
            going = {id(one) for one in ready}
            places = tuple(place for place, one in enumerate(opened.waiting) if id(one) in going)
            gone = opened.let_go(frozenset(places))
            self.chars -= gone
            self._note(trace_id, places, gone)
            told_inside = opened.trace.told_inside()
            if not opened.waiting:
                self.waiting.discard(trace_id)
            for heard in ready:
                is_early = not opened.trace.speaks_for_itself(heard) and opened.trace.root(heard) is None
                yield Released(heard, _made(opened.trace, heard, told_inside), is_early)

    def _forget(self, now: int) -> None:
        """Forget the traces that were silent longest, if for longer than `keep` or there are too many."""
        while self.traces:
            trace_id, opened = next(iter(self.traces.items()))
            is_fresh = now - opened.touched <= self.keep and len(self.traces) <= TRACES_MAX
            if opened.waiting or is_fresh:
                return
            del self.traces[trace_id]
            self.changed[trace_id] = None

    def _note(self, trace_id: str, change: Change, gone: int = 0) -> None:
        """Note what was done to a trace, unless it was forgotten since it was stored."""
        changes = self.changed.setdefault(trace_id, Changes())
        if changes is not None:
            changes.done.append(change)
            changes.gone += gone


def _made(trace: Trace, heard: Heard, told_inside: Elsewhere) -> Candidate | Flaw:
    """What comes of a span, whatever it says."""
    place = f"trace {heard.trace_id}, span {heard.span_id}"
    try:
        made = candidate_of(trace, heard, told_inside)
    except Exception as error:
        if isinstance(error, MemoryError):
            # It says nothing of the span.
            raise
        return Flaw(place, "internal", type(error).__name__)
    return replace(made, place=place) if isinstance(made, Flaw) else made


def _chars(heard: Heard) -> int:
    """How much of `WAITING_CHARS_MAX` a span takes."""
    return SPAN_CHARS + heard.step.chars


def _ready(opened: Open, watermark: int, until: int) -> list[Heard]:
    """The spans of a trace that need not wait any more, those of a record time up to `until` among them."""

    def is_overdue(one: Heard) -> bool:
        return one.record_time <= until

    ready: list[Heard] = []
    overdue: list[Heard] = []
    waiting: list[Heard] = []
    for one in opened.waiting:
        if _is_ready(opened.trace, one, watermark):
            ready.append(one)
        elif one.ended <= watermark and is_overdue(one):
            overdue.append(one)
        else:
            waiting.append(one)
    going = in_turn(ready, waiting)
    in_hand = {id(one) for one in going}
    if any(id(one) not in in_hand and is_overdue(one) for one in ready):
        # What waits for its turn no longer takes along what could go on: among these the turn is kept.
        going = ready
    return going + overdue


def _is_ready(trace: Trace, heard: Heard, watermark: int) -> bool:
    if heard.ended > watermark:
        return False
    is_known = trace.speaks_for_itself(heard) or trace.root(heard) is not None
    return is_known and trace.settled(heard) <= watermark
