"""The compiled loop that resolves plain traces: their candidates, and what is stored of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled
from ..plain_readings.columns import (
    BEGIN,
    BEHIND,
    CANDIDATES,
    CANDIDATES_STOP,
    CHANGES,
    CHANGES_STOP,
    CLAIMS,
    DUE,
    END,
    ENDS,
    FREED,
    KNOWN,
    MISSING,
    OPEN,
    RECORD,
    RELEASED,
    REQUEST,
    ROW,
    ROW_STOP,
    SESSION_BEGIN,
    SESSION_BEHIND,
    STATUS,
    TIME,
    WAITS,
    WHOLE,
    WHOLE_STOP,
)
from ..sessions.trace import SPAN_CHARS
from .candidate_loops import put_candidate
from .state_loops import put_changes, put_trace
from .trace_loops import (
    READY,
    SPANS_MAX,
    add_keys,
    cover,
    find_ready,
    first_keyed,
    first_release,
    link,
    releases,
)

SPAN_ROOM = 8_000
"""Bytes that a span may need beside those of its request, of which it needs at most six times as many.

Those are its candidate, what others inherit from it (once more if it is the earliest with a session key), and
twice the whole span. Beside its own texts these have names of at most `NAME_MAX` and `SENDER_BYTES_MAX`
bytes, and the keys of at most `ABOVE_MAX` ancestors.
"""


@compiled
def _room(readings: Any, members: Any, first: Any, stop: Any) -> Any:
    """Return how many bytes the spans of a trace may need."""
    room = SPAN_ROOM + 6 * readings[members[first], REQUEST]
    for i in range(first, stop):
        room += SPAN_ROOM + 6 * readings[members[i], REQUEST]
    return room


@compiled
def _status(
    readings: Any, records: Any, members: Any, first: Any, count: Any, links: Any, watermark: Any, until: Any
) -> Any:
    """Return whether a trace waits or is released whole, else `OPEN`."""
    ready, is_overdue = 0, False
    for i in range(count):
        n = members[first + i]
        is_old = records[readings[n, RECORD], TIME] <= until
        ready += links[i, READY] <= watermark
        is_overdue |= is_old and readings[n, END] <= watermark
    if ready == count:
        return RELEASED
    if is_overdue or (ready > 0 and releases(readings, members, first, count, links, watermark)):
        return OPEN
    return WAITS


@compiled
def _put_candidates(
    out: Any, at: Any, b: Any, names: Any, senders: Any, records: Any, digests: Any,
    readings: Any, members: Any, first: Any, count: Any, links: Any, ended: Any, keys: Any, keyed: Any,
    within: Any, candidates: Any, made: Any,
) -> Any:  # fmt: skip
    """Write the candidates of a trace; return the offset behind them, and how many candidates there are."""
    for i in range(count):
        n = members[first + i]
        if readings[n, CLAIMS] == 0 and readings[n, ENDS] == 0:
            continue
        candidates[made, BEGIN] = at
        at, begin, behind = put_candidate(
            out, at, b, names, senders, records, digests,
            readings, members, first, links, i, ended, keys, keyed, within,
        )  # fmt: skip
        candidates[made, BEHIND] = at
        candidates[made, SESSION_BEGIN], candidates[made, SESSION_BEHIND] = begin, behind
        made += 1
    return at, made


@compiled
def resolve(
    b: Any, names: Any, senders: Any, records: Any, digests: Any, readings: Any, members: Any, groups: Any,
    begin: Any, watermark: Any, until: Any, links: Any, ended: Any, within: Any,
    out: Any, candidates: Any, results: Any,
) -> Any:  # fmt: skip
    """Resolve the groups from `begin` on while there is room; return the group behind them, and how
    much was written.

    The members of a group are the rows of a trace's spans in their order. `until` is the record time up to
    which spans only wait for their end.
    """
    at, made = np.int64(0), np.int64(0)
    for g in range(begin, len(groups)):
        first, count, known = groups[g, ROW], groups[g, ROW_STOP] - groups[g, ROW], groups[g, KNOWN]
        results[g, STATUS] = OPEN
        if count > SPANS_MAX:
            continue
        if at + _room(readings, members, first, first + count) > len(out) or made + count > len(candidates):
            return g, at, made
        if not link(b, readings, members, first, count, links):
            continue
        keys = add_keys(b, readings, members, first, count, ended)
        if keys == MISSING or not cover(b, readings, members, first, count, links, within):
            continue
        keyed = first_keyed(readings, members, first, count, links)
        find_ready(b, readings, members, first, count, links, ended, keys)
        status = _status(readings, records, members, first, count, links, watermark, until)
        if status == OPEN:
            continue
        is_released = status == RELEASED
        results[g, STATUS], results[g, FREED], results[g, CANDIDATES] = status, 0, made
        results[g, CHANGES] = at
        if known > 0:
            at = put_changes(
                out, at, b, names, senders, records, digests,
                readings, members, first, count, known, is_released,
            )  # fmt: skip
        results[g, CHANGES_STOP] = results[g, WHOLE] = at
        if known == 0 or is_released:
            at = put_trace(
                out, at, b, names, senders, records, digests,
                readings, members, first, count, ended, keys, keyed, not is_released,
            )  # fmt: skip
        results[g, WHOLE_STOP] = at
        if is_released:
            for i in range(first, first + count):
                results[g, FREED] += SPAN_CHARS + readings[members[i], REQUEST]
            at, made = _put_candidates(
                out, at, b, names, senders, records, digests,
                readings, members, first, count, links, ended, keys, keyed, within, candidates, made,
            )  # fmt: skip
        else:
            results[g, DUE] = first_release(readings, members, first, count, links)
        results[g, CANDIDATES_STOP] = made
    return len(groups), at, made
