"""The messages of calls that are read together, as loops and readers found them, and their claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from ..candidate import Claim
from ..event import Content, Kind
from .chain_loops import (
    CLAIM_KEY_CHARS,
    IN_OTHER_FORM,
    KINDS,
    SILENT,
    TAIL_COLUMNS,
)
from .message_loops import FORM, OTHER, PARTS, PARTS_STOP, ROLE, TEXT, TEXT_STOP
from .read_message import ReadMessage

_CAPTURED, _USER, _ASSISTANT = Content.CAPTURED, Kind.USER, Kind.ASSISTANT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""
_KIND_NUMBERS = {Kind(kind): number for number, kind in enumerate(KINDS)}


class FoundMessages(msgspec.Struct):
    """The messages of calls that are read together, by their rows.

    `shown` is what the loops found of each, `read` are those in other forms, and `keys` the keys of all in
    turn.
    """

    data: bytes
    shown: list[list[int]]
    read: dict[int, ReadMessage]
    keys: str

    def claims(
        self, rows: range, place: int, time: int, error: str | None = None, *, past: bool = False
    ) -> tuple[list[Claim], int]:
        """Return the claims of messages from a place of their conversation on, with their characters."""
        claims: list[Claim] = []
        chars = 0
        for row in rows:
            kind, is_answer, is_escaped, begin, stop, is_answered = self.shown[row]
            key, answered = self.keys[row * CLAIM_KEY_CHARS : (row + 1) * CLAIM_KEY_CHARS], is_answered > 0
            if kind == IN_OTHER_FORM:
                read = self.read[row]
                behind = error, _CAPTURED, place, past, answered
                claims += _stated(read, time, key, behind)
                chars += read.chars
            elif kind != SILENT:
                if is_escaped:
                    text = orjson.loads(self.data[begin - 1 : stop + 1])
                else:
                    text = self.data[begin:stop].decode()
                named = _ASSISTANT if is_answer else _USER
                behind = None, _CAPTURED, place, 0, past, key, answered
                claims.append(Claim(named, time, text, None, None, None, None, *behind))
                chars += len(text)
            place += 1
        return claims, chars


def _stated(
    read: ReadMessage, time: int, key: str, shared: tuple[str | None, Content, int, bool, bool]
) -> list[Claim]:
    """Return the claims of a message in another form."""
    error, content, place, past, answered = shared
    claims: list[Claim] = []
    for rank, (kind, text, tool, call_id, args, result) in enumerate(read.stated):
        name = f"{key[:-1]}{rank}" if rank else key
        behind = error, content, place, rank, past, name, answered
        claims.append(Claim(kind, time, text, tool, call_id, args, result, *behind))
    return claims


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
