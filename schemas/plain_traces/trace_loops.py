"""Compiled loops over the spans of one trace: their ancestors, when they are named, and what others claim.

They follow `schemas/sessions/trace.py` and `coverage.py`, and refuse a trace in which anything is unusual. A
span is named by its place in its trace; `members` has the row of each from `first` on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled
from ..plain_readings.columns import (
    AGENT,
    ANSWER,
    BOTH_HALVES,
    CAPTURED,
    CHAT,
    CLAIMS,
    END,
    IDENTITY,
    MISSING,
    NAME,
    NESTED,
    OTHER,
    OWN,
    PARENT,
    ROLE,
    SESSION,
    START,
    TOOL,
)
from ..time import NS_MAX

SPANS_MAX, SESSIONS_MAX, ABOVE_MAX = 500, 16, 15
"""Spans and session keys of a trace, and ancestors of a span, beyond which it is not plain."""
FEW = 64
"""Spans of a trace, up to which it is worth finding when the first one is released."""
ROOT, UNKNOWN = -1, -2
OWN_ID, PARENT_ID, ABOVE, READY, COVERED, LINK_COLUMNS = range(6)
"""Columns of a span: its ids as numbers, its parent, the watermark from which it is named, and the halves
that other spans claim."""
KEY, KEY_SIZE, KEY_END, KEY_COLUMNS = range(4)
"""Columns of a session key: its offset and size, and when the first span with it ended."""
OUTER, HALVES, WITHIN_COLUMNS = range(3)
"""Columns of an enclosing span: its place, and the halves of it that the inner span claims."""
_NEVER = np.int64(NS_MAX)


@compiled
def _number(b: Any, at: Any) -> Any:
    """Return the eight bytes of an id as a number that is ordered as they are."""
    value = np.uint64(0)
    for k in range(8):
        value = (value << np.uint64(8)) | np.uint64(b[at + k])
    return np.int64(value ^ np.uint64(1 << 63))


@compiled
def _same(b: Any, at: Any, begin: Any, size: Any) -> Any:
    is_same, place, second = True, np.uint64(at), np.uint64(begin)
    for k in range(np.uint64(size)):
        is_same &= b[place + k] == b[second + k]
    return is_same


@compiled
def same_text(b: Any, readings: Any, n: Any, m: Any, column: Any) -> Any:
    """Return whether two spans have one text in a column."""
    size = readings[n, column + 1]
    if size != readings[m, column + 1]:
        return False
    return _same(b, readings[n, column], readings[m, column], size)


@compiled
def link(b: Any, readings: Any, members: Any, first: Any, count: Any, links: Any) -> Any:
    """Find the parents; return whether all ids differ, and no span has too many ancestors."""
    for i in range(count):
        n = members[first + i]
        parent = readings[n, PARENT]
        links[i, OWN_ID], links[i, COVERED] = _number(b, readings[n, IDENTITY]), 0
        links[i, ABOVE] = ROOT if parent == MISSING else UNKNOWN
        links[i, PARENT_ID] = links[i, OWN_ID] if parent == MISSING else _number(b, parent)
    for i in range(count):
        for j in range(i):
            if links[i, OWN_ID] == links[j, OWN_ID]:
                return False
            if links[i, ABOVE] != ROOT and links[i, PARENT_ID] == links[j, OWN_ID]:
                links[i, ABOVE] = j
            if links[j, ABOVE] != ROOT and links[j, PARENT_ID] == links[i, OWN_ID]:
                links[j, ABOVE] = i
        if links[i, ABOVE] != ROOT and links[i, PARENT_ID] == links[i, OWN_ID]:
            return False
    for i in range(count):
        upper, above = links[i, ABOVE], 0
        while upper >= 0:
            upper, above = links[upper, ABOVE], above + 1
            if above > ABOVE_MAX:
                return False
    return True


@compiled
def add_keys(b: Any, readings: Any, members: Any, first: Any, count: Any, ended: Any) -> Any:
    """Note when the first span of each session key ended; return how many keys there are.

    The empty key is that of model's calls without one. Return `MISSING` where there are too many.
    """
    keys = 0
    for i in range(count):
        n = members[first + i]
        size = max(readings[n, SESSION + 1], 0)
        if size == 0 and readings[n, ROLE] != CHAT:
            continue
        found = keys
        for k in range(keys):
            if is_key(b, readings, n, ended, k):
                found = k
        if found == SESSIONS_MAX:
            return MISSING
        if found == keys:
            ended[keys, KEY], ended[keys, KEY_SIZE] = readings[n, SESSION], size
            ended[keys, KEY_END] = readings[n, END]
            keys += 1
        ended[found, KEY_END] = min(ended[found, KEY_END], readings[n, END])
    return keys


@compiled
def is_key(b: Any, readings: Any, n: Any, ended: Any, k: Any) -> Any:
    """Return whether a span has this session key."""
    size = max(readings[n, SESSION + 1], 0)
    if size != ended[k, KEY_SIZE]:
        return False
    return _same(b, readings[n, SESSION], ended[k, KEY], size)


@compiled
def first_keyed(readings: Any, members: Any, first: Any, count: Any, links: Any) -> Any:
    """Return the place of the earliest span with a session key, `MISSING` without one."""
    found = MISSING
    for i in range(count):
        n = members[first + i]
        if readings[n, SESSION + 1] == MISSING:
            continue
        if found == MISSING:
            found = i
            continue
        start, former = readings[n, START], readings[members[first + found], START]
        if start < former or (start == former and links[i, OWN_ID] < links[found, OWN_ID]):
            found = i
    return found


@compiled
def may_be_sub_agents(b: Any, readings: Any, n: Any, ended: Any, keys: Any) -> Any:
    """Return whether a span's conversation may be a sub-agent's, as `Trace.may_be_sub_agents`."""
    if readings[n, OWN] == 0 or readings[n, PARENT] == MISSING:
        return False
    for k in range(keys):
        if ended[k, KEY_END] <= readings[n, END] and not is_key(b, readings, n, ended, k):
            return True
    return False


@compiled
def find_ready(
    b: Any, readings: Any, members: Any, first: Any, count: Any, links: Any, ended: Any, keys: Any
) -> Any:
    """Note for each span the watermark from which it and all that it needs are known."""
    for i in range(count):
        n = members[first + i]
        links[i, READY] = readings[n, END]
        is_named = readings[n, SESSION + 1] != MISSING and readings[n, NAME + 1] != MISSING
        if is_named and not may_be_sub_agents(b, readings, n, ended, keys):
            continue
        upper = links[i, ABOVE]
        while upper >= 0:
            links[i, READY] = max(links[i, READY], readings[members[first + upper], END])
            upper = links[upper, ABOVE]
        if upper == UNKNOWN:
            links[i, READY] = _NEVER


@compiled
def releases(readings: Any, members: Any, first: Any, count: Any, links: Any, watermark: Any) -> Any:
    """Return whether any span is released at a watermark: it is ready, and none that waits blocks it."""
    bound, is_changed = _NEVER, True
    while is_changed:
        is_changed, least = False, bound
        for i in range(count):
            n = members[first + i]
            is_blocking = links[i, READY] > watermark or readings[n, END] > bound
            if is_blocking and readings[n, CLAIMS] and readings[n, START] < least:
                least, is_changed = readings[n, START], True
        bound = least
    for i in range(count):
        n = members[first + i]
        if links[i, READY] <= watermark and (readings[n, CLAIMS] == 0 or readings[n, END] <= bound):
            return True
    return False


@compiled
def first_release(readings: Any, members: Any, first: Any, count: Any, links: Any) -> Any:
    """Return a watermark below which no span is released; of a small trace the greatest."""
    last = np.int64(-1)
    for _ in range(count if count <= FEW else 1):
        least = _NEVER
        for i in range(count):
            if last < links[i, READY] < least:
                least = links[i, READY]
        if least == _NEVER or count > FEW or releases(readings, members, first, count, links, least):
            return least
        last = least
    return _NEVER


@compiled
def enclosing(b: Any, readings: Any, members: Any, first: Any, links: Any, i: Any, within: Any) -> Any:
    """Note the spans of the same call or run around a conversation, and the halves that it claims of them.

    Return how many there are.
    """
    n = members[first + i]
    role, count, upper = readings[n, ROLE], 0, links[i, ABOVE]
    named = n if role == AGENT and readings[n, NAME + 1] != MISSING else MISSING
    while upper >= 0 and role in (CHAT, AGENT):
        outer = members[first + upper]
        if readings[outer, ROLE] == TOOL:
            break
        if readings[outer, ROLE] != OTHER:
            if readings[outer, ROLE] == AGENT and readings[outer, NAME + 1] != MISSING:
                if named != MISSING and not same_text(b, readings, named, outer, NAME):
                    break
                named = outer
            within[count, OUTER], within[count, HALVES] = upper, readings[n, CAPTURED]
            if role == CHAT:
                within[count, HALVES] |= BOTH_HALVES & ~readings[outer, CAPTURED]
            count += 1
        upper = links[upper, ABOVE]
    return count


@compiled
def _is_run_in_run(readings: Any, members: Any, first: Any, links: Any, i: Any) -> Any:
    """Return whether a tool's run may be the same run as one around it."""
    upper = links[i, ABOVE]
    while upper >= 0 and readings[members[first + upper], ROLE] == OTHER:
        upper = links[upper, ABOVE]
    return upper >= 0 and readings[members[first + upper], ROLE] == TOOL


