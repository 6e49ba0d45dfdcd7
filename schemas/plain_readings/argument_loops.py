"""Compiled loops over the arguments of a tool in OpenLLMetry's conventions.

A tool's input may be the call of the function that runs it, `{"args": [], "kwargs": {...}}`, and then the
keywords are the arguments, as `unwrapped_arguments` finds them. They are written as compact JSON.
"""

from __future__ import annotations

from typing import Any

from ..compiled import compiled
from ..walk.name_loops import is_of, joined
from .columns import MISSING

MEMBERS_MAX = 16
"""Members of an object whose names are compared."""
DIGITS_MAX = 18
"""Digits of a number that any reader of JSON takes for the same integer."""
_ARGS, _KWARGS, _INPUT = joined(["args"]), joined(["kwargs"]), joined(["input_str"])
_QUOTE, _COMMA, _COLON, _ESCAPE = 34, 44, 58, 92
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93
_MINUS, _POINT, _ZERO = 45, 46, 48


@compiled
def _is_space(byte: Any) -> Any:
    return byte == 32 or 9 <= byte <= 10 or byte == 13


@compiled
def _behind_space(b: Any, at: Any, stop: Any) -> Any:
    while at < stop and _is_space(b[at]):
        at += 1
    return at


@compiled
def _behind_text(b: Any, at: Any) -> Any:
    """Return the offset behind a text without escapes, which begins with a quote."""
    at += 1
    while b[at] != _QUOTE:
        at += 1
    return at + 1


@compiled
def _behind_value(b: Any, at: Any, stop: Any) -> Any:
    """Return the offset of the comma or the end behind a value."""
    depth = 0
    while at < stop:
        byte = b[at]
        if byte == _QUOTE:
            at = _behind_text(b, at)
            continue
        is_end = byte in (_CLOSE, _CLOSE_LIST)
        if depth == 0 and (is_end or byte == _COMMA):
            return at
        depth += (byte in (_OPEN, _OPEN_LIST)) - is_end
        at += 1
    return at


@compiled
def _compact_size(b: Any, at: Any, stop: Any) -> Any:
    """Return the size of an object as compact JSON; `MISSING` where a reader may write it otherwise."""
    size, digits, first = 0, 0, at
    while at < stop:
        byte = b[at]
        if byte == _QUOTE:
            behind = _behind_text(b, at)
            size, at, digits = size + behind - at, behind, 0
            continue
        is_digit = _ZERO <= byte <= 57
        is_fraction = byte == _POINT or ((byte == 101 or byte == 69) and digits > 0)
        is_zero = byte == _MINUS and b[at + 1] == _ZERO
        digits = digits + 1 if is_digit else 0
        if is_fraction or is_zero or digits > DIGITS_MAX or (byte == _OPEN and at > first):
            return MISSING
        size += not _is_space(byte)
        at += 1
    return size


@compiled
def _has_repeats(b: Any, at: Any, stop: Any) -> Any:
    """Return whether two members of an object have one name, or there are too many to be compared."""
    first, count = _behind_space(b, at + 1, stop), 0
    place = first
    while b[place] == _QUOTE:
        behind = _behind_text(b, place)
        earlier = first
        while earlier < place:
            earlier_behind = _behind_text(b, earlier)
            is_same = earlier_behind - earlier == behind - place
            for k in range(behind - place if is_same else 0):
                is_same &= b[earlier + k] == b[place + k]
            if is_same:
                return True
            earlier = _next(b, earlier_behind, stop)
        count += 1
        place = _next(b, behind, stop)
    return count > MEMBERS_MAX


@compiled
def _next(b: Any, at: Any, stop: Any) -> Any:
    """Return the offset of the name behind a member's name, or of the end of its object."""
    at = _behind_value(b, _behind_space(b, at, stop) + 1, stop)
    return _behind_space(b, at + 1, stop) if b[at] == _COMMA else at


@compiled
def own_arguments(b: Any, at: Any, stop: Any) -> Any:
    """Return the bounds of a tool's arguments in its input, an object in JSON, and their size when compact.

    The first is `MISSING` where only the dialects can read them, the size where they stay as they are.
    """
    for k in range(at, stop):
        if b[k] == _ESCAPE:
            return MISSING, stop, MISSING
    begin, behind, has_no_args, is_inputs = MISSING, stop, False, False
    place = _behind_space(b, at + 1, stop)
    if _has_repeats(b, at, stop):
        return MISSING, stop, MISSING
    while b[place] == _QUOTE:
        name, name_stop = place + 1, _behind_text(b, place) - 1
        value = _behind_space(b, _behind_space(b, name_stop + 1, stop) + 1, stop)
        if is_of(b, name, name_stop - name, _ARGS):
            has_no_args = b[value] == _OPEN_LIST and b[_behind_space(b, value + 1, stop)] == _CLOSE_LIST
        elif is_of(b, name, name_stop - name, _KWARGS) and b[value] == _OPEN:
            begin, behind = value, _behind_value(b, value, stop)
        is_inputs |= is_of(b, name, name_stop - name, _INPUT)
        place = _next(b, name_stop + 1, stop)
    if not (has_no_args and begin != MISSING):
        return MISSING if is_inputs else at, stop, MISSING
    while _is_space(b[behind - 1]):
        behind -= 1
    size = _compact_size(b, begin, behind)
    return MISSING if size == MISSING or _has_repeats(b, begin, behind) else begin, behind, size


@compiled
def put_compact(out: Any, at: Any, b: Any, begin: Any, size: Any) -> Any:
    """Write JSON without the space between its parts, and return the offset behind it."""
    place, stop = begin, begin + size
    while place < stop:
        behind = _behind_text(b, place) if b[place] == _QUOTE else place + 1
        if not _is_space(b[place]):
            for k in range(place, behind):
                out[at] = b[k]
                at += 1
        place = behind
    return at
