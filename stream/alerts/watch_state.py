"""The state of a watch as named records, in a documented codec.

A record is one byte, the version, and MessagePack. The record's name determines its content:

- `rate` and a JSON array of pack, rule and agent: a map of `RateState`.
- `session` and a JSON array of session id and occurrence: a map of `CountedSessionState`.
- `watermark`: a number.
- `tick_s`: the seconds of a tick, by which the other records count.

Keys are field names, so a release that adds a field with a default reads old records; one that changes what
a field means raises `VERSION`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from ...predict.detector import DetectorState
from ..error import StreamError
from .sessions import Cohort, CountedSession, RateKey, SessionRule

VERSION = 1

WATERMARK = "watermark"
"""The name of the record with the watermark."""

TICK_S = "tick_s"
"""The name of the record with the seconds of a tick, which earlier releases did not write."""

_RATE, _SESSION = "rate ", "session "
_HINT = "run the release that wrote it, or start the alerts with an empty state"

T = TypeVar("T")


@dataclass(slots=True)
class RateState:
    """The state of a rate: its unsettled ticks, its detector, and its last stepped tick (`looked`)."""

    cohorts: dict[int, Cohort] = field(default_factory=dict[int, Cohort])
    detector: DetectorState | None = None
    looked: int | None = None


class CountedSessionState(msgspec.Struct, rename={"last_tick": "heard"}):
    """The state of an occurrence: the tick of its last status, and its rules (`parts`)."""

    last_tick: int
    closed: bool
    parts: list[tuple[str, str, SessionRule]]


@dataclass(slots=True)
class WatchState:
    """The decoded records of a watch."""

    watermark: int | None = None
    tick_s: int | None = None
    rates: dict[RateKey, RateState] = field(default_factory=dict[RateKey, RateState])
    sessions: dict[tuple[str, int], CountedSession] = field(
        default_factory=dict[tuple[str, int], CountedSession]
    )


_ENCODER = msgspec.msgpack.Encoder()


def rate_name(key: RateKey) -> str:
    """Return the name of a rate's record."""
    return _RATE + msgspec.json.encode(key).decode()


def session_name(occurrence: tuple[str, int]) -> str:
    """Return the name of an occurrence's record."""
    return _SESSION + msgspec.json.encode(occurrence).decode()


def encode(state: RateState | int) -> bytes:
    """Return a rate, the watermark, or the seconds of a tick as the bytes of a record."""
    return bytes([VERSION]) + _ENCODER.encode(state)


def encode_session(session: CountedSession) -> bytes:
    """Return an occurrence as the bytes of a record."""
    parts = [(*rule, part) for rule, part in session.parts.items()]
    return bytes([VERSION]) + _ENCODER.encode(CountedSessionState(session.last_tick, session.closed, parts))


def decode(records: Mapping[str, bytes]) -> WatchState:
    """Return the decoded records. Raises StreamError (TRL761) where one is damaged or incompatible."""
    found = WatchState()
    for name, data in records.items():
        if name == WATERMARK:
            found.watermark = _decoded(data, int)
        elif name == TICK_S:
            found.tick_s = _decoded(data, int)
        elif name.startswith(_RATE):
            found.rates[_named(name.removeprefix(_RATE), RateKey)] = _decoded(data, RateState)
        elif name.startswith(_SESSION):
            stored = _decoded(data, CountedSessionState)
            parts = {(pack, rule): part for pack, rule, part in stored.parts}
            occurrence = _named(name.removeprefix(_SESSION), tuple[str, int])
            found.sessions[occurrence] = CountedSession(parts, stored.last_tick, stored.closed)
        else:
            raise StreamError("TRL761", "unknown record in the alerts' state", _HINT)
    return found


def _named(text: str, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=type_)
    except msgspec.MsgspecError:
        raise StreamError("TRL761", "damaged name in the alerts' state", _HINT) from None


def _decoded(data: bytes, type_: type[T]) -> T:
    if data[:1] != bytes([VERSION]):
        what = f"a record of the alerts' state has version {data[0] if data else 'none'}, not {VERSION}"
        raise StreamError("TRL761", what, _HINT)
    try:
        return msgspec.msgpack.decode(data[1:], type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise StreamError("TRL761", "damaged record in the alerts' state", _HINT) from None
