"""The compiled loops that make the keys of messages and the digests of claims, as `claims/digests.py` does.

Each conversation has a row of `CHAIN_WORDS` words, which continues with its next call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled
from ..dialects.parts.messages import MESSAGES_MAX
from .blake_loops import STATE_WORDS, add_bytes, begin_digest, put_digest
from .message_loops import (
    ASSISTANT,
    BEHIND,
    ESCAPED,
    FAILED,
    FIRST,
    FORM,
    INSTRUCTION,
    LAST,
    OTHER,
    PARTS,
    PARTS_STOP,
    PLACE,
    REFUSED,
    REPEATS,
    REPLIES,
    ROLE,
    STATE,
    TEXT,
    TEXT_STOP,
)

KEY_CHARS = 32
CLAIM_KEY_CHARS = KEY_CHARS + 2
"""The characters of the key of a message's first claim."""
COUNT, HAS_CLAIMS, HAS_KEY, ANSWERED, HAS_REPLY, KEY = range(STATE_WORDS, STATE_WORDS + 6)
"""Words of a row behind the digest of the claims: the number of messages, whether there are claims, a key and
an answer, whether the last call has an output of one message, and the key of the last message."""
REPLY_KEY = KEY + KEY_CHARS // 8
"""The word where the key of that output begins."""
CHAIN_WORDS = REPLY_KEY + KEY_CHARS // 8
BY_ASSISTANT, IS_ESCAPED, IS_ANSWERED, IN_OTHER_FORM, IS_SILENT = 1, 2, 4, 8, 16
"""Bits of what is shown of a message: it is of the assistant, its text has escapes, an answer is before it,
it is in another form, and it has no claims."""
SHOWN, SHOWN_TEXT, SHOWN_STOP, SHOWN_COLUMNS = range(4)
"""Columns of a message as its claims need it, and their number: these bits, and the offsets of its text."""
KINDS = ("user", "assistant", "tool_call", "tool_result")
"""Kinds of claims, by their numbers in `tails`."""
TAIL_KIND, TAIL, TAIL_STOP, TAIL_COLUMNS = range(4)
"""Columns of a claim of a message in `OTHER` form, and their number: its kind, and offsets in `side` of its
fields behind its rank. The message has the rows of its claims in `PARTS` and `PARTS_STOP`, and the offsets in
`side` of its fields behind the key before it in `TEXT` and `TEXT_STOP`."""

_KEY_AT = 8 * KEY
_DIGITS_MAX = 20


def _bytes(text: str) -> Any:
    return np.frombuffer(text.encode(), np.uint8)


_OPEN, _COMMA, _DOT, _CLOSE = _bytes('["'), _bytes(","), _bytes("."), _bytes("]")
_BEHIND_KEY, _TEXT_END, _CLAIM_END = _bytes('",'), _bytes('",[],[]]'), _bytes(",0,null,null,null,null,null]")
_TEXTS = [_bytes(f'"{kind}","') for kind in KINDS]
_OF_USER, _OF_ASSISTANT, _OF_CALL, _OF_RESULT = _TEXTS
_BEGIN = _bytes("[")


@compiled
def begin_chains(chains: Any) -> None:
    """Make rows those of conversations without messages."""
    for n in range(len(chains)):
        s = chains[n]
        begin_digest(s)
        add_bytes(s, s.view(np.uint8), _BEGIN, 0, 1)
        for k in range(STATE_WORDS, CHAIN_WORDS):
            s[k] = 0


@compiled
def _add(s: Any, s8: Any, text: Any) -> None:
    add_bytes(s, s8, text, 0, len(text))


@compiled
def _add_number(s: Any, s8: Any, number: Any, digits: Any) -> None:
    at = _DIGITS_MAX
    while True:
        at -= 1
        digits[at] = 48 + number % 10
        number //= 10
        if number == 0:
            break
    add_bytes(s, s8, digits, at, _DIGITS_MAX)


@compiled
def _add_kind(s: Any, s8: Any, kind: Any) -> None:
    if kind == 0:
        _add(s, s8, _OF_USER)
    elif kind == 1:
        _add(s, s8, _OF_ASSISTANT)
    elif kind == 2:
        _add(s, s8, _OF_CALL)
    else:
        _add(s, s8, _OF_RESULT)


@compiled
def _key(s: Any, s8: Any, k: Any, k8: Any, b: Any, side: Any, message: Any) -> None:
    """Put the key of a message into the row of its conversation."""
    begin_digest(k)
    _add(k, k8, _OPEN)
    if s[HAS_KEY]:
        add_bytes(k, k8, s8, _KEY_AT, _KEY_AT + KEY_CHARS)
    _add(k, k8, _BEHIND_KEY)
    if message[FORM] == OTHER:
        add_bytes(k, k8, side, message[TEXT], message[TEXT_STOP])
    else:
        _add_kind(k, k8, message[ROLE] == ASSISTANT)
        add_bytes(k, k8, b, message[TEXT] + 1, message[TEXT_STOP] - 1)
        _add(k, k8, _TEXT_END)
    put_digest(k, k8, s8, _KEY_AT)
    s[HAS_KEY] = 1


