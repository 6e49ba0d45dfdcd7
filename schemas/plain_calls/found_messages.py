"""The messages of calls that are read together, as loops and readers found them, and their claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from ..candidate import Claim
from ..event import Content, Kind
from .chain_loops import CLAIM_KEY_CHARS, KINDS, TAIL_COLUMNS
from .message_loops import ESCAPED, FORM, OTHER, PARTS, PARTS_STOP, ROLE, TEXT, TEXT_STOP, USER
from .read_message import ReadMessage

_CAPTURED, _USER, _ASSISTANT = Content.CAPTURED, Kind.USER, Kind.ASSISTANT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""
_KIND_NUMBERS = {Kind(kind): number for number, kind in enumerate(KINDS)}

MessageFacts: TypeAlias = tuple[int, int, bool, bool]
"""The facts that all claims of one message share: `time`, `place`, `past` and `answered` of a claim."""


class FoundMessages(msgspec.Struct):
    """The messages of calls that are read together.

    `rows` are those of the loops, `read` the messages in other forms by their rows, and `keys` the keys of
    all in turn.
    """

    data: bytes
    rows: list[list[int]]
    read: dict[int, ReadMessage]
    keys: str = ""

    def key(self, row: int) -> str:
        """Return the key of the first claim of a message."""
        return self.keys[row * CLAIM_KEY_CHARS : (row + 1) * CLAIM_KEY_CHARS]

    def claims(self, row: int, at: MessageFacts, error: str | None = None) -> tuple[list[Claim], int]:
        """Return the claims of a message, with their characters."""
        time, place, past, answered = at
        key, read = self.key(row), self.read.get(row)
        if read is not None:
            claims: list[Claim] = []
            for rank, (kind, text, tool, call_id, args, result) in enumerate(read.stated):
                name = f"{key[:-1]}{rank}" if rank else key
                stated = kind, time, text, tool, call_id, args, result
                claims.append(Claim(*stated, error, _CAPTURED, place, rank, past, name, answered))
            return claims, read.chars
        message = self.rows[row]
        begin, stop = message[TEXT], message[TEXT_STOP]
        if message[FORM] == ESCAPED:
            text = orjson.loads(self.data[begin - 1 : stop + 1])
        else:
            text = self.data[begin:stop].decode()
        kind = _USER if message[ROLE] == USER else _ASSISTANT
        behind = None, _CAPTURED, place, 0, past, key, answered
        return [Claim(kind, time, text, None, None, None, None, *behind)], len(text)


def side_of(
    messages: NDArray[np.int64], read: Mapping[int, ReadMessage]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of the read messages, and the rows of their claims.

    The rows of messages get the places of both.
    """
    written: list[bytes] = [b" "]
    tails: list[tuple[int, int, int]] = [(0, 0, 0)]
    places: list[tuple[int, ...]] = []
    at = 1
    for row, message in read.items():
        first, begin = len(tails), at
        at += len(message.key)
        written.append(message.key)
        behind = at
        for stated, tail in zip(message.stated, message.tails, strict=True):
            tails.append((_KIND_NUMBERS[stated[0]], at, at + len(tail)))
            at += len(tail)
            written.append(tail)
        places.append((row, message.role, begin, behind, first, len(tails)))
    if places:
        placed = np.array(places, np.int64)
        columns = [ROLE, TEXT, TEXT_STOP, PARTS, PARTS_STOP]
        messages[placed[:, :1], columns] = placed[:, 1:]
        messages[placed[:, 0], FORM] = OTHER
    side = np.frombuffer(b"".join(written), np.uint8)
    return side, np.array(tails, np.int64).reshape(-1, TAIL_COLUMNS)
