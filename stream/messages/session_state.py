"""The state of one open session, and its documented codec.

A state is one byte, the version, and a MessagePack map. `session` is
`schemas.sessions.stored_assembly.StoredAssembly` field by field; the other keys are the fields of
`JudgingState`, with `applied_in` for `occurrence`. Keys are field names, so a release that adds a field with
a default reads old states; one that changes the meaning of a field raises `VERSION`. A page
(`schemas.paged.page`) is stored as its bytes, or by itself: then the state has the number of its place among
the places in the record.

In states of versions 1 to 3 `session` is `earlier_session.EarlierSession`, which has no pages. Those of
version 1 have `rows`, the labelled events of the open occurrence by column, in place of `carried`; those of
version 2 have no pages of slices. A state has `followed` only where a chain follows the session; it has a
version of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from ...predict.following.live.followed_session import FollowedSession
from ...rules.incremental.carried import Carried
from ...schemas.paged.page import PagePlace, StatePage, page_of, stored_page
from ...schemas.sessions.assemble import SessionAssembler
from ...schemas.sessions.stored_assembly import StoredAssembly, restored_assembly, stored_assembly
from ..error import StreamError
from .earlier_session import EarlierSession, session_of

VERSION = 4
EARLIER_VERSIONS = (1, 2, 3)

Columns: TypeAlias = dict[str, list[int | str | bool | None]]
"""Rows by column: those of `rules.engine.judge.JUDGED_COLUMNS` and of the labeler, times as nanoseconds."""

OTHER_RELEASE = "finish the sessions with the release that wrote them, or start with an empty store"


class JudgingState(msgspec.Struct, frozen=True):
    """The judging of a session up to its last event: a rule set's judge returns a new one after each batch.

    `rules` is the key of the rule set (`RuleSetJudge.key`), `occurrence` that of the last event, and
    `carried` continues the judging of the open occurrence. A state of the release before has `rows` instead,
    until the next event is judged. `followed` continues the following of its risks, None where it began
    without a chain.
    """

    rules: str = ""
    occurrence: int = 0
    carried: Carried | None = None
    rows: Columns = {}
    followed: FollowedSession | None = None


@dataclass(slots=True)
class SessionState:
    """A session being assembled, and its judging; the session changes in place."""

    session: SessionAssembler
    judging: JudgingState = field(default_factory=JudgingState)


class _StoredState(msgspec.Struct, omit_defaults=True):
    """The stored form of a session's state."""

    session: StoredAssembly
    rules: str = ""
    rows: Columns = {}
    applied_in: int = 0
    carried: Carried | None = None
    followed: FollowedSession | None = None


class _EarlierState(msgspec.Struct):
    """The stored form of an earlier release."""

    session: EarlierSession
    rules: str = ""
    rows: Columns = {}
    applied_in: int = 0
    carried: Carried | None = None


_ENCODER = msgspec.msgpack.Encoder(enc_hook=stored_page)
_PLACES = msgspec.msgpack.Decoder(tuple[PagePlace, ...])


def _byte(version: int) -> bytes:
    return bytes([version])


def encode(state: SessionState) -> bytes:
    """Return the state as bytes, with all pages."""
    return _byte(VERSION) + _ENCODER.encode(_stored(state))


def encode_with_places(state: SessionState) -> tuple[bytes, list[PagePlace]]:
    """Return the state as bytes, without the pages that are stored by themselves, and their places."""
    places: list[PagePlace] = []

    def stored(page: Any) -> int | bytes:
        assert isinstance(page, StatePage)
        if page.place is None:
            return page.data
        places.append(page.place)
        return len(places) - 1

    return _byte(VERSION) + msgspec.msgpack.encode(_stored(state), enc_hook=stored), places


def pages_of(state: SessionState) -> Iterator[StatePage[Any]]:
    """Yield the pages of a state that may be stored by themselves."""
    yield from state.session.held.pages
    yield from state.session.pages
    if state.judging.carried is not None:
        yield from state.judging.carried.sliced.pages
    if state.judging.followed is not None:
        yield from state.judging.followed.sliced.pages


def store_pages(
    state: SessionState, offset: int, pack: Callable[[bytes], bytes], bytes_max: int
) -> list[tuple[PagePlace, bytes]]:
    """Return the pages that are to be stored by themselves from now on, packed, with their places.

    Each has at most `bytes_max` bytes. Their places have that offset.
    """
    new: list[tuple[PagePlace, bytes]] = []
    state.session.make_pages()
    for page in pages_of(state):
        if page.place is None and len(data := pack(page.data)) <= bytes_max:
            new.append((PagePlace(offset, len(new), zlib.crc32(data)), data))
            page.store(new[-1][0])
    return new


def _stored(state: SessionState) -> _StoredState:
    judging, session = state.judging, stored_assembly(state.session)
    judged = judging.rules, judging.rows, judging.occurrence, judging.carried
    return _StoredState(session, *judged, judging.followed)


def decode(data: bytes, pages: Sequence[tuple[PagePlace, bytes]] = ()) -> SessionState:
    """Return the state in the bytes; `pages` are those that are stored by themselves.

    Raises StreamError where the bytes are damaged or of another version.
    """
    version = data[0] if data else None
    if version not in (*EARLIER_VERSIONS, VERSION):
        problem = f"a session's state has version {'none' if version is None else version}, not {VERSION}"
        raise StreamError("TRL701", problem, OTHER_RELEASE)

    kind = _StoredState if version == VERSION else _EarlierState
    try:
        stored = msgspec.msgpack.decode(data[1:], type=kind, dec_hook=_with_pages(pages))
        if stored.carried is not None:
            stored.carried.sliced.check()
        if isinstance(stored, _StoredState) and stored.followed is not None:
            stored.followed.sliced.check()
        is_earlier = isinstance(stored, _EarlierState)
        session = session_of(stored.session) if is_earlier else restored_assembly(stored.session)
    except (msgspec.MsgspecError, IndexError):
        raise StreamError("TRL701", "a session's state is damaged", OTHER_RELEASE) from None
    followed = None if isinstance(stored, _EarlierState) else stored.followed
    judging = JudgingState(stored.rules, stored.applied_in, stored.carried, stored.rows, followed)
    return SessionState(session, judging)


class _FollowedState(msgspec.Struct):
    """The part of a stored state that following its risks continues from."""

    followed: FollowedSession | None = None


def followed_in(data: bytes, pages: Sequence[tuple[PagePlace, bytes]] = ()) -> FollowedSession | None:
    """Return the state of a session as its risks are followed, None where they are not.

    Raises msgspec.MsgspecError or IndexError where the bytes are damaged.
    """
    return msgspec.msgpack.decode(data[1:], type=_FollowedState, dec_hook=_with_pages(pages)).followed


def encode_places(places: Sequence[PagePlace]) -> bytes:
    """Return the places of a state's pages as bytes, none where there are none."""
    return msgspec.msgpack.encode(places) if places else b""


def decode_places(data: bytes) -> tuple[PagePlace, ...]:
    """Return the places in the bytes. Raises msgspec.MsgspecError where they are damaged."""
    return _PLACES.decode(data) if data else ()


def _with_pages(pages: Sequence[tuple[PagePlace, bytes]]) -> Callable[[type, Any], StatePage[Any]]:
    """Return the `dec_hook` of a state, some of whose pages are stored by themselves."""

    def page(kind: type, stored: Any) -> StatePage[Any]:
        if not isinstance(stored, int):
            return page_of(kind, stored)
        place, stored = pages[stored]
        return page_of(kind, stored, place)

    return page
