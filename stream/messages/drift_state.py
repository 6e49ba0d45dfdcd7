"""The detectors of drift of a partition, as the monitor's table has them.

The record is written before the sessions of its step. It has the detectors before the step, and the bets of
each message of it. So a process that comes after a crash has the bets of messages whose sessions are written,
and gives the other sessions' crossings the evidence that they had.

A record that is too large for a message of Kafka is cut into chunks, as a session's state is. A message that
comes late may have bets in many ticks, and a step may have many messages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec
import zstandard

from ...predict.drift.bet_sums import BetSum
from ...predict.drift.detectors import Detectors, DriftDetector, DriftKey, watched, with_bets
from ...schemas.records.risk_crossing import RiskCrossing
from ..error import StreamError
from .monitor_state import HINT, chunks_of, drift_key, packed, unpacked

_HEAD = struct.Struct(">BqI")
"""The record of a state in chunks: zero, with which no other record begins, the offset, and their number."""
_IN_CHUNKS = 0


class DriftState(msgspec.Struct, frozen=True, array_like=True):
    """The detectors after the messages up to the offset `since`, and the bets of those up to `offset`."""

    detectors: list[tuple[DriftKey, DriftDetector]] = []
    since: int = -1
    offset: int = -1
    bets: list[tuple[int, list[BetSum]]] = []
    version: Literal[1] = 1

    def at(self, offset: int) -> Detectors:
        """Return the detectors after the messages up to that offset."""
        found: Detectors = dict(self.detectors)
        for each, bets in self.bets:
            if each <= offset:
                found = with_bets(found, bets)
        return found

    def of(self, offset: int) -> list[BetSum]:
        """Return the bets of the message at that offset, which is at most `offset`."""
        return [bet for each, bets in self.bets if each == offset for bet in bets]


class DriftStep:
    """The detectors of a partition over the messages of a step, which follow that at the offset `since`."""

    def __init__(self, before: DriftState, since: int) -> None:
        self._before, self._since = before, since
        self._begun = self._detectors = before.at(since)
        self._new: list[tuple[int, list[BetSum]]] = []

    def watch(self, offset: int, crossings: Sequence[RiskCrossing], bets: list[BetSum]) -> list[RiskCrossing]:
        """Return the crossings of the next message with their drift, and count its bets.

        A message that the record has counts as it is there, also with bets on sessions that were written.
        """
        if offset <= self._before.offset:
            bets = self._before.of(offset)
        elif bets:
            self._new.append((offset, bets))
        self._detectors, found = watched(self._detectors, crossings, bets)
        return found

    def written(self, offset: int) -> DriftState | None:
        """Return the state after the step, whose last message is at that offset; None without new bets."""
        if not self._new:
            return None
        left = [each for each in self._before.bets if each[0] > self._since]
        return DriftState(list(self._begun.items()), self._since, offset, [*left, *self._new])


class DriftRecords(NamedTuple):
    """The record of a state, and its chunks, which are written before it."""

    record: bytes
    chunks: list[bytes]


def encode_drift(state: DriftState, bytes_max: int) -> DriftRecords:
    """Return the records of a state, of at most so many bytes each."""
    data = packed(msgspec.msgpack.encode(state))
    chunks = chunks_of(data, bytes_max)
    return DriftRecords(_HEAD.pack(_IN_CHUNKS, state.offset, len(chunks)) if chunks else data, chunks)


def drift_chunk_keys(partition: int, record: bytes | None) -> list[str]:
    """Return the keys of the chunks that a record names; none without one."""
    if record is None or len(record) != _HEAD.size or record[0] != _IN_CHUNKS:
        return []
    _, offset, count = _HEAD.unpack(record)
    return [f"{drift_key(partition)}/{offset}/{index}" for index in range(count)]


def decode_drift(data: bytes, chunks: Iterable[bytes | None] = ()) -> DriftState:
    """Return the state in a record, or in its chunks.

    Raises StreamError (TRL741) where it is damaged, or another release wrote it.
    """
    body = b"".join(chunk or b"" for chunk in chunks) or data
    try:
        stored = unpacked(body) if body.startswith(zstandard.FRAME_HEADER) else body
        return msgspec.msgpack.decode(stored, type=DriftState)
    except (msgspec.MsgspecError, StreamError):
        problem = "a partition's detectors of drift are damaged, or of another release"
        raise StreamError("TRL741", problem, HINT) from None


def encode_detectors(detectors: Detectors) -> bytes:
    """Return detectors as bytes."""
    return msgspec.msgpack.encode(list(detectors.items()))


def decode_detectors(data: bytes) -> Detectors:
    """Return the detectors in these bytes. Raises msgspec.MsgspecError where there are none."""
    return dict(msgspec.msgpack.decode(data, type=list[tuple[DriftKey, DriftDetector]]))
