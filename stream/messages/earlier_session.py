"""Sessions in assembly as states of versions 1 to 3 have them: with all that they saw, in one record."""

from __future__ import annotations

import msgspec

from ...schemas.candidate import Candidate
from ...schemas.event import Kind
from ...schemas.sessions.assemble import OpenOccurrence, SessionAssembler
from ...schemas.sessions.awaited import Awaited
from ...schemas.sessions.memory.claimed_text import brief
from ...schemas.sessions.memory.held import HeldCandidates
from ...schemas.sessions.memory.seen import SeenClaims, SeenCounts
from ...schemas.sessions.memory.seen_page import SeenCall, SeenEntries, SeenMessage
from ...schemas.sessions.memory.tool_use import UNLINKED, ToolUse, join, matching_use

_STORED_DIGEST_CHARS = 64


class WaitingClaim(msgspec.Struct):
    """A call or a result with claims of one side only, as releases before tool uses stored it."""

    by_model: bool
    kind: Kind
    call_id: str | None
    tool: str | None
    args: str | None
    time: int


class EarlierMessage(msgspec.Struct):
    """The earlier form of `SeenMessage`."""

    start: int
    end: int
    failed: bool
    time: int


class EarlierSeen(msgspec.Struct):
    """The earlier form of `SeenClaims`."""

    closed: int | None = None
    spans: list[str] = []
    within: list[str] = []
    messages: dict[str, EarlierMessage] = {}
    waiting: list[WaitingClaim] = []
    calls: dict[str, tuple[str | None, str | None]] = {}
    uses: list[ToolUse] = []


class EarlierOpen(msgspec.Struct):
    """The earlier form of `OpenOccurrence`, with the numbers of events with equal content."""

    time: int
    last_time: int
    last: tuple[int, int, int, int, str]
    seq: int = 0
    equals: dict[str, int] = {}
    caller: str | None = None


class EarlierSession(msgspec.Struct, rename={"seen": "told"}):
    """The earlier form of `SessionAssembler`."""

    session_id: str
    idle: int
    held: dict[str, Candidate] = {}
    open: EarlierOpen | None = None
    seen: list[EarlierSeen] = msgspec.field(default_factory=lambda: [EarlierSeen()])
    begun: int | None = None
    repeats: int = 0
    late: int = 0
    stray_ends: int = 0
    taken: dict[str, int] = {}
    awaited: list[Awaited] = []


def session_of(earlier: EarlierSession) -> SessionAssembler:
    """Return the session that an earlier release stored."""
    occurrence, equals = None, dict[str, int]()
    if (before := earlier.open) is not None:
        equals = before.equals
        occurrence = OpenOccurrence(before.time, before.last_time, before.last, before.seq, before.caller)
    last = len(earlier.seen) - 1
    return SessionAssembler(
        earlier.session_id,
        earlier.idle,
        HeldCandidates(earlier.held),
        occurrence,
        [_seen(number, each, equals if number == last else {}) for number, each in enumerate(earlier.seen)],
        (),
        earlier.begun,
        earlier.repeats,
        earlier.late,
        earlier.stray_ends,
        earlier.taken,
        earlier.awaited,
    )


def _seen(number: int, earlier: EarlierSeen, equals: dict[str, int]) -> SeenClaims:
    uses = earlier.uses
    for waiting in earlier.waiting:
        _restore(uses, waiting)
    for place, use in enumerate(uses):
        use.number = place
    entries = SeenEntries(
        dict.fromkeys(earlier.spans),
        dict.fromkeys(earlier.within),
        {
            key: SeenMessage(each.start, each.end, each.failed, each.time)
            for key, each in earlier.messages.items()
        },
        equals,
        {
            call_id: SeenCall(place, tool, args)
            for place, (call_id, (tool, args)) in enumerate(earlier.calls.items())
        },
        dict(enumerate(uses)),
    )
    counts = SeenCounts(len(entries.spans), len(entries.within), len(entries.messages), len(equals))
    return SeenClaims(number, earlier.closed, counts, entries)


def _restore(uses: list[ToolUse], waiting: WaitingClaim) -> None:
    """Add what an earlier release stored of a call or a result with a judged event."""
    claimed = ToolUse(_stored(waiting.call_id), _stored(waiting.tool), _stored(waiting.args))
    claimed.lacks_id = claimed.call_id is None
    is_call = waiting.kind is Kind.TOOL_CALL
    if not waiting.by_model:
        claimed.run, claimed.began, claimed.ended = UNLINKED, waiting.time, waiting.time
        claimed.is_ended = not is_call
    elif is_call:
        claimed.since = claimed.asked = waiting.time
    else:
        claimed.answered = waiting.time
    use = matching_use(uses, claimed, waiting.kind)
    if use is None:
        uses.append(use := claimed)
    else:
        join(use, claimed)
    if is_call:
        use.called = waiting.time
    else:
        use.returned = waiting.time


def _stored(text: str | None) -> str | None:
    """Return a text that an earlier release stored, None where it stored the digest of a long one."""
    if text is None or (len(text) == _STORED_DIGEST_CHARS and not text.strip("0123456789abcdef")):
        return None
    return brief(text)
