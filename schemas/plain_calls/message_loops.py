"""The compiled loops that find the messages in the JSON of plain calls of models.

They accept lists of objects in valid UTF-8; of these they know messages of one text or of one result in the
form of OpenTelemetry's conventions. Functions that return an offset return `REFUSED` instead where a text is
not accepted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled
from ..dialects.parts.messages import MESSAGES_MAX
from ..dialects.parts.values import REDACTIONS
from ..walk.json_loops import REFUSED, begins, behind_json, behind_space, behind_string, value_behind

ASKED, ASKED_STOP, CONTINUES, REPLY, REPLY_STOP, STATE, FAILED, CALL_COLUMNS = range(8)
"""Columns of a call, and their number: the offsets of the input, and whether it begins behind a message; the
offsets of the output, `REFUSED` where it has none; the row of its conversation; and whether it failed."""
FIRST, LAST, REPLIES, BEHIND, PLACE, REPEATS, FOUND_COLUMNS = range(7)
"""Columns of what is found of a call, and their number: the rows of its first message, of the one behind its
last answer, of the first one of the output, and of the one behind that; the place of its first message in the
conversation, and whether that may repeat the output of the last call. `FIRST` is `REFUSED` where the call is
odd."""
CALL, IS_REPLY, BEGIN, STOP, ROLE, PARTS, PARTS_STOP, TEXT, TEXT_STOP, ID, ID_STOP, FORM = range(12)
"""Columns of a message: its call, whether it is of the output, and the offsets of it and of its parts, and,
with quotes, of its text and of the id of a result. `PARTS` is `REFUSED` where it is not certain that these,
and a role, are all that the message has."""
MESSAGE_COLUMNS = FORM + 1
PLAIN, ESCAPED, PLAIN_RESULT, ESCAPED_RESULT, OTHER = range(5)
"""Forms of messages: one text or one result without escapes, the same with escapes that orjson writes in the
same way, and others, which may be odd."""
USER, ASSISTANT, INSTRUCTION, TOOL, UNKNOWN = range(5)
"""Roles of messages."""
MESSAGE_BYTES_MIN = 22
"""Bytes of the shortest message."""

_ROLE, _PARTS, _REASON = 1, 2, 4
_TYPE, _CONTENT, _ID, _RESPONSE = 1, 2, 4, 8
_HIDING_MAX = max(map(len, REDACTIONS))
assert {text[0] for text in REDACTIONS} == {*"[_<"}
_HIGH_BITS = np.uint64(0x8080808080808080)


@compiled
def _behind_ascii(words: Any, at: Any, stop: Any) -> Any:
    """Return an offset up to which there is nothing but ASCII."""
    while at & 7 == 0 and at + 8 <= stop and words[at >> 3] & _HIGH_BITS == 0:
        at += 8
    return at


@compiled
def _character(b: Any, at: Any, stop: Any) -> Any:
    """Return the offset behind a character beyond ASCII in UTF-8."""
    lead = b[at]
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if lead < 0xC2 or lead > 0xF4 or at + size > stop:
        return REFUSED
    for k in range(1, size):
        if b[at + k] & 0xC0 != 0x80:
            return REFUSED
    second = b[at + 1]
    is_long = (lead == 0xE0 and second < 0xA0) or (lead == 0xF0 and second < 0x90)
    is_none = (lead == 0xED and second >= 0xA0) or (lead == 0xF4 and second >= 0x90)
    return REFUSED if is_long or is_none else at + size


@compiled
def _is_utf8(b: Any, words: Any, at: Any, stop: Any) -> Any:
    while at < stop:
        at = _behind_ascii(words, at, stop)
        if at < stop:
            at = at + 1 if b[at] < 128 else _character(b, at, stop)
            if at == REFUSED:
                return False
    return True


@compiled
def _field(b: Any, at: Any, stop: Any) -> Any:
    """Return the number of a message's field by its name with quotes; 0 for another one."""
    size = stop - at
    if size == 6 and begins(b, at, stop, b'"role"'):
        return _ROLE
    if size == 7 and begins(b, at, stop, b'"parts"'):
        return _PARTS
    return _REASON if size == 15 and begins(b, at, stop, b'"finish_reason"') else 0


