"""The state of a watch as named records, in a documented codec.

A record is one byte, the version, and MessagePack. Its name says what it holds:

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
"""The name of the record that holds the watermark."""

TICK_S = "tick_s"
"""The name of the record that holds the seconds of a tick; earlier releases wrote none."""

_RATE, _SESSION = "rate ", "session "
_HINT = "run the release that wrote it, or let the alerts begin with an empty state"

T = TypeVar("T")


@dataclass(slots=True)
class RateState:
    """A rule and agent: the ticks that are not settled, its detector, and the last tick that it took in."""

    cohorts: dict[int, Cohort] = field(default_factory=dict[int, Cohort])
    detector: DetectorState | None = None
    looked: int | None = None


@dataclass(slots=True)
class CountedSessionState:
    """An occurrence: its parts as pack, rule and part."""

    heard: int
    closed: bool
    parts: list[tuple[str, str, SessionRule]]


@dataclass(slots=True)
class WatchState:
    """All records of a watch, read."""

    watermark: int | None = None
    tick_s: int | None = None
    rates: dict[RateKey, RateState] = field(default_factory=dict[RateKey, RateState])
    sessions: dict[tuple[str, int], CountedSession] = field(
        default_factory=dict[tuple[str, int], CountedSession]
    )


_ENCODER = msgspec.msgpack.Encoder()


def rate_name(key: RateKey) -> str:
    """The name of a rate's record."""
    return _RATE + msgspec.json.encode(key).decode()


def session_name(place: tuple[str, int]) -> str:
    """The name of an occurrence's record."""
    return _SESSION + msgspec.json.encode(place).decode()


def encode(told: RateState | int) -> bytes:
    """A rate, the watermark, or the seconds of a tick, as the bytes of a record."""
    return bytes([VERSION]) + _ENCODER.encode(told)


def encode_session(session: CountedSession) -> bytes:
    """An occurrence as the bytes of a record."""
    parts = [(*rule, part) for rule, part in session.parts.items()]
    return bytes([VERSION]) + _ENCODER.encode(CountedSessionState(session.last_tick, session.closed, parts))


def decode(records: Mapping[str, bytes]) -> WatchState:
    """What the records of these names hold. Raises StreamError (TRL761) where this release wrote no such."""
    found = WatchState()
    for name, data in records.items():
        if name == WATERMARK:
            found.watermark = _decoded(data, int)
        elif name == TICK_S:
            found.tick_s = _decoded(data, int)
        elif name.startswith(_RATE):
            found.rates[_named(name.removeprefix(_RATE), RateKey)] = _decoded(data, RateState)
        elif name.startswith(_SESSION):
            told = _decoded(data, CountedSessionState)
            parts = {(pack, rule): part for pack, rule, part in told.parts}
            place = _named(name.removeprefix(_SESSION), tuple[str, int])
            found.sessions[place] = CountedSession(parts, told.heard, told.closed)
        else:
            raise StreamError("TRL761", "a record of the alerts' state has a name that means nothing", _HINT)
    return found


def _named(text: str, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=type_)
    except msgspec.MsgspecError:
        raise StreamError("TRL761", "a name in the alerts' state is damaged", _HINT) from None


def _decoded(data: bytes, type_: type[T]) -> T:
    if data[:1] != bytes([VERSION]):
        what = f"a record of the alerts' state has version {data[0] if data else 'none'}, not {VERSION}"
        raise StreamError("TRL761", what, _HINT)
    try:
        return msgspec.msgpack.decode(data[1:], type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise StreamError("TRL761", "a record of the alerts' state is damaged", _HINT) from None
