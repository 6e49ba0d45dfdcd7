"""The compiled loop that writes plain JSON objects in canonical form (RFC 8785).

An object is plain if its keys are of ASCII characters and each is there once, its strings have no escapes,
and its numbers have at most 15 digits and are canonical; so is every object in it. Then its canonical form is
its text with the keys in order and without white space. Other texts are left to the ordinary way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....schemas.compiled import compiled
from ....schemas.walk.json_loops import begins, behind_space

DEPTH_MAX = 16
"""Objects and lists within one another."""
MEMBERS_MAX = 64
"""Members of objects that are open at once."""

ODD = -1
_DIGITS_MAX = 15
_KEY, _NEXT_KEY, _VALUE, _FIRST_VALUE, _BEHIND = range(5)
"""The next thing: a key or the end of an object, a key, a value, a value or the end of a list, or what is
behind a value."""
_IS_OBJECT, _FIRST, _IS_UNSORTED = range(3)
"""By depth: 1 for an object, the number of its first member, and 1 where its keys are in disorder."""
STACK_SHAPE = (DEPTH_MAX + 1, 3)

_OBJECT, _END_OF_OBJECT, _LIST, _END_OF_LIST, _COMMA, _COLON, _QUOTE, _BACKSLASH = b'{}[],:"\\'
_MINUS, _POINT, _ZERO, _NINE = b"-.09"
_TRUE, _FALSE, _NULL = (np.array([*word], np.uint8) for word in (b"true", b"false", b"null"))


@compiled
def write_objects(data: Any, firsts: Any, lasts: Any, state: Any, out: Any, bounds: Any) -> None:
    """Write the canonical forms of texts one after another, nothing for one that is no plain object.

    Text `i` is `data[firsts[i]]` to `data[lasts[i]]`, and its form `out[bounds[i]]` to `out[bounds[i + 1]]`.
    `state` is memory: of `STACK_SHAPE`, twice of `MEMBERS_MAX`, and for the longest text.
    """
    end = 0
    for i in range(len(firsts)):
        bounds[i] = end
        at = behind_space(data, firsts[i], lasts[i])
        if at < lasts[i] and data[at] == _OBJECT:
            found = _write_object(data, at, lasts[i], state, out, end)
            end = end if found == ODD else found
    bounds[len(firsts)] = end


@compiled
def _write_object(b: Any, at: Any, stop: Any, state: Any, out: Any, end: Any) -> Any:
    """Write the object that begins at an offset, and return the end of what is written, or `ODD`."""
    stack, members, _, _ = state
    depth, expected, count = 0, _VALUE, 0
    while at != ODD:
        at = behind_space(b, at, stop)
        if at >= stop:
            return ODD
        char, level = b[at], stack[depth]
        if expected not in (_NEXT_KEY, _VALUE) and char == (_END_OF_OBJECT if level[0] else _END_OF_LIST):
            if level[_IS_UNSORTED] and not _sort_members(out, end, state, level[_FIRST], count):
                return ODD
            at, end = _copied(b, at, at + 1, out, end)
            count, depth, expected = level[_FIRST], depth - 1, _BEHIND
            if depth == 0:
                return end if behind_space(b, at, stop) == stop else ODD
        elif expected == _BEHIND:
            if char != _COMMA:
                return ODD
            at, end = _copied(b, at, at + 1, out, end)
            expected = _NEXT_KEY if level[_IS_OBJECT] else _VALUE
        elif expected in (_KEY, _NEXT_KEY):
            if count == MEMBERS_MAX:
                return ODD
            members[count] = end
            at, end = _write_key(b, at, stop, out, end)
            if at != ODD and count > level[_FIRST] and not _is_less(out, members[count - 1], members[count]):
                level[_IS_UNSORTED] = 1
            count, expected = count + 1, _VALUE
        elif char in (_OBJECT, _LIST):
            if depth == DEPTH_MAX:
                return ODD
            depth += 1
            stack[depth, _IS_OBJECT], stack[depth, _FIRST], stack[depth, _IS_UNSORTED] = (
                char == _OBJECT,
                count,
                0,
            )
            expected = _KEY if char == _OBJECT else _FIRST_VALUE
            at, end = _copied(b, at, at + 1, out, end)
        else:
            at, end = _copied(b, at, _behind_scalar(b, at, stop), out, end)
            expected = _BEHIND
    return ODD


@compiled
def _copied(b: Any, begin: Any, behind: Any, out: Any, end: Any) -> Any:
    """Copy the bytes up to `behind`, none if it is `ODD`, and return it and the end of what is written."""
    for i in range(begin, behind):
        out[end] = b[i]
        end += 1
    return behind, end


@compiled
def _write_key(b: Any, at: Any, stop: Any, out: Any, end: Any) -> Any:
    """Write a key and its colon; return the offset behind them or `ODD`, and the end of what is written."""
    if b[at] != _QUOTE:
        return np.int64(ODD), end
    at, end = _copied(b, at, _behind_string(b, at, stop, np.uint8(127)), out, end)
    if at == ODD:
        return at, end
    at = behind_space(b, at, stop)
    if at >= stop or b[at] != _COLON:
        return np.int64(ODD), end
    return _copied(b, at, at + 1, out, end)


@compiled
def _is_less(b: Any, left: Any, right: Any) -> Any:
    """Return whether the key that begins at one offset comes before that at another."""
    left, right = left + 1, right + 1
    while b[left] == b[right] and b[left] != _QUOTE:
        left += 1
        right += 1
    return b[right] != _QUOTE and (b[left] == _QUOTE or b[left] < b[right])


@compiled
def _sort_members(out: Any, end: Any, state: Any, first: Any, last: Any) -> Any:
    """Order the members `first` to `last` of an object, and return whether each key is there once."""
    _, members, order, spare = state
    begin = members[first]
    _copied(out, begin, end, spare, 0)
    for number in range(first, last):
        place = number
        while place > first and _is_less(out, members[number], members[order[place - 1]]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = number
    at = begin
    for place in range(first, last):
        number = order[place]
        if place > first:
            # In `spare`, no member has moved yet.
            if not _is_less(spare, members[order[place - 1]] - begin, members[number] - begin):
                return False
            out[at] = _COMMA
            at += 1
        behind = end if number == last - 1 else members[number + 1] - 1
        _, at = _copied(spare, members[number] - begin, behind - begin, out, at)
    return True


@compiled
def _behind_string(b: Any, at: Any, stop: Any, most: Any) -> Any:
    """Return the offset behind a string without escapes, of characters up to `most`, or `ODD`."""
    at += 1
    while at < stop and b[at] >= 32 and b[at] <= most and b[at] != _BACKSLASH:
        if b[at] == _QUOTE:
            return at + 1
        at += 1
    return np.int64(ODD)


@compiled
def _behind_scalar(b: Any, at: Any, stop: Any) -> Any:
    """Return the offset behind a string, a word or a number, or `ODD`; what follows is not looked at."""
    if b[at] == _QUOTE:
        return _behind_string(b, at, stop, np.uint8(255))
    for word in (_TRUE, _FALSE, _NULL):
        if begins(b, at, stop, word):
            return at + len(word)
    return _behind_number(b, at, stop)


@compiled
def _behind_number(b: Any, at: Any, stop: Any) -> Any:
    """Return the offset behind a number that is canonical, or `ODD`.

    A number of at most 15 digits is the shortest text of its double. Less than 0.1 it may need an exponent.
    """
    is_negative = b[at] == _MINUS
    first = at + 1 if is_negative else at
    point = _behind_digits(b, first, stop)
    is_zero = point > first and b[first] == _ZERO
    if point == first or point - first > _DIGITS_MAX or (is_zero and point - first > 1):
        return np.int64(ODD)
    if point >= stop or b[point] != _POINT:
        # The canonical form of -0 is 0.
        return np.int64(ODD) if is_zero and is_negative else point
    at = _behind_digits(b, point + 1, stop)
    if at == point + 1 or b[at - 1] == _ZERO or at - first - 1 > _DIGITS_MAX:
        return np.int64(ODD)
    return np.int64(ODD) if is_zero and b[point + 1] == _ZERO else at


@compiled
def _behind_digits(b: Any, at: Any, stop: Any) -> Any:
    """Return the offset behind digits."""
    while at < stop and b[at] >= _ZERO and b[at] <= _NINE:
        at += 1
    return at