@compiled
def cover(
    b: Any, readings: Any, members: Any, first: Any, count: Any, links: Any, within: Any
) -> Any:  # fmt: skip
    """Note the halves of spans that others claim; return False where more spans decide it."""
    for i in range(count):
        n = members[first + i]
        role = readings[n, ROLE]
        if role == TOOL and _is_run_in_run(readings, members, first, links, i):
            return False
        if role == CHAT and readings[n, ANSWER + 1] != MISSING:
            for j in range(i):
                m = members[first + j]
                if readings[m, ROLE] == CHAT and same_text(b, readings, n, m, ANSWER):
                    return False
        for k in range(enclosing(b, readings, members, first, links, i, within)):
            outer = within[k, OUTER]
            is_wrapper = role == CHAT and readings[members[first + outer], ROLE] == CHAT
            if is_wrapper and readings[n, CAPTURED] != BOTH_HALVES:
                return False
            if readings[n, CLAIMS]:
                links[outer, COVERED] |= within[k, HALVES]
    return True


@compiled
def is_nested(b: Any, readings: Any, members: Any, first: Any, links: Any, i: Any) -> Any:
    """Return whether a span belongs to a sub-agent, as `schemas/sessions/resolve.py` decides it."""
    works, named, place = False, MISSING, i
    while place >= 0:
        n = members[first + place]
        role = readings[n, ROLE]
        if readings[n, NESTED] != MISSING:
            return readings[n, NESTED] == 1
        if works and role == TOOL:
            return True
        works = works or role in (AGENT, CHAT)
        if role == AGENT and readings[n, NAME + 1] != MISSING:
            if named != MISSING and not same_text(b, readings, named, n, NAME):
                return True
            named = n
        place = links[place, ABOVE]
    return False


@compiled
def session_of(
    b: Any, readings: Any, members: Any, first: Any, links: Any, i: Any, ended: Any, keys: Any, keyed: Any
) -> Any:
    """Return the place of the span with the session key of a span, `MISSING` without one.

    `keyed` is the earliest span with a key.
    """
    found, place = MISSING, i
    while place >= 0:
        n = members[first + place]
        is_above_key = readings[n, ROLE] == TOOL and place != i and found != MISSING
        if is_above_key and may_be_sub_agents(b, readings, members[first + found], ended, keys):
            found = MISSING
        if found == MISSING and readings[n, SESSION + 1] != MISSING:
            found = place
        place = links[place, ABOVE]
    return keyed if found == MISSING else found


@compiled
def nearest(readings: Any, members: Any, first: Any, links: Any, i: Any, column: Any) -> Any:
    """Return the row of the nearest span, from a span upwards, that has a text in a column."""
    place = i
    while place >= 0:
        if readings[members[first + place], column + 1] != MISSING:
            return members[first + place]
        place = links[place, ABOVE]
    return MISSING
