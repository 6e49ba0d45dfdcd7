"""The compiled loop that reads all spans of a batch of requests, and divides each request into runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled
from ..plain_readings.columns import (
    CHARS,
    CLAIMS,
    END,
    FIRST,
    FLAT,
    FLAT_READ,
    IDENTITY,
    LAST_END,
    LATEST,
    MISSING,
    PARENT,
    READ,
    READING_OF,
    RECORD,
    REQUEST,
    RESOURCE,
    RESOURCE_STOP,
    RUNS,
    RUNS_STOP,
    SCOPE,
    SCOPE_STOP,
    SENDER,
    SPAN,
    SPAN_STOP,
    START,
    STOP,
    TRACE,
)
from ..plain_readings.reading_loops import read_facts
from ..sessions.trace import SPAN_CHARS
from ..walk import wire_loops
from ..walk.request_loops import FACTS, SPANS
from ..walk.wire_loops import BEGIN, ENDED, FACTS_STOP, ODD, STARTED, STATE

_FIRST_FACT, _BYTES_STOP = wire_loops.FACTS, wire_loops.STOP
_TRACE, _IDENTITY, _PARENT = wire_loops.TRACE, wire_loops.IDENTITY, wire_loops.PARENT
_RESOURCE, _RESOURCE_STOP = wire_loops.RESOURCE, wire_loops.RESOURCE_STOP
_SCOPE, _SCOPE_STOP = wire_loops.SCOPE, wire_loops.SCOPE_STOP


@compiled
def field_size(size: Any) -> Any:
    """Return the size of a field of so many bytes, with its tag of one byte and its length."""
    whole = size + 2
    while size > 127:
        size >>= 7
        whole += 1
    return whole


@compiled
def scoped_size(readings: Any, n: Any) -> Any:
    """Return the size of a span and its scope in a request of the span alone."""
    scope = readings[n, SCOPE_STOP] - readings[n, SCOPE]
    return field_size(scope) + field_size(readings[n, SPAN_STOP] - readings[n, SPAN])


@compiled
def resource_size(readings: Any, n: Any) -> Any:
    """Return the size of a span with its scope and its resource in a request of the span alone."""
    resource = readings[n, RESOURCE_STOP] - readings[n, RESOURCE]
    return field_size(resource) + field_size(scoped_size(readings, n))


@compiled
def _read_span(
    b: Any, base: Any, spans: Any, n: Any, facts: Any, first_fact: Any, of_slot: Any, readings: Any
) -> Any:
    """Read a span; return whether it is usual."""
    if spans[n, STATE] & ODD or spans[n, STARTED] <= 0 or spans[n, ENDED] <= 0:
        return False
    readings[n, SENDER] = 0
    readings[n, SPAN], readings[n, SPAN_STOP] = base + spans[n, BEGIN], base + spans[n, _BYTES_STOP]
    readings[n, RESOURCE] = base + spans[n, _RESOURCE]
    readings[n, RESOURCE_STOP] = base + spans[n, _RESOURCE_STOP]
    readings[n, SCOPE], readings[n, SCOPE_STOP] = base + spans[n, _SCOPE], base + spans[n, _SCOPE_STOP]
    readings[n, TRACE], readings[n, IDENTITY] = base + spans[n, _TRACE], base + spans[n, _IDENTITY]
    readings[n, PARENT] = MISSING if spans[n, _PARENT] < 0 else base + spans[n, _PARENT]
    readings[n, START], readings[n, END] = spans[n, STARTED], spans[n, ENDED]
    readings[n, REQUEST] = field_size(resource_size(readings, n))
    first, stop = first_fact + spans[n, _FIRST_FACT], first_fact + spans[n, FACTS_STOP]
    return read_facts(b, base, spans[n, STATE], facts, first, stop, of_slot, readings, n)


@compiled
def _is_of_run(b: Any, readings: Any, n: Any, first: Any) -> Any:
    """Return whether a span has the trace, the resource and the scope of the run of another span."""
    if readings[n, RESOURCE] != readings[first, RESOURCE] or readings[n, SCOPE] != readings[first, SCOPE]:
        return False
    is_same = readings[n, RESOURCE_STOP] == readings[first, RESOURCE_STOP]
    is_same &= readings[n, SCOPE_STOP] == readings[first, SCOPE_STOP]
    for k in range(16):
        is_same &= b[readings[n, TRACE] + k] == b[readings[first, TRACE] + k]
    return is_same


@compiled
def _add_runs(b: Any, i: Any, first: Any, stop: Any, readings: Any, runs: Any, count: Any) -> Any:
    """Divide the spans of a request into runs; return how many runs there are then."""
    for n in range(first, stop):
        readings[n, RECORD] = i
        if n == first or not _is_of_run(b, readings, n, runs[count - 1, FIRST]):
            runs[count, READING_OF], runs[count, FIRST] = i, n
            runs[count, CHARS], runs[count, READ], runs[count, FLAT_READ] = 0, 0, 0
            count += 1
        runs[count - 1, STOP] = n + 1
        runs[count - 1, CHARS] += SPAN_CHARS + readings[n, REQUEST]
        runs[count - 1, READ] += readings[n, CLAIMS]
        runs[count - 1, FLAT_READ] |= readings[n, FLAT]
    return count


@compiled
def read_requests(
    b: Any, begins: Any, found: Any, spans: Any, facts: Any, of_slot: Any,
    readings: Any, requests: Any, runs: Any,
) -> Any:  # fmt: skip
    """Read the spans of requests that were walked, and divide those of each plain one into runs.

    Return how many runs there are. `begins` are the offsets of the requests.
    """
    first = first_fact = count = np.int64(0)
    for i in range(len(begins)):
        requests[i, RUNS] = requests[i, RUNS_STOP] = MISSING
        requests[i, LATEST] = requests[i, LAST_END] = 0
        spans_of, facts_of = found[i, SPANS], found[i, FACTS]
        if spans_of <= 0:
            continue
        is_plain = True
        for n in range(first, first + spans_of):
            if not _read_span(b, begins[i], spans, n, facts, first_fact, of_slot, readings):
                is_plain = False
                break
            requests[i, LATEST] = max(requests[i, LATEST], readings[n, START], readings[n, END])
            requests[i, LAST_END] = max(requests[i, LAST_END], readings[n, END])
        if is_plain:
            requests[i, RUNS] = count
            count = _add_runs(b, i, first, first + spans_of, readings, runs, count)
            requests[i, RUNS_STOP] = count
        first, first_fact = first + spans_of, first_fact + facts_of
    return count
