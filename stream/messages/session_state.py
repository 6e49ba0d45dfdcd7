"""The state of one open session, and its documented codec.

A state is one byte, the version, and a MessagePack map. `session` is
`schemas.sessions.assemble.SessionAssembler` field by field, `rules` the key (`judge.RuleSetJudge`) of the
rule set that labelled the rows, `rows` the labelled events of the open occurrence by column, `applied` the
numbers of the rules that have applied to the occurrence that began at `applied_in`. Keys are field names, so
a release that adds a field with a default reads old states; one that changes what a field means raises
`VERSION`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from ...schemas.sessions.assemble import SessionAssembler
from ..error import StreamError

VERSION = 1

Columns: TypeAlias = dict[str, list[int | str | bool | None]]
"""Rows by column: those of `rules.engine.judge.JUDGED_COLUMNS` and of the labeler, times as nanoseconds."""


_HINT = "finish the sessions with the release that wrote them, or start with an empty store"


@dataclass(slots=True)
class SessionState:
    """A session being assembled, with the rows of its open occurrence; it changes in place."""

    session: SessionAssembler
    rules: str = ""
    rows: Columns = field(default_factory=Columns)
    applied_in: int = 0
    applied: set[int] = field(default_factory=set[int])


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(SessionState)


def encode(state: SessionState) -> bytes:
    """Return the state as bytes."""
    return bytes([VERSION]) + _ENCODER.encode(state)


def decode(data: bytes) -> SessionState:
    """Return the state in the bytes. Raises StreamError where they are damaged or of another version."""
    if data[:1] != bytes([VERSION]):
        what = f"a session's state has version {data[0] if data else 'none'}, not {VERSION}"
        raise StreamError("TRL701", what, _HINT)
    try:
        return _DECODER.decode(data[1:])
    except msgspec.MsgspecError:
        raise StreamError("TRL701", "a session's state is damaged", _HINT) from None
