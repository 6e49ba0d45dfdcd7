"""Spans that end later than what they time, by an error of their SDK's clock (session assembly, stage a).

Spans that end late for other reasons keep their ends; `memory/tool_use.py` joins the calls that they claim.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..span_content import SpanRole

CLOCK_ERROR = 1_000_000
"""Nanoseconds by which a span may seem to outlive one that waits for it."""


def whole_end(start: int, end: int, role: SpanRole) -> int:
    """Return the end of a model's call or a tool's run, cut to a whole millisecond where the start is one.

    JavaScript's SDK cuts starts and adds exact durations. With both cut, no model's call ends after the start
    of a tool that it requested, and no tool ends after the start of a call with its result. A model's call
    shorter than a millisecond keeps its end: only the time separates its output from its input.
    """
    cut = end // CLOCK_ERROR * CLOCK_ERROR
    least = {SpanRole.CHAT: start + 1, SpanRole.TOOL: start}.get(role)
    is_cut = start > 0 and start % CLOCK_ERROR == 0
    return cut if is_cut and least is not None and least <= cut else end


def end_inside(end: int, runs: Iterable[int]) -> int:
    """Return a span's end, or that of an enclosing tool's run if only the clock's error is between them.

    `runs` are the ends of these runs. JavaScript's SDK takes the ends of spans from clocks that differ by
    less than a millisecond.
    """
    return min((ended for ended in runs if ended < end <= ended + CLOCK_ERROR), default=end)