@compiled
def _role(b: Any, at: Any, stop: Any) -> Any:
    size = stop - at
    if size == 6 and begins(b, at, stop, b'"user"'):
        return USER
    if size == 11 and begins(b, at, stop, b'"assistant"'):
        return ASSISTANT
    if size == 6 and begins(b, at, stop, b'"tool"'):
        return TOOL
    return INSTRUCTION if size == 8 and begins(b, at, stop, b'"system"') else UNKNOWN


@compiled
def _form(b: Any, at: Any, stop: Any) -> Any:
    """Return the form of a message with that text, which is a string in JSON."""
    size, form = stop - at, PLAIN
    if 0 < size <= _HIDING_MAX and (b[at] == 91 or b[at] == 95 or b[at] == 60):
        # It may replace a hidden one.
        return OTHER
    while at < stop:
        if b[at] == 92:
            letter = b[at + 1]
            if letter == 117 or letter == 47:
                return OTHER
            form, at = ESCAPED, at + 1
        at += 1
    return form


@compiled
def _part_field(b: Any, at: Any, stop: Any) -> Any:
    """Return the number of a part's field by its name with quotes; 0 for another one."""
    size = stop - at
    if size == 6 and begins(b, at, stop, b'"type"'):
        return _TYPE
    if size == 9 and begins(b, at, stop, b'"content"'):
        return _CONTENT
    if size == 4 and begins(b, at, stop, b'"id"'):
        return _ID
    return _RESPONSE if size == 10 and begins(b, at, stop, b'"response"') else 0


@compiled
def _only_part(b: Any, words: Any, at: Any, stop: Any, out: Any) -> Any:
    """Note the only part of a list, a text or a result, and return the form of its message."""
    at = behind_space(b, at + 1, stop)
    if b[at] != 123:
        return OTHER
    fields, kind, kind_stop = 0, at, at
    while b[at] != 125:
        name = behind_space(b, at + 1, stop)
        behind = behind_string(b, words, name, stop)
        begin = value_behind(b, behind, stop)
        at = behind_string(b, words, begin, stop) if begin != REFUSED else REFUSED
        field = _part_field(b, name, behind)
        if at == REFUSED or field == 0 or fields & field != 0:
            return OTHER
        fields |= field
        if field == _TYPE:
            kind, kind_stop = begin, at
        elif field == _ID:
            out[ID], out[ID_STOP] = begin, at
        else:
            out[TEXT], out[TEXT_STOP] = begin, at
        at = behind_space(b, at, stop)
    if behind_space(b, at + 1, stop) != stop - 1:
        return OTHER
    if fields == _TYPE | _CONTENT and kind_stop - kind == 6 and begins(b, kind, stop, b'"text"'):
        is_of_tool = out[ROLE] == TOOL
        return OTHER if is_of_tool else _form(b, out[TEXT] + 1, out[TEXT_STOP] - 1)
    is_result = kind_stop - kind == 20 and begins(b, kind, stop, b'"tool_call_response"')
    if fields != _TYPE | _ID | _RESPONSE or not is_result or out[ROLE] != TOOL:
        return OTHER
    form = _form(b, out[TEXT] + 1, out[TEXT_STOP] - 1)
    is_plain = form != OTHER and _form(b, out[ID] + 1, out[ID_STOP] - 1) == PLAIN
    return form + PLAIN_RESULT if is_plain else OTHER


