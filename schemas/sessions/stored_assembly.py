"""The stored form of a session in assembly.

The record has what is bounded however long the session is, the latest entries, and the pages.
"""

from __future__ import annotations

import msgspec

from .assemble import OpenOccurrence, SessionAssembler
from .awaited import Awaited
from .memory.held import HeldCandidates, StoredHeld
from .memory.seen import SeenClaims, SeenCounts
from .memory.seen_page import SeenEntries, SeenPage


class StoredSeen(msgspec.Struct, array_like=True):
    """The stored form of `SeenClaims`, without the entries in pages."""

    number: int
    closed: int | None
    counts: SeenCounts
    recent: SeenEntries | None = None


class StoredAssembly(msgspec.Struct, omit_defaults=True):
    """The stored form of `SessionAssembler`."""

    session_id: str
    idle: int
    held: StoredHeld = msgspec.field(default_factory=StoredHeld)
    open: OpenOccurrence | None = None
    seen: list[StoredSeen] = []
    pages: tuple[SeenPage, ...] = ()
    begun: int | None = None
    repeats: int = 0
    late: int = 0
    stray_ends: int = 0
    taken: dict[str, int] = {}
    awaited: list[Awaited] = []


def stored_assembly(session: SessionAssembler) -> StoredAssembly:
    """Return the stored form of a session."""
    seen = [
        StoredSeen(each.number, each.closed, each.counts, each.recent if each.recent.count else None)
        for each in session.seen
    ]
    return StoredAssembly(
        session.session_id,
        session.idle,
        session.held.stored(),
        session.open,
        seen,
        session.pages,
        session.begun,
        session.repeats,
        session.late,
        session.stray_ends,
        session.taken,
        session.awaited,
    )


def restored_assembly(stored: StoredAssembly) -> SessionAssembler:
    """Return the session of a stored form. Raises MsgspecError or IndexError where a page is damaged."""
    contents = [page.content for page in reversed(stored.pages)]
    seen = [
        SeenClaims(
            each.number,
            each.closed,
            each.counts,
            SeenEntries() if each.recent is None else each.recent,
            [content[each.number] for content in contents if each.number in content],
        )
        for each in stored.seen
    ]
    return SessionAssembler(
        stored.session_id,
        stored.idle,
        HeldCandidates.restored(stored.held),
        stored.open,
        seen,
        stored.pages,
        stored.begun,
        stored.repeats,
        stored.late,
        stored.stray_ends,
        stored.taken,
        stored.awaited,
    )
