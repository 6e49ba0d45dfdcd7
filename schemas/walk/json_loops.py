"""The compiled loops over JSON in attributes: whether the dialects read messages in it.

They accept only what the dialects certainly read as a list of messages, each with a role and none a thought.
Functions that return an offset return `REFUSED` instead where the text is not accepted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled
from .repeat_loops import known_messages, remember_messages

REFUSED = -1
REFUSED_TEXT, EMPTY, FULL, OBJECT = range(10, 14)
"""Kinds of texts: one that is not accepted, a list of messages without and with members, and an object that
is not cut."""
MESSAGES_MAX = 10_000
DEPTH_MAX = 60
NUMBER_CHARS_MAX = 100
_ONES, _HIGH_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _SLASHES = np.uint64(0x2222222222222222), np.uint64(0x5C5C5C5C5C5C5C5C)
_SPACES = np.uint64(0x2020202020202020)
_HEX = np.full(256, -1, np.int32)
_HEX[[*b"0123456789abcdefABCDEF"]] = [*range(16), *range(10, 16)]


@compiled
def begins(b: Any, at: Any, stop: Any, name: Any) -> Any:
    """Return whether a text begins with a name."""
    if stop - at < len(name):
        return False
    is_same = True
    for k in range(len(name)):
        is_same &= b[at + k] == name[k]
    return is_same


@compiled
def behind_space(b: Any, at: Any, stop: Any) -> Any:
    """Return the offset behind white space."""
    while at < stop and (b[at] == 32 or b[at] == 10 or b[at] == 13 or b[at] == 9):
        at += 1
    return at


@compiled
def _hex(b: Any, at: Any, stop: Any) -> Any:
    """Return the number of four hexadecimal digits; a negative one where there are none."""
    if at + 4 > stop:
        return REFUSED
    return _HEX[b[at]] << 12 | _HEX[b[at + 1]] << 8 | _HEX[b[at + 2]] << 4 | _HEX[b[at + 3]]


@compiled
def _escape(b: Any, at: Any, stop: Any) -> Any:
    """Return the offset behind an escape in JSON, whose backslash is before `at`; no half of a surrogate."""
    if at >= stop:
        return REFUSED
    letter = b[at]
    if letter == 34 or letter == 110 or letter == 92:
        return at + 1
    if letter != 117:
        is_short = letter == 47 or letter == 98 or letter == 102 or letter == 114 or letter == 116
        return at + 1 if is_short else REFUSED
    value = _hex(b, at + 1, stop)
    if 0 <= value < 0xD800 or value >= 0xE000:
        return at + 5
    low = _hex(b, at + 7, stop) if 0 <= value < 0xDC00 and begins(b, at + 5, stop, b"\\u") else 0
    return at + 11 if 0xDC00 <= low < 0xE000 else REFUSED


@compiled
def _plain(words: Any, at: Any, stop: Any) -> Any:
    """Return an offset up to which a string has no quote, no backslash and no control character."""
    place, shift = at >> 3, np.uint64(8 * (at & 7))
    while place + 1 < len(words) and at + 8 <= stop:
        word = (words[place] >> shift) | ((words[place + 1] << (np.uint64(63) - shift)) << np.uint64(1))
        quotes, slashes = word ^ _QUOTES, word ^ _SLASHES
        found = ((quotes - _ONES) & ~quotes) | ((slashes - _ONES) & ~slashes)
        found = (found | ((word - _SPACES) & ~word)) & _HIGH_BITS
        if found != 0:
            # The lowest bit that is set is right; the bytes below it are counted.
            below = (((found & (~found + np.uint64(1))) >> np.uint64(7)) - np.uint64(1)) & _ONES
            return at + np.int64((below * _ONES) >> np.uint64(56))
        at, place = at + 8, place + 1
    return at


@compiled
def behind_string(b: Any, words: Any, at: Any, stop: Any) -> Any:
    """Return the offset behind a string in JSON that begins at a quote."""
    if at >= stop or b[at] != 34:
        return REFUSED
    at = _plain(words, at + 1, stop)
    while at < stop:
        byte = b[at]
        at += 1
        if byte == 34:
            return at
        if byte == 92:
            at = _escape(b, at, stop)
            if at == REFUSED:
                return REFUSED
            if at < stop and b[at] != 92:
                at = _plain(words, at, stop)
        elif byte < 32:
            return REFUSED
    return REFUSED


@compiled
def _digits(b: Any, at: Any, stop: Any) -> Any:
    while at < stop and 48 <= b[at] <= 57:
        at += 1
    return at


@compiled
def _number(b: Any, at: Any, stop: Any) -> Any:
    """Return the offset behind a number that a double can hold."""
    first = at
    if b[at] == 45:
        at += 1
    begin, at = at, _digits(b, at, stop)
    if at == begin or (b[begin] == 48 and at > begin + 1):
        return REFUSED
    if at < stop and b[at] == 46:
        begin, at = at + 1, _digits(b, at + 1, stop)
        if at == begin:
            return REFUSED
    if at < stop and b[at] | 32 == 101:
        at += 1
        if at < stop and (b[at] == 43 or b[at] == 45):
            at += 1
        begin, at = at, _digits(b, at, stop)
        if at == begin or at > begin + 2:
            return REFUSED
    return at if at - first <= NUMBER_CHARS_MAX else REFUSED


@compiled
def _scalar(b: Any, words: Any, at: Any, stop: Any) -> Any:
    if b[at] == 34:
        return behind_string(b, words, at, stop)
    if b[at] == 45 or 48 <= b[at] <= 57:
        return _number(b, at, stop)
    if begins(b, at, stop, b"true") or begins(b, at, stop, b"null"):
        return at + 4
    return at + 5 if begins(b, at, stop, b"false") else REFUSED


@compiled
def value_behind(b: Any, at: Any, stop: Any) -> Any:
    """Return the offset of the value where a member's name ended."""
    at = behind_space(b, at, stop) if at != REFUSED else stop
    return behind_space(b, at + 1, stop) if at < stop and b[at] == 58 else REFUSED


