"""Session assembly of plain sessions: what `SessionAssembler.advance` does, for claims at hand in order."""

from __future__ import annotations

from collections.abc import Sequence

from ..event import Event, Kind
from ..sessions.assemble import SessionAssembler
from ..sessions.memory.seen import is_repeated
from ..sessions.memory.seen_page import SeenMessage
from ..time import NS_MIN
from .ready import PlainClaim, ready_claims
from .uses import joined

_CALL, _RESULT = Kind.TOOL_CALL, Kind.TOOL_RESULT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""


def advanced(session: SessionAssembler, watermark: int, before: int = NS_MIN) -> list[Event]:
    """Return the events that `session.advance` returns, and leave the session as that does.

    `before` is the watermark before the last candidates came.
    """
    ready = ready_claims(session, watermark)
    if ready is None:
        return session.advance(watermark, before=before)
    session.before = before
    events = _events(session, ready.claims) if ready.claims else []
    if ready.spans:
        session.leave(ready.spans)
    now = session.open
    if now is not None and watermark > now.last_time + session.idle:
        events += session.advance(watermark, before=before)
    return events


def _events(session: SessionAssembler, claims: Sequence[PlainClaim]) -> list[Event]:
    """Return the events of claims; those that repeat others are counted."""
    seen = session.seen[0]
    recent, older = seen.recent.messages, seen.older
    events: list[Event] = []
    for place, claim, key, candidate in claims:
        name, time, last, before = claim.key, claim.time, None, None
        if name and (last := recent.get(name)) is None and older:
            last = seen.message(name)
        if last is not None and is_repeated(last, candidate, claim):
            before = last.time
        elif claim.kind is _CALL or claim.kind is _RESULT:
            before, claim, candidate = joined(seen, claim, candidate, key)
        if before is None:
            before = time
            events.append(session.judge(claim, key, candidate, place))
        else:
            session.repeats += 1
            session.late += time < before
        if name:
            message = SeenMessage(candidate.start, candidate.end, candidate.failed, before)
            seen.add_message(name, message, is_new=last is None)
    return events
