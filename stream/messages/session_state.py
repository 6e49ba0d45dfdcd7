"""The state of one open session, and its documented codec.

A state is one byte, the version, and a MessagePack map. `session` is
`schemas.sessions.assemble.SessionAssembler` field by field; the other keys are the fields of `JudgingState`,
with `applied_in` for `occurrence`. Keys are field names, so a release that adds a field with a default reads
old states; one that changes the meaning of a field raises `VERSION`. States of version 1 have `rows`, the
labelled events of the open occurrence by column, in place of `carried`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from ...rules.incremental.carried import Carried, page_of, stored_page
from ...schemas.sessions.assemble import SessionAssembler
from ..error import StreamError

VERSION = 3
VERSIONS_READ = (1, 2, 3)

Columns: TypeAlias = dict[str, list[int | str | bool | None]]
"""Rows by column: those of `rules.engine.judge.JUDGED_COLUMNS` and of the labeler, times as nanoseconds."""

OTHER_RELEASE = "finish the sessions with the release that wrote them, or start with an empty store"


@dataclass(frozen=True, slots=True)
class JudgingState:
    """The judging of a session up to its last event: a rule set's judge returns a new one after each batch.

    `rules` is the key of the rule set (`RuleSetJudge.key`), `occurrence` that of the last event, and
    `carried` continues the judging of the open occurrence. A state of the release before has `rows` instead,
    until the next event is judged.
    """

    rules: str = ""
    occurrence: int = 0
    carried: Carried | None = None
    rows: Columns = field(default_factory=Columns)


@dataclass(slots=True)
class SessionState:
    """A session being assembled, and its judging; the session changes in place."""

    session: SessionAssembler
    judging: JudgingState = JudgingState()


class _StoredState(msgspec.Struct, omit_defaults=True):
    """The stored form of a session's state."""

    session: SessionAssembler
    rules: str = ""
    rows: Columns = {}
    applied_in: int = 0
    carried: Carried | None = None


_ENCODER = msgspec.msgpack.Encoder(enc_hook=stored_page)
_DECODER = msgspec.msgpack.Decoder(_StoredState, dec_hook=page_of)


def _byte(version: int) -> bytes:
    return bytes([version])


def encode(state: SessionState) -> bytes:
    """Return the state as bytes."""
    judging = state.judging
    stored = _StoredState(state.session, judging.rules, judging.rows, judging.occurrence, judging.carried)
    return _byte(VERSION) + _ENCODER.encode(stored)


def decode(data: bytes) -> SessionState:
    """Return the state in the bytes. Raises StreamError where they are damaged or of another version."""
    if data[:1] not in map(_byte, VERSIONS_READ):
        problem = f"a session's state has version {data[0] if data else 'none'}, not {VERSION}"
        raise StreamError("TRL701", problem, OTHER_RELEASE)
    try:
        stored = _DECODER.decode(data[1:])
    except msgspec.MsgspecError:
        raise StreamError("TRL701", "a session's state is damaged", OTHER_RELEASE) from None
    judging = JudgingState(stored.rules, stored.applied_in, stored.carried, stored.rows)
    return SessionState(stored.session, judging)
