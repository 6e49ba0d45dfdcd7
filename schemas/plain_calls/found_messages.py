"""The messages of calls that are read together, as loops and readers found them, and their claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from ..candidate import Claim
from ..event import Content, Kind
from .chain_loops import (
    BY_ASSISTANT,
    CLAIM_KEY_CHARS,
    IN_OTHER_FORM,
    IS_ANSWERED,
    IS_ESCAPED,
    IS_SILENT,
    KINDS,
    TAIL_COLUMNS,
)
from .message_loops import FORM, OTHER, PARTS, PARTS_STOP, ROLE, TEXT, TEXT_STOP
from .read_message import ReadMessage

_CAPTURED, _USER, _ASSISTANT = Content.CAPTURED, Kind.USER, Kind.ASSISTANT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""
_KIND_NUMBERS = {Kind(kind): number for number, kind in enumerate(KINDS)}


MessageFacts: TypeAlias = tuple[int, int, bool, str | None]
"""The place of a message in its conversation, and time, `past` and error of its claims."""


class FoundMessages(msgspec.Struct):
    """The messages of calls that are read together, by their rows.

    `shown` is what the loops found of each, `read` are those in other forms, and `keys` the keys of all in
    turn.
    """

    data: bytes
    shown: list[list[int]]
    read: dict[int, ReadMessage]
    keys: str

    def add_claims(self, claims: list[Claim], first: int, behind: int, facts: MessageFacts) -> int:
        """Add the claims of messages, of which the first one has these facts; return their characters."""
        place, time, past, error = facts
        chars, shown, data, keys = 0, self.shown, self.data, self.keys
        for row in range(first, behind):
            bits, begin, stop = shown[row]
            at = row * CLAIM_KEY_CHARS
            key, answered = keys[at : at + CLAIM_KEY_CHARS], bits & IS_ANSWERED > 0
            if bits < IN_OTHER_FORM:
                is_escaped = bits & IS_ESCAPED
                text = orjson.loads(data[begin:stop]) if is_escaped else data[begin + 1 : stop - 1].decode()
                kind = _ASSISTANT if bits & BY_ASSISTANT else _USER
                stated = kind, time, text, None, None, None, None, None
                claims.append(Claim(*stated, _CAPTURED, place, 0, past, key, answered))
                chars += len(text)
            elif bits < IS_SILENT:
                read = self.read[row]
                for rank, (kind, text, tool, call_id, args, result) in enumerate(read.stated):
                    name = f"{key[:-1]}{rank}" if rank else key
                    stated = kind, time, text, tool, call_id, args, result, error
                    claims.append(Claim(*stated, _CAPTURED, place, rank, past, name, answered))
                chars += read.chars
            place += 1
        return chars


def side_of(
    messages: NDArray[np.int64], read: Mapping[int, ReadMessage]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of the read messages, and the rows of their claims.

    The rows of messages get the places of both.
    """
    written: list[bytes] = [b" "]
    tails: list[int] = [0] * TAIL_COLUMNS
    places: list[Sequence[int]] = []
    at, count = 1, 1
    for row, message in read.items():
        behind = at + len(message.key)
        written.append(message.key)
        first, end = count, behind
        for stated, tail in zip(message.stated, message.tails, strict=True):
            tails += (_KIND_NUMBERS[stated[0]], end, end + len(tail))
            end += len(tail)
            written.append(tail)
            count += 1
        places.append((row, message.role, at, behind, first, count))
        at = end
    if places:
        placed = np.array(places, np.int64)
        messages[placed[:, :1], [ROLE, TEXT, TEXT_STOP, PARTS, PARTS_STOP]] = placed[:, 1:]
        messages[placed[:, 0], FORM] = OTHER
    side = np.frombuffer(b"".join(written), np.uint8)
    return side, np.array(tails, np.int64).reshape(-1, TAIL_COLUMNS)
