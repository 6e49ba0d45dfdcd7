"""The state of one open session, and its documented codec.

A state is one byte, the version, and a MessagePack map. `session` is
`schemas.sessions.assemble.SessionAssembler` field by field; the other keys are the fields of `JudgingState`,
with `applied_in` for `occurrence`. Keys are field names, so a release that adds a field with a default reads
old states; one that changes the meaning of a field raises `VERSION`. States of version 1 have `rows`, the
labelled events of the open occurrence by column, in place of `carried`; those of version 2 have no pages of
slices. A page (`rules.incremental.carried_slices`) is stored as its bytes, or by itself: then the state has
the number of its place among the places in the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from ...rules.incremental.carried import Carried, page_of, stored_page
from ...rules.incremental.carried_slices import PagePlace, SlicePage
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
    """Return the state as bytes, with all pages of slices."""
    return _byte(VERSION) + _ENCODER.encode(_stored(state))


def encode_with_places(state: SessionState) -> tuple[bytes, list[PagePlace]]:
    """Return the state as bytes, without the pages that are stored by themselves, and their places."""
    places: list[PagePlace] = []

    def stored(page: Any) -> int | bytes:
        assert isinstance(page, SlicePage)
        if page.place is None:
            return page.data
        places.append(page.place)
        return len(places) - 1

    return _byte(VERSION) + msgspec.msgpack.encode(_stored(state), enc_hook=stored), places


def pages_of(state: SessionState) -> Sequence[SlicePage]:
    """Return the pages of a state that may be stored by themselves."""
    carried = state.judging.carried
    return () if carried is None else carried.sliced.pages


def _stored(state: SessionState) -> _StoredState:
    judging = state.judging
    return _StoredState(state.session, judging.rules, judging.rows, judging.occurrence, judging.carried)


def decode(data: bytes, pages: Sequence[SlicePage] = ()) -> SessionState:
    """Return the state in the bytes; `pages` are those that are stored by themselves.

    Raises StreamError where the bytes are damaged or of another version.
    """
    if data[:1] not in map(_byte, VERSIONS_READ):
        problem = f"a session's state has version {data[0] if data else 'none'}, not {VERSION}"
        raise StreamError("TRL701", problem, OTHER_RELEASE)

    def page(kind: type, stored: Any) -> SlicePage:
        return pages[stored] if isinstance(stored, int) else page_of(kind, stored)

    decoder = msgspec.msgpack.Decoder(_StoredState, dec_hook=page) if pages else _DECODER
    try:
        stored = decoder.decode(data[1:])
        if stored.carried is not None:
            stored.carried.sliced.check()
    except (msgspec.MsgspecError, IndexError):
        raise StreamError("TRL701", "a session's state is damaged", OTHER_RELEASE) from None
    judging = JudgingState(stored.rules, stored.applied_in, stored.carried, stored.rows)
    return SessionState(stored.session, judging)
