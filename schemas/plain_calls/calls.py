"""The claims of plain calls of models, from the bytes of their messages.

A call continues a conversation where its input begins with that of an earlier call: then only the messages
behind that input are read. The calls of several spans are read at once: compiled loops find their messages,
and make their keys and digests. A message in another than the exact form of OpenTelemetry's conventions is
odd, and its session is left to the ordinary way from then on, which has the same claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ..candidate import CallHistory, Candidate, Claim
from ..dialects.parts.messages import ROLES
from ..plain.span import CallSpan, PlainSpans
from ..span_content import Role
from .call_messages import message_in
from .chain_loops import CHAIN_WORDS, CLAIM_KEY_CHARS, KEY_CHARS, SHOWN_COLUMNS, add_calls, begin_chains
from .conversation import PlainCall, PlainCalls
from .found_messages import FoundMessages, side_of
from .message_loops import (
    ASSISTANT,
    BEGIN,
    CALL,
    CALL_COLUMNS,
    FIRST,
    FORM,
    FOUND_COLUMNS,
    ID,
    ID_STOP,
    IS_REPLY,
    MESSAGE_BYTES_MIN,
    MESSAGE_COLUMNS,
    OTHER,
    PARTS,
    PARTS_STOP,
    PLAIN_RESULT,
    REFUSED,
    ROLE,
    STOP,
    TEXT,
    TEXT_STOP,
    find_messages,
)
from .read_message import OddMessage, ReadMessage, read_answer, read_message, read_result

_BY_ASSISTANT = Role.ASSISTANT
"""A name of its own, because Python 3.11 looks a member up four times as long as a global name."""
_EMPTY = np.zeros((1, CHAIN_WORDS), np.uint64)
"""The row of a conversation without messages, once it is begun."""

_AddedCall: TypeAlias = tuple[int, PlainCalls, PlainCall, CallSpan]
"""A call that is read: the place of its candidate, its session, its conversation and its span."""


class CallBatch:
    """The plain calls among candidates: `add` them in the order of their time, and `read` them together.

    `plain` has the spans of the candidates.
    """

    def __init__(self, plain: PlainSpans, candidates: list[Candidate]) -> None:
        self._plain, self._candidates = plain, candidates
        self._added: list[_AddedCall] = []
        self._given: list[int] = []
        self._conversations: list[PlainCall] = []

    def add(self, place: int, memory: PlainCalls) -> None:
        """Add the candidate at that place, of a session with that memory, if it is a plain call."""
        span = None if memory.is_odd else self._plain.call(place)
        if span is None:
            return
        begin, stop = span.asked, span.asked_stop
        call, size = memory.continued(self._plain.data, begin, stop)
        if call.row == REFUSED:
            call.row = len(self._conversations)
            self._conversations.append(call)
        self._added.append((place, memory, call, span))
        failed = span.error is not None
        self._given += (begin + size, stop, size, span.reply, span.reply_stop, call.row, failed)

    def read(self) -> None:
        """Put claims into the candidates that were added, but where the ordinary way is to read one."""
        calls = np.array(self._given, np.int64).reshape(-1, CALL_COLUMNS)
        found = np.empty((len(calls), FOUND_COLUMNS), np.int64)
        messages = self._messages(calls, found)
        read = self._read_others(found, messages)
        shown, digests = self._chained(calls, found, messages, read)
        columns: list[list[int]] = found.T.tolist()
        candidates, at = self._candidates, 0
        for (place, memory, call, span), row in zip(self._added, zip(*columns, strict=True), strict=True):
            if row[FIRST] == REFUSED and not memory.is_odd:
                memory.leave()
            if not memory.is_odd:
                candidate = candidates[place]
                history, claims = _claims(call, candidate, span.error, row, shown)
                candidates[place] = replace(
                    candidate,
                    claims=claims,
                    digest=digests[at : at + KEY_CHARS],
                    attributes=span.attributes,
                    request=b"",
                    origin=None,
                    history=history,
                )
            at += KEY_CHARS

    def _messages(self, calls: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of the messages of calls."""
        data = self._plain.data
        size = int((calls[:, 1] - calls[:, 0] + calls[:, 4] - calls[:, 3]).sum())
        messages = np.empty((size // MESSAGE_BYTES_MIN + 1, MESSAGE_COLUMNS), np.int64)
        words = np.frombuffer(data, np.uint64, len(data) // 8)
        return messages[: find_messages(np.frombuffer(data, np.uint8), words, calls, found, messages)]

    def _read_others(self, found: NDArray[np.int64], messages: NDArray[np.int64]) -> dict[int, ReadMessage]:
        """Return the messages in other forms, by their rows; a call with an odd one is odd."""
        data, read, odd = self._plain.data, dict[int, ReadMessage](), set[int]()
        rows = np.flatnonzero(messages[:, FORM] >= PLAIN_RESULT)
        others: list[list[int]] = messages[rows].tolist()
        for row, message in zip(rows.tolist(), others, strict=True):
            number = message[CALL]
            _, _, call, span = self._added[number]
            if number in odd:
                continue
            try:
                if message[IS_REPLY]:
                    read[row] = _reply(call, message, data, span.error)
                else:
                    read[row] = _asked(call, message, data)
            except (OddMessage, msgspec.MsgspecError, RecursionError):
                odd.add(number)
        if odd:
            found[[*odd], FIRST] = REFUSED
        return read

    def _chained(
        self,
        calls: NDArray[np.int64],
        found: NDArray[np.int64],
        messages: NDArray[np.int64],
        read: dict[int, ReadMessage],
    ) -> tuple[FoundMessages, str]:
        """Return the messages with their keys, and the digests of the calls in turn."""
        side, tails = side_of(messages, read)
        chains = self._chains()
        keys = np.zeros(len(messages) * CLAIM_KEY_CHARS, np.uint8)
        shown = np.empty((len(messages), SHOWN_COLUMNS), np.int64)
        digests = np.zeros(len(calls) * KEY_CHARS, np.uint8)
        scratch = np.empty((3, CHAIN_WORDS), np.uint64)
        written = np.frombuffer(self._plain.data, np.uint8)
        add_calls(written, side, calls, found, messages, tails, chains, scratch, keys, shown, digests)
        whole, size = chains.tobytes(), 8 * CHAIN_WORDS
        for call in self._conversations:
            call.chain, call.row = whole[call.row * size : (call.row + 1) * size], REFUSED
        every = FoundMessages(self._plain.data, shown.tolist(), read, keys.tobytes().decode())
        return every, digests.tobytes().decode()

    def _chains(self) -> NDArray[np.uint64]:
        """Return the rows of the conversations."""
        begin_chains(_EMPTY)
        begun = _EMPTY.tobytes()
        data = bytearray().join([call.chain or begun for call in self._conversations])
        return np.frombuffer(data, np.uint64).reshape(-1, CHAIN_WORDS)


def compile_call_loops() -> None:
    """Compile the loops, or load them from the cache."""
    CallBatch(PlainSpans([b""]), []).read()


def _asked(call: PlainCall, row: Sequence[int], data: bytes) -> ReadMessage:
    """Return a message of an input. Raises OddMessage, MsgspecError or RecursionError."""
    if row[FORM] != OTHER:
        call_id, result = data[row[ID] : row[ID_STOP]], data[row[TEXT] : row[TEXT_STOP]]
        return read_result(call_id, result, call.asked)
    known, size = call.parts, row[PARTS_STOP] - row[PARTS]
    is_whole = row[PARTS] != REFUSED and row[ROLE] == ASSISTANT
    if known is not None and is_whole and len(known[0]) == size and data.startswith(known[0], row[PARTS]):
        message = known[1]
    else:
        message = read_message(message_in(data[row[BEGIN] : row[STOP]]), call.asked)
    if message.role == ASSISTANT:
        call.asked.note(message)
    return message


def _reply(call: PlainCall, row: Sequence[int], data: bytes, error: str | None) -> ReadMessage:
    """Return a message of an output. Raises OddMessage, MsgspecError or RecursionError."""
    message = message_in(data[row[BEGIN] : row[STOP]])
    if ROLES.get(message.role) is not _BY_ASSISTANT or message.finish_reason == "":
        raise OddMessage
    answer = read_answer(message.parts, error)
    if error is None and row[PARTS] != REFUSED:
        call.parts = data[row[PARTS] : row[PARTS_STOP]], answer
    return answer


def _claims(
    call: PlainCall, candidate: Candidate, error: str | None, row: Sequence[int], shown: FoundMessages
) -> tuple[CallHistory | None, tuple[Claim, ...]]:
    """Return the claims of a call; its conversation continues behind it."""
    first, last, replies, behind, place, repeats = row
    start = candidate.start
    if last > first:
        begin = first
        call.past += [replace(claim, time=0, past=True) for claim in call.behind]
        call.chars += call.behind_chars
        call.behind, call.behind_chars = [], 0
        if repeats and call.reply is not None and call.reply[2] is shown.read.get(first):
            call.past += [replace(claim, time=0, past=True) for claim in call.reply[0]]
            call.chars += call.reply[1]
            begin += 1
        if begin < last:
            call.chars += shown.add_claims(call.past, begin, last, (place + begin - first, 0, True, None))
    elif call.behind and call.behind[0].time != start:
        call.behind = [replace(claim, time=start) for claim in call.behind]
    if last < replies:
        at = place + last - first, start, False, None
        call.behind_chars += shown.add_claims(call.behind, last, replies, at)
    claims = list[Claim]()
    chars = shown.add_claims(claims, replies, behind, (place + replies - first, candidate.end, False, error))
    is_only = behind == replies + 1 and error is None
    call.reply = (claims, chars, shown.read.get(replies)) if is_only else None
    history = CallHistory(tuple(call.past), call.chars) if call.past else None
    return history, (*call.behind, *claims)