@compiled
def _name(b: Any, words: Any, at: Any, stop: Any) -> Any:
    """Return the offset of the value behind a member's name in JSON."""
    return value_behind(b, behind_string(b, words, behind_space(b, at, stop), stop), stop)


@compiled
def behind_json(b: Any, words: Any, at: Any, stop: Any) -> Any:
    """Return the offset behind a JSON value, nested `DEPTH_MAX` deep at most."""
    depth, objects = 0, np.uint64(0)
    while True:
        if at == REFUSED or at >= stop:
            return REFUSED
        opened = b[at]
        if opened == 123 or opened == 91:
            inner = behind_space(b, at + 1, stop)
            if inner < stop and b[inner] == opened + 2:
                at = inner + 1
            elif depth == DEPTH_MAX:
                return REFUSED
            else:
                depth += 1
                objects = (objects << np.uint64(1)) | np.uint64(opened == 123)
                at = _name(b, words, inner, stop) if opened == 123 else inner
                continue
        else:
            at = _scalar(b, words, at, stop)
        while True:
            if depth == 0 or at == REFUSED:
                return at
            at = behind_space(b, at, stop)
            if at >= stop:
                return REFUSED
            is_object = objects & np.uint64(1) == 1
            if b[at] == 44:
                at = _name(b, words, at + 1, stop) if is_object else behind_space(b, at + 1, stop)
                break
            if b[at] != (125 if is_object else 93):
                return REFUSED
            at, depth, objects = at + 1, depth - 1, objects >> np.uint64(1)


@compiled
def _is_field(b: Any, at: Any, stop: Any) -> Any:
    """Return whether a message's field, with its quotes, is one that cannot make it a thought."""
    size = stop - at
    return (
        (size == 6 and begins(b, at, stop, b'"name"'))
        or (size == 7 and begins(b, at, stop, b'"parts"'))
        or (size == 9 and begins(b, at, stop, b'"content"'))
        or (size == 12 and begins(b, at, stop, b'"tool_calls"'))
        or (size == 14 and begins(b, at, stop, b'"tool_call_id"'))
        or (size == 15 and begins(b, at, stop, b'"finish_reason"'))
    )


