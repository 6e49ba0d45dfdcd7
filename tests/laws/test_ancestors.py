"""Ancestors that siblings share are those of each span alone."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.schemas.sessions.span_reading import SpanReading
from tracline.schemas.sessions.trace import Ancestors, Trace
from tracline.schemas.span_content import SpanContent, SpanRole

from .quick_draws import quickly

IDS = st.sampled_from([f"{number:x}" for number in range(6)])
PARENTS = st.none() | IDS
SPANS = st.lists(st.tuples(IDS, PARENTS, st.integers(1, 3)), min_size=1, max_size=10)
LONG = 40


def trace_of(spans: list[tuple[str, str | None, int]]) -> tuple[Trace, list[SpanReading]]:
    """Return a trace of spans with these ids, parents and starts."""
    trace, content = Trace({}, None, {}), SpanContent(SpanRole.CHAT)
    readings = [SpanReading("t", name, parent, start, start + 1, content) for name, parent, start in spans]
    for reading in readings:
        trace.add(reading)
    return trace, readings


@given(quickly(SPANS), st.integers(0, 2**32).map(Random))
@settings(max_examples=2_000, deadline=None)
def test_shared_ancestors_are_those_of_each_span(
    spans: list[tuple[str, str | None, int]], random: Random
) -> None:
    """Of spans with equal ids, missing parents, themselves as parents, and in cycles, asked in any order."""
    trace, readings = trace_of(spans)
    ancestors = Ancestors(trace)
    random.shuffle(readings)
    for reading in readings:
        assert [id(span) for span in ancestors.above(reading)] == [id(span) for span in trace.above(reading)]


def test_ancestors_of_long_chains_are_those_of_each_span() -> None:
    """A chain with two spans at each depth; near its root the ancestors are shared."""
    chain = [(f"{depth:x}", f"{depth - 1:x}" if depth else None, depth + 1) for depth in range(LONG)]
    twins = [(f"twin {name}", parent, start) for name, parent, start in chain]
    trace, readings = trace_of(chain + twins)
    ancestors = Ancestors(trace)
    found = [ancestors.above(reading) for reading in readings]
    assert [list(above) for above in found] == [list(trace.above(reading)) for reading in readings]
    shared = Counter(id(above) for above in found if above)
    assert max(shared.values()) > 1
