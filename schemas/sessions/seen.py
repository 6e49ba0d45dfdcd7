"""The claims that a session has seen, by which repeated ones are recognised (session assembly, stage b)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from ..candidate import Candidate, Claim
from ..event import Content, Kind
from .claimed_text import brief, is_whole
from .tool_use import UNLINKED, ToolUse, claimed_use, is_item, is_qualified, join, matching_use

WAITING_MAX = 1_000
"""Tool uses of an occurrence that may still get claims, and open calls; beyond it the oldest is dropped."""

REMEMBERED_MAX = 50_000
"""Spans, messages, open calls and distinct events that are remembered of an occurrence, of each so many.

Beyond it a repeated claim counts as new; the occurrence's rules are unjudged by then
(`rules.engine.kernel.EVENTS_MAX`). Closed occurrences are forgotten beyond the same number of entries in all,
and beyond `CLOSED_MAX` occurrences.
"""
CLOSED_MAX = 1_000
CARRIED_CHARS_MAX = 30_000
"""Characters of a call's arguments that its result carries: an event then fits where its span did."""
NAME_CHARS_MAX = 1_000
"""Characters of a call's id and tool together beyond which the call is not remembered for its result."""
_STORED_DIGEST_CHARS = 64


@dataclass(slots=True)
class SeenMessage:
    """The last span with a message: its start and end and whether it failed; and the time of the event."""

    start: int
    end: int
    failed: bool
    time: int


@dataclass(slots=True)
class WaitingClaim:
    """A call or a result with claims of one side only, as earlier releases stored it."""

    by_model: bool
    kind: Kind
    call_id: str | None
    tool: str | None
    args: str | None
    time: int


@dataclass(slots=True)
class SeenClaims:
    """The claims that an occurrence of a session has seen; `closed` is when it closed, None while open.

    `spans` are the keys of the spans with its claims, `within` the keys of the spans that these cover,
    `messages` the last span with each message, by the message's key, `calls` the tool and arguments of each
    open call, by its id. `uses` are the tool uses that may still get claims. `waiting` is what earlier
    releases stored instead of `uses`, and is empty after `__post_init__`.
    """

    closed: int | None = None
    spans: set[str] = field(default_factory=set[str])
    within: set[str] = field(default_factory=set[str])
    messages: dict[str, SeenMessage] = field(default_factory=dict[str, SeenMessage])
    waiting: list[WaitingClaim] = field(default_factory=list[WaitingClaim])
    calls: dict[str, tuple[str | None, str | None]] = field(
        default_factory=dict[str, tuple[str | None, str | None]]
    )
    uses: list[ToolUse] = field(default_factory=list[ToolUse])

    def __post_init__(self) -> None:
        """Read what an earlier release stored."""
        for waiting in self.waiting:
            _restore(self.uses, waiting)
        self.waiting = []

    @property
    def size(self) -> int:
        """Return the number of remembered entries."""
        return len(self.spans) + len(self.within) + len(self.messages) + len(self.uses)


def seen_message(seen: Iterable[SeenClaims], candidate: Candidate, claim: Claim) -> SeenMessage | None:
    """Return the last span with this message, if the call retries it, runs beside it, or has it as history.

    All messages before it are equal then, too. Where no answer is among them, a customer may have written the
    same text twice: then only a call that overlaps the earlier one, or follows its failure, repeats it.
    """
    for occurrence in seen if claim.key else ():
        before = occurrence.messages.get(claim.key)
        if before is not None:
            overlaps = candidate.start < before.end and before.start < candidate.end
            return before if claim.past or claim.answered or overlaps or before.failed else None
    return None


