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
from .session_counts import Cohort, CountedSession, Occurrence, RateKey, SessionRule
from .watch import WatchState, WatchWrites

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


_ENCODER = msgspec.msgpack.Encoder()


def rate_name(key: RateKey) -> str:
    """Return the name of a rate's record."""
    return _RATE + msgspec.json.encode(key).decode()


def encode(state: RateState | int) -> bytes:
    """Return a rate, the watermark, or the seconds of a tick as the bytes of a record."""
    return bytes([VERSION]) + _ENCODER.encode(state)


def write_watch(state: WatchState, writes: WatchWrites) -> dict[str, bytes | None]:
    """Return the records of a step over a state, by name; None deletes a record."""
    records: dict[str, bytes | None] = {}
    cohorts, sessions = writes.counter.cohorts, writes.counter.sessions
    for key in sorted(writes.detectors.put.keys() | cohorts.put.keys() | cohorts.deleted):
        before = {} if key in cohorts.deleted else state.counter.cohorts.get(key, {})
        left = cohorts.put.get(key, before)
        detector = writes.detectors.put.get(key) or state.detectors.get(key)
        stepped = writes.stepped.put.get(key, state.stepped.get(key))
        records[rate_name(key)] = encode(RateState(left, detector, stepped))
    for occurrence in sorted(sessions.put.keys() | sessions.deleted):
        session = sessions.put.get(occurrence)
        records[_session_name(occurrence)] = None if session is None else _encode_session(session)
    if writes.counter.watermark is not None:
        records[WATERMARK] = encode(writes.counter.watermark)
    if state.tick_s is None:
        records[TICK_S] = encode(writes.tick_s)
    return records


def read_watch(records: Mapping[str, bytes], tick_s: int) -> WatchState:
    """Return the state of a watch with ticks of so many seconds, from all its records.

    Raises StreamError: TRL761 where the records are damaged or incompatible, TRL763 where their ticks have
    another length.
    """
    state = WatchState()
    sessions: dict[Occurrence, CountedSession] = {}
    for name, data in records.items():
        if name == WATERMARK:
            state.counter.watermark = _decoded(data, int)
        elif name == TICK_S:
            state.tick_s = _decoded(data, int)
        elif name.startswith(_RATE):
            _read_rate(state, _named(name.removeprefix(_RATE), RateKey), _decoded(data, RateState))
        elif name.startswith(_SESSION):
            stored = _decoded(data, CountedSessionState)
            parts = {(pack, rule): part for pack, rule, part in stored.parts}
            occurrence = _named(name.removeprefix(_SESSION), tuple[str, int])
            sessions[occurrence] = CountedSession(parts, stored.last_tick, stored.closed)
        else:
            raise StreamError("TRL761", "unknown record in the alerts' state", _HINT)
    if state.tick_s not in {None, tick_s}:
        what = f"the alerts' state has ticks of {state.tick_s} s, not of {tick_s} s"
        hint = f"set ticks of {state.tick_s} s as before, or start the alerts with an empty state"
        raise StreamError("TRL763", what, hint)
    counter = state.counter
    counter.sessions = dict(sorted(sessions.items(), key=lambda item: (item[1].last_tick, item[0])))
    counter.closed = [occurrence for occurrence, session in counter.sessions.items() if session.closed]
    return state


def _read_rate(state: WatchState, key: RateKey, rate: RateState) -> None:
    """Add the record of a rate to a state."""
    if rate.cohorts:
        state.counter.cohorts[key] = rate.cohorts
    if rate.detector is not None:
        state.detectors[key] = rate.detector
    if rate.looked is not None:
        state.stepped[key] = rate.looked
    rule = key[:2]
    state.counter.agents[rule] = state.counter.agents.get(rule, frozenset()) | {key.agent}


def _session_name(occurrence: Occurrence) -> str:
    return _SESSION + msgspec.json.encode(occurrence).decode()


def _encode_session(session: CountedSession) -> bytes:
    parts = [(*rule, part) for rule, part in session.parts.items()]
    return bytes([VERSION]) + _ENCODER.encode(CountedSessionState(session.last_tick, session.closed, parts))


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