@compiled
def _message(b: Any, words: Any, at: Any, stop: Any, out: Any) -> Any:
    """Note a message, and return the offset behind it."""
    out[BEGIN], out[ROLE], out[FORM] = at, UNKNOWN, OTHER
    fields, are_known = 0, True
    while True:
        name = behind_space(b, at + 1, stop)
        behind = behind_string(b, words, name, stop)
        begin = value_behind(b, behind, stop)
        if begin == REFUSED or begin >= stop:
            return REFUSED
        at = behind_json(b, words, begin, stop)
        if at == REFUSED:
            return REFUSED
        field = _field(b, name, behind)
        are_known &= field != 0 and fields & field == 0
        fields |= field
        if field == _ROLE:
            out[ROLE] = _role(b, begin, at)
        elif field == _PARTS:
            out[PARTS], out[PARTS_STOP] = begin, at
        elif field == _REASON:
            are_known &= b[begin] == 110 or (b[begin] == 34 and at > begin + 2)
        at = behind_space(b, at, stop)
        if at >= stop or (b[at] != 44 and b[at] != 125):
            return REFUSED
        if b[at] == 125:
            break
    is_whole = are_known and fields | _REASON == _ROLE | _PARTS | _REASON and out[ROLE] != UNKNOWN
    if not is_whole:
        out[PARTS] = REFUSED
    elif b[out[PARTS]] == 91:
        out[FORM] = _only_part(b, words, out[PARTS], out[PARTS_STOP], out)
    out[STOP] = at + 1
    return at + 1


@compiled
def _list(b: Any, words: Any, at: Any, stop: Any, continues: Any, messages: Any, count: Any) -> Any:
    """Note the messages of a list, or those with which one `continues`; return how many there are then."""
    is_first = not continues
    if is_first:
        if at >= stop or b[at] != 91:
            return REFUSED
        at += 1
    while True:
        at = behind_space(b, at, stop)
        if at >= stop:
            return REFUSED
        if b[at] == 93:
            return count if at + 1 == stop else REFUSED
        if not is_first:
            if b[at] != 44:
                return REFUSED
            at = behind_space(b, at + 1, stop)
        if at >= stop or b[at] != 123 or count == len(messages):
            return REFUSED
        at = _message(b, words, at, stop, messages[count])
        if at == REFUSED:
            return REFUSED
        count, is_first = count + 1, False


@compiled
def _reply(b: Any, words: Any, call: Any, messages: Any, count: Any) -> Any:
    """Note the messages of an output, all of the assistant; return how many there are then."""
    at, stop = behind_space(b, call[REPLY], call[REPLY_STOP]), call[REPLY_STOP]
    while stop > at and behind_space(b, stop - 1, stop) == stop:
        stop -= 1
    behind = _list(b, words, at, stop, False, messages, count)
    if behind <= count or not _is_utf8(b, words, at, stop):
        return REFUSED
    for n in range(count, behind):
        message = messages[n]
        if message[ROLE] != ASSISTANT and message[ROLE] != UNKNOWN:
            return REFUSED
        message[FORM] = OTHER if call[FAILED] else message[FORM]
    return behind


@compiled
def find_messages(b: Any, words: Any, calls: Any, found: Any, messages: Any) -> Any:
    """Note the messages of calls, and return how many there are; `words` are the same bytes by eight."""
    count = 0
    for n in range(len(calls)):
        call = calls[n]
        found[n, FIRST] = REFUSED
        at, stop = call[ASKED], call[ASKED_STOP]
        replies = _list(b, words, at, stop, call[CONTINUES] != 0, messages, count)
        if replies == REFUSED or not _is_utf8(b, words, at, stop):
            continue
        behind = replies if call[REPLY] == REFUSED else _reply(b, words, call, messages, replies)
        if behind == REFUSED or behind - replies > MESSAGES_MAX:
            continue
        for row in range(count, behind):
            messages[row, CALL], messages[row, IS_REPLY] = n, row >= replies
        found[n, FIRST], found[n, REPLIES], found[n, BEHIND] = count, replies, behind
        count = behind
    return count