def claim_use(
    seen: Sequence[SeenClaims], claim: Claim, candidate: Candidate, key: str
) -> tuple[int | None, ToolUse]:
    """Join a call or a result to its tool use; `seen` has the open occurrence first.

    Return the time of the event that already states it, None where there is none, and the use.
    """
    claimed = claimed_use(claim, candidate, key)
    newest = seen[0].uses
    known = newest if len(seen) == 1 else [use for occurrence in seen for use in occurrence.uses]
    use = matching_use(known, claimed, claim.kind)
    if use is None:
        use = claimed
        newest.append(use)
        if len(newest) > WAITING_MAX:
            del newest[0]
    else:
        join(use, claimed)
    if claim.kind is Kind.TOOL_CALL:
        before = use.called
        if before is None:
            use.called, use.nested, use.known = claim.time, candidate.nested, max(use.known, candidate.end)
    else:
        before = use.returned
        use.returned = claim.time if before is None else before
    if use.is_complete:
        for occurrence in seen:
            occurrence.uses = [known for known in occurrence.uses if known is not use]
    return before, use


def remember_call(seen: Sequence[SeenClaims], claim: Claim) -> None:
    """Remember an open call with an id for its result; beyond `WAITING_MAX` drop the oldest."""
    call_id, tool, args = claim.call_id or "", claim.tool or "", claim.args
    if len(call_id) + len(tool) > NAME_CHARS_MAX:
        return
    # One character more shows that the arguments are longer.
    seen[-1].calls[call_id] = claim.tool, None if args is None else args[: CARRIED_CHARS_MAX + 1]
    if sum(len(occurrence.calls) for occurrence in seen) > WAITING_MAX:
        oldest = next(occurrence.calls for occurrence in seen if occurrence.calls)
        del oldest[next(iter(oldest))]


def completed_by_call(seen: Iterable[SeenClaims], claim: Claim) -> Claim:
    """Return a result with the tool and the arguments of its call, where it lacks them and the call is known.

    Arguments beyond `CARRIED_CHARS_MAX` are left out, and the content is then absent.
    """
    if claim.kind is not Kind.TOOL_RESULT or (claim.tool is not None and claim.args is not None):
        return claim
    for occurrence in seen:
        if claim.call_id not in occurrence.calls:
            continue
        tool, args = occurrence.calls[claim.call_id]
        if claim.tool is not None and claim.tool != tool:
            continue
        if claim.args is None and args is not None and len(args) > CARRIED_CHARS_MAX:
            content = Content.ABSENT if claim.content is Content.CAPTURED else claim.content
            return msgspec.structs.replace(claim, tool=tool, content=content)
        args = claim.args if claim.args is not None else args
        return msgspec.structs.replace(claim, tool=tool, args=args)
    return claim


def completed_by_use(
    seen: Sequence[SeenClaims], use: ToolUse, claim: Claim, candidate: Candidate
) -> tuple[Claim, Candidate]:
    """Return a result with the id, tool and arguments of its call where it lacks them, and its `nested`.

    The call's name replaces a name with the tool's plugin before it. Nothing is taken from a span that ends
    after the result's, since it may not have come yet.
    """
    if claim.kind is not Kind.TOOL_RESULT or use.known > candidate.end:
        return claim, candidate
    if use.called is not None and use.nested != candidate.nested:
        candidate = msgspec.structs.replace(candidate, nested=use.nested)
    if claim.call_id is None or (is_item(use.call_id) and not is_item(claim.call_id)):
        # Only the id of an item was known when the call was judged.
        call_id = _whole(use.call_id)
        claim = completed_by_call(seen, msgspec.structs.replace(claim, call_id=call_id))
    if claim.tool is not None and use.tool is not None and is_qualified(claim.tool, use.tool):
        claim = msgspec.structs.replace(claim, tool=use.tool)
    if claim.tool is None or claim.args is None:
        tool = _whole(use.tool) if claim.tool is None else claim.tool
        args = _whole(use.args) if claim.args is None else claim.args
        claim = msgspec.structs.replace(claim, tool=tool, args=args)
    return claim, candidate


def _whole(text: str | None) -> str | None:
    """Return a text that is remembered whole, None for a shortened one."""
    return text if text is not None and is_whole(text) else None


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
