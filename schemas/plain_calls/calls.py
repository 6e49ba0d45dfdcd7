"""The claims of plain calls of models, from the bytes of their messages.

A call continues a conversation where its input begins with that of an earlier call: then only the messages
behind that input are read. The calls of several spans are read at once: compiled loops find their messages,
and make their keys and digests. A message in another than the exact form of OpenTelemetry's conventions is
odd, and its session is left to the ordinary way from then on, which has the same claims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ..candidate import CallHistory, Claim
from ..dialects.parts.messages import MESSAGES_MAX, ROLES
from ..event import Content, Kind
from ..plain.span import CallSpan, PlainSpans
from ..span_content import Role
from .call_messages import message_in
from .chain_loops import (
    CHAIN_WORDS,
    CLAIM_KEY_CHARS,
    KEY_CHARS,
    add_calls,
    begin_chains,
)
from .conversation import OnlyReply, PlainCall, PlainCalls
from .found_messages import FoundMessages, side_of
from .message_loops import (
    ASSISTANT,
    BEGIN,
    BEHIND,
    CALL_COLUMNS,
    FIRST,
    FORM,
    INSTRUCTION,
    MESSAGE_BYTES_MIN,
    MESSAGE_COLUMNS,
    OTHER,
    PARTS,
    PARTS_STOP,
    REFUSED,
    REPLIES,
    ROLE,
    STOP,
    find_messages,
)
from .read_message import OddMessage, ReadMessage, read_answer, read_message

_CAPTURED, _USER, _ASSISTANT = Content.CAPTURED, Kind.USER, Kind.ASSISTANT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""

CallClaims: TypeAlias = tuple[CallHistory | None, tuple[Claim, ...], str]
"""The claims of a call: its history, those behind its last answer, and the digest of all."""
ReadCall: TypeAlias = tuple[CallClaims, Mapping[str, str]]
"""The claims of a call, and the attributes of its span."""


class _AddedCall(msgspec.Struct):
    """A call that is read: its session, its conversation and its span.

    `place` is that of its first message that is not known.
    """

    memory: PlainCalls
    call: PlainCall
    span: CallSpan
    start: int
    end: int
    place: int = 0


class CallBatch:
    """The plain calls among spans: `add` them in the order of their time, and `read` them together."""

    def __init__(self, plain: PlainSpans) -> None:
        self._plain = plain
        self._asked: list[_AddedCall] = []
        self._calls: list[tuple[int, ...]] = []
        self._conversations: list[PlainCall] = []

    def add(self, memory: PlainCalls, place: int, start: int, end: int) -> bool:
        """Add the call of the span at that place; return whether it is plain."""
        span = None if memory.is_odd else self._plain.call(place)
        if span is None:
            return False
        begin, stop = span.asked
        call, size = memory.continued(self._plain.data, begin, stop)
        if call.row == REFUSED:
            call.row = len(self._conversations)
            self._conversations.append(call)
        self._asked.append(_AddedCall(memory, call, span, start, end))
        self._calls.append((begin + size, stop, size, *span.reply, call.row, 0, 0, 0))
        return True

    def read(self) -> list[ReadCall | None]:
        """Return each call; None where the ordinary way is to read its span."""
        return self.read_rows(np.array(self._calls, np.int64)) if self._calls else []

    def read_rows(self, calls: NDArray[np.int64]) -> list[ReadCall | None]:
        """Return the calls of these rows."""
        asked = self._asked
        messages, count = self._found(calls)
        found = FoundMessages(self._plain.data, messages[:count].tolist(), {})
        rows: list[list[int]] = calls.tolist()
        for each, row in zip(asked, rows, strict=True):
            if each.memory.is_odd:
                row[FIRST] = REFUSED
            elif row[FIRST] == REFUSED or not _is_read(each, row, found):
                each.memory.leave()
                row[FIRST] = REFUSED
        calls = np.array(rows, np.int64).reshape(-1, CALL_COLUMNS)
        digests = self._chained(calls, messages[:count], found)
        calls_read: list[ReadCall | None] = []
        for number, (each, row) in enumerate(zip(asked, rows, strict=True)):
            digest = digests[number * KEY_CHARS : (number + 1) * KEY_CHARS]
            is_odd = row[FIRST] == REFUSED
            read = None if is_odd else (_claims(each, row, found, digest), each.span.attributes)
            calls_read.append(read)
        return calls_read

    def _found(self, calls: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
        data = self._plain.data
        size = int((calls[:, 1] - calls[:, 0] + calls[:, 4] - calls[:, 3]).sum())
        messages = np.empty((size // MESSAGE_BYTES_MIN + 1, MESSAGE_COLUMNS), np.int64)
        words = np.frombuffer(data, np.uint64, len(data) // 8)
        return messages, find_messages(np.frombuffer(data, np.uint8), words, calls, messages)

    def _chained(self, calls: NDArray[np.int64], messages: NDArray[np.int64], found: FoundMessages) -> str:
        """Put the keys into what was found, and return the digests of the calls in turn."""
        side, tails = side_of(messages, found.read)
        chains = self._chains()
        keys = np.zeros(len(messages) * CLAIM_KEY_CHARS, np.uint8)
        digests = np.zeros(len(calls) * KEY_CHARS, np.uint8)
        scratch = np.empty((3, CHAIN_WORDS), np.uint64)
        written = np.frombuffer(found.data, np.uint8)
        add_calls(written, side, calls, messages, tails, chains, scratch, keys, digests)
        whole, size = chains.tobytes(), 8 * CHAIN_WORDS
        for call in self._conversations:
            call.chain, call.row = whole[call.row * size : (call.row + 1) * size], REFUSED
        found.keys = keys.tobytes().decode()
        return digests.tobytes().decode()

    def _chains(self) -> NDArray[np.uint64]:
        """Return the rows of the conversations."""
        empty = np.zeros((1, CHAIN_WORDS), np.uint64)
        begin_chains(empty)
        begun = empty.tobytes()
        data = bytearray().join([call.chain or begun for call in self._conversations])
        return np.frombuffer(data, np.uint64).reshape(-1, CHAIN_WORDS)


def compile_call_loops() -> None:
    """Compile the loops, or load them from the cache."""
    batch = CallBatch(PlainSpans([b""]))
    batch.read_rows(np.zeros((0, CALL_COLUMNS), np.int64))


def _is_read(asked: _AddedCall, row: Sequence[int], found: FoundMessages) -> bool:
    """Read the messages of a call that are in other forms; return whether none is odd."""
    call, error = asked.call, asked.span.error
    first, replies, behind = row[FIRST], row[REPLIES], row[BEHIND]
    asked.place = call.count
    call.count += replies - first
    if call.count > MESSAGES_MAX or behind - replies > MESSAGES_MAX:
        return False
    rows, read = found.rows, found.read
    try:
        for n in range(first, replies):
            if rows[n][FORM] == OTHER:
                read[n] = _asked_message(call, rows[n], found.data)
        call.parts = None
        for n in range(replies, behind):
            if rows[n][FORM] == OTHER or error is not None:
                read[n] = _reply(rows[n], found.data, error)
    except (OddMessage, msgspec.MsgspecError, RecursionError):
        return False
    if behind - replies == 1 and replies in read and error is None and rows[replies][PARTS] != REFUSED:
        call.parts = found.data[rows[replies][PARTS] : rows[replies][PARTS_STOP]], read[replies]
    return True


def _asked_message(call: PlainCall, row: list[int], data: bytes) -> ReadMessage:
    """Return a message of an input. Raises OddMessage, MsgspecError or RecursionError."""
    known, size = call.parts, row[PARTS_STOP] - row[PARTS]
    is_known = known is not None and row[ROLE] == ASSISTANT and row[PARTS] != REFUSED
    if is_known and known is not None and len(known[0]) == size and data.startswith(known[0], row[PARTS]):
        message = known[1]
    else:
        message = read_message(message_in(data[row[BEGIN] : row[STOP]]), call.asked)
    if message.role == ASSISTANT:
        call.asked.note(message.stated)
    row[ROLE] = message.role
    return message


def _reply(row: list[int], data: bytes, error: str | None) -> ReadMessage:
    """Return a message of an output. Raises OddMessage, MsgspecError or RecursionError."""
    message = message_in(data[row[BEGIN] : row[STOP]])
    if ROLES.get(message.role) is not Role.ASSISTANT or message.finish_reason == "":
        raise OddMessage
    row[ROLE] = ASSISTANT
    return read_answer(message.parts, error)


def _claims(asked: _AddedCall, row: Sequence[int], found: FoundMessages, digest: str) -> CallClaims:
    """Return the claims of a call; its conversation continues behind it."""
    call, rows = asked.call, found.rows
    first, replies = row[FIRST], row[REPLIES]
    last = replies - 1
    while last >= first and rows[last][ROLE] != ASSISTANT:
        last -= 1
    _take_behind(call, asked.start, is_past=last >= first)
    reply, call.reply = call.reply, None
    for n in range(first, replies):
        message, past = rows[n], n <= last
        if message[ROLE] == INSTRUCTION:
            continue
        if n == first and reply is not None and reply.is_in(n, found):
            claims = [replace(claim, time=0, past=True) for claim in reply.claims]
            chars = reply.chars
        else:
            at = 0 if past else asked.start, asked.place + n - first, past, call.answered
            claims, chars = found.claims(n, at)
        if message[ROLE] == ASSISTANT:
            call.answered = True
        if past:
            call.past += claims
            call.chars += chars
        else:
            call.behind += claims
            call.behind_chars += chars
    history = CallHistory(tuple(call.past), call.chars) if call.past else None
    return history, (*call.behind, *_replied(asked, row, found)), digest


def _take_behind(call: PlainCall, start: int, *, is_past: bool) -> None:
    """Take the claims behind the last answer as past, or let them have the time of the call."""
    if is_past:
        call.past += [replace(claim, time=0, past=True) for claim in call.behind]
        call.chars += call.behind_chars
        call.behind, call.behind_chars = [], 0
    elif call.behind and call.behind[0].time != start:
        call.behind = [replace(claim, time=start) for claim in call.behind]


def _replied(asked: _AddedCall, row: Sequence[int], found: FoundMessages) -> list[Claim]:
    """Return the claims of a call's output; the next call may repeat them."""
    call, error = asked.call, asked.span.error
    replies, behind = row[REPLIES], row[BEHIND]
    every: list[Claim] = []
    answered = call.answered
    for n in range(replies, behind):
        at = asked.end, asked.place + n - row[FIRST], False, answered
        claims, chars = found.claims(n, at, error)
        if behind - replies == 1 and error is None:
            call.reply = OnlyReply(claims, chars, found.read.get(n))
        every += claims
        answered = True
    return every
