"""The state of one open session, and its documented codec.

A state is one byte, the version, and a MessagePack map. `session` is
`schemas.sessions.assemble.SessionAssembler` field by field; the other keys are the fields of `JudgingState`.
Keys are field names, so a release that adds a field with a default reads old states; one that changes the
meaning of a field raises `VERSION`.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from ...schemas.sessions.assemble import SessionAssembler
from ..error import StreamError

VERSION = 1

Columns: TypeAlias = dict[str, list[int | str | bool | None]]
"""Rows by column: those of `rules.engine.judge.JUDGED_COLUMNS` and of the labeler, times as nanoseconds."""


_HINT = "finish the sessions with the release that wrote them, or start with an empty store"


@dataclass(frozen=True, slots=True)
class JudgingState:
    """The judging of a session up to its last event: a rule set's judge returns a new one after each batch.

    `rules` is the key of the rule set (`RuleSetJudge.key`), `rows` are the labelled events of the open
    occurrence, and `applied` are the numbers of the rules that have applied to the occurrence that began at
    `applied_in`.
    """

    rules: str = ""
    rows: Columns = field(default_factory=Columns)
    applied_in: int = 0
    applied: Set[int] = frozenset()


@dataclass(slots=True)
class SessionState:
    """A session being assembled, and its judging; the session changes in place."""

    session: SessionAssembler
    judging: JudgingState = JudgingState()


class _StoredState(msgspec.Struct):
    """The stored form of a session's state."""

    session: SessionAssembler
    rules: str = ""
    rows: Columns = {}
    applied_in: int = 0
    applied: list[int] = []


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_StoredState)


def encode(state: SessionState) -> bytes:
    """Return the state as bytes."""
    judging = state.judging
    stored = _StoredState(
        state.session, judging.rules, judging.rows, judging.applied_in, sorted(judging.applied)
    )
    return bytes([VERSION]) + _ENCODER.encode(stored)


def decode(data: bytes) -> SessionState:
    """Return the state in the bytes. Raises StreamError where they are damaged or of another version."""
    if data[:1] != bytes([VERSION]):
        problem = f"a session's state has version {data[0] if data else 'none'}, not {VERSION}"
        raise StreamError("TRL701", problem, _HINT)
    try:
        stored = _DECODER.decode(data[1:])
    except msgspec.MsgspecError:
        raise StreamError("TRL701", "a session's state is damaged", _HINT) from None
    judging = JudgingState(stored.rules, stored.rows, stored.applied_in, frozenset(stored.applied))
    return SessionState(stored.session, judging)