@compiled
def _begin_claim(s: Any, s8: Any, kind: Any, rank: Any, digits: Any) -> None:
    """Add the fields of a claim up to its place."""
    if s[HAS_CLAIMS]:
        _add(s, s8, _COMMA)
    s[HAS_CLAIMS] = 1
    _add(s, s8, _BEGIN)
    _add_kind(s, s8, kind)
    add_bytes(s, s8, s8, _KEY_AT, _KEY_AT + KEY_CHARS)
    _add(s, s8, _DOT)
    _add_number(s, s8, rank, digits)
    _add(s, s8, _BEHIND_KEY)
    _add_number(s, s8, np.int64(s[COUNT]), digits)


@compiled
def _add_message(
    s: Any, s8: Any, k: Any, k8: Any, b: Any, side: Any, tails: Any, message: Any, digits: Any
) -> None:
    """Add a message and its claims to a conversation."""
    if message[ROLE] != INSTRUCTION:
        _key(s, s8, k, k8, b, side, message)
        if message[FORM] == OTHER:
            for n in range(message[PARTS], message[PARTS_STOP]):
                rank = n - message[PARTS]
                _begin_claim(s, s8, tails[n, TAIL_KIND], rank, digits)
                _add(s, s8, _COMMA)
                _add_number(s, s8, rank, digits)
                _add(s, s8, _COMMA)
                add_bytes(s, s8, side, tails[n, TAIL], tails[n, TAIL_STOP])
        else:
            _begin_claim(s, s8, message[ROLE] == ASSISTANT, 0, digits)
            _add(s, s8, _CLAIM_END)
    s[COUNT] += np.uint64(1)


@compiled
def _show(s: Any, s8: Any, message: Any, keys: Any, shown: Any, row: Any) -> None:
    """Note key and text of a message, which was added, for its claims."""
    at = row * CLAIM_KEY_CHARS
    for k in range(KEY_CHARS):
        keys[at + k] = s8[_KEY_AT + k]
    keys[at + KEY_CHARS], keys[at + KEY_CHARS + 1] = 46, 48
    bits = (message[ROLE] == ASSISTANT) * BY_ASSISTANT | (message[FORM] == ESCAPED) * IS_ESCAPED
    bits |= (message[FORM] == OTHER) * IN_OTHER_FORM | (message[ROLE] == INSTRUCTION) * IS_SILENT
    shown[row, SHOWN] = bits | (s[ANSWERED] != 0) * IS_ANSWERED
    shown[row, SHOWN_TEXT], shown[row, SHOWN_STOP] = message[TEXT], message[TEXT_STOP]
    if message[ROLE] == ASSISTANT:
        s[ANSWERED] = 1


@compiled
def _is_reply(s: Any) -> Any:
    """Return whether the last message has the key of the last output."""
    is_same = s[HAS_REPLY] != 0
    for k in range(KEY_CHARS // 8):
        is_same &= s[KEY + k] == s[REPLY_KEY + k]
    return is_same


@compiled
def _note_reply(s: Any, reply: Any, is_only: Any) -> None:
    """Note the key of an output of one message."""
    s[HAS_REPLY] = is_only
    for k in range(KEY_CHARS // 8):
        s[REPLY_KEY + k] = reply[KEY + k]


@compiled
def add_calls(
    b: Any, side: Any, calls: Any, found: Any, messages: Any, tails: Any, chains: Any, scratch: Any,
    keys: Any, shown: Any, out: Any,
) -> None:  # fmt: skip
    """Write the keys of the messages of calls, what of them is shown, and the digests of each call's claims.

    `chains` has the rows of the conversations, which continue; `scratch` has room for three rows, `keys` for
    `CLAIM_KEY_CHARS` of each message, and `out` for `KEY_CHARS` of each call.
    """
    k, reply, digits = scratch[0], scratch[1], scratch[2].view(np.uint8)
    k8, reply8 = k.view(np.uint8), reply.view(np.uint8)
    for n in range(len(calls)):
        first, replies, behind = found[n, FIRST], found[n, REPLIES], found[n, BEHIND]
        if first == REFUSED:
            continue
        s = chains[calls[n, STATE]]
        s8 = s.view(np.uint8)
        found[n, LAST], found[n, PLACE], found[n, REPEATS] = first, np.int64(s[COUNT]), 0
        for row in range(first, replies):
            _add_message(s, s8, k, k8, b, side, tails, messages[row], digits)
            _show(s, s8, messages[row], keys, shown, row)
            if messages[row, ROLE] == ASSISTANT:
                found[n, LAST] = row + 1
                found[n, REPEATS] |= row == first and _is_reply(s)
        if s[COUNT] > np.uint64(MESSAGES_MAX):
            found[n, FIRST] = REFUSED
        for word in range(CHAIN_WORDS):
            reply[word] = s[word]
        for row in range(replies, behind):
            _add_message(reply, reply8, k, k8, b, side, tails, messages[row], digits)
            _show(reply, reply8, messages[row], keys, shown, row)
        _note_reply(s, reply, behind == replies + 1 and not calls[n, FAILED])
        _add(reply, reply8, _CLOSE)
        put_digest(reply, reply8, out, n * KEY_CHARS)