@compiled
def _message(b: Any, words: Any, at: Any, stop: Any, is_output: Any) -> Any:
    """Return the offset behind a message with a role; of a model's output, with the role `assistant`."""
    roles = 0
    while True:
        begin = behind_space(b, at, stop)
        behind = behind_string(b, words, begin, stop)
        at = value_behind(b, behind, stop)
        if at == REFUSED or at >= stop:
            return REFUSED
        if behind - begin == 6 and begins(b, begin, stop, b'"role"'):
            roles += 1
            if b[at] != 34 or (is_output and not begins(b, at, stop, b'"assistant"')):
                return REFUSED
        elif not _is_field(b, begin, behind) or (b[at] == 123 and begins(b, begin, stop, b'"content"')):
            return REFUSED
        at = behind_json(b, words, at, stop)
        at = behind_space(b, at, stop) if at != REFUSED else stop
        if at >= stop or (b[at] != 44 and b[at] != 125):
            return REFUSED
        at += 1
        if b[at - 1] == 125:
            return at if roles == 1 else REFUSED


@compiled
def _messages(b: Any, words: Any, at: Any, stop: Any, is_output: Any, known: Any, count: Any) -> Any:
    """Return `EMPTY` or `FULL` for a list of messages, with the offset behind the last one, and their number.

    The first `known` bytes are `count` messages that were accepted.
    """
    behind = at + known
    if known == 0:
        if at >= stop or b[at] != 91:
            return REFUSED_TEXT, behind, count
        at = behind_space(b, at + 1, stop)
        if at < stop and b[at] == 93:
            return EMPTY if behind_space(b, at + 1, stop) == stop else REFUSED_TEXT, behind, count
    while True:
        if count > 0:
            at = behind_space(b, behind, stop)
            if at < stop and b[at] == 93:
                return FULL if behind_space(b, at + 1, stop) == stop else REFUSED_TEXT, behind, count
            if at >= stop or b[at] != 44:
                return REFUSED_TEXT, behind, count
            at = behind_space(b, at + 1, stop)
        if at >= stop or b[at] != 123 or count == MESSAGES_MAX:
            return REFUSED_TEXT, behind, count
        count += 1
        behind = _message(b, words, at + 1, stop, is_output)
        if behind == REFUSED:
            return REFUSED_TEXT, behind, count


@compiled
def judge_texts(
    b: Any, words: Any, begin: Any, stop: Any, facts: Any, count: Any,
    inputs: Any, outputs: Any, arguments: Any, values: Any, entities: Any, text: Any, memory: Any,
) -> None:  # fmt: skip
    """Put into the second column of `count` facts what their text is: of inputs, outputs, and arguments.

    A fact has its slot, its kind, which is `text`, and the text's offset in its request, which `b` has from
    `begin` to `stop`, and length.
    """
    data, by_eight = b[begin:stop], words[begin // 8 : stop // 8]
    for i in range(count):
        slot, kind, at, size = facts[i, 0], facts[i, 1], facts[i, 2], facts[i, 3]
        if kind != text:
            continue
        if slot in (arguments, values, entities) and size > 0 and data[at] == 123:
            behind = behind_json(data, by_eight, at, at + size)
            is_whole = behind != REFUSED and behind_space(data, behind, at + size) == at + size
            facts[i, 1] = OBJECT if is_whole else REFUSED_TEXT
        elif slot == outputs:
            facts[i, 1], _, _ = _messages(data, by_eight, at, at + size, True, 0, 0)
        elif slot == inputs:
            known, number = known_messages(b, words, begin + at, size, memory)
            found, behind, number = _messages(data, by_eight, at, at + size, False, known, number)
            facts[i, 1] = found
            if found == FULL:
                remember_messages(b, words, begin + at, behind - at, number, memory)
