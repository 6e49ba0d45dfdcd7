"""What a session has been told, so that whoever tells it again is known (session assembly, stage b)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from ..candidate import Candidate, Claim
from ..event import Content, Kind
from .claimed_text import brief, is_whole
from .tool_use import UNLINKED, ToolUse, claimed_use, is_item, is_qualified, join, matching_use

WAITING_MAX = 1_000
"""Uses of tools of an occurrence that spans may still claim, and open calls; the oldest is given up."""

REMEMBERED_MAX = 50_000
"""Spans, messages, open calls and distinct events that are remembered of an occurrence, of each so many.

What is told again beyond that is taken for new; its rules are unjudged by then
(`rules.engine.kernel.EVENTS_MAX`).
What closed occurrences told is forgotten beyond as much in all, and beyond `CLOSED_MAX` of them.
"""
CLOSED_MAX = 1_000
CARRIED_CHARS_MAX = 30_000
"""Characters of a call's arguments that its result carries: an event then fits where its span did."""
NAME_CHARS_MAX = 1_000
"""Characters of a call's id and tool together beyond which it is not remembered for its result."""
_STORED_DIGEST_CHARS = 64


@dataclass(slots=True)
class SeenMessage:
    """The span that last told a message: when it ran, whether it failed; and the time of the event."""

    start: int
    end: int
    failed: bool
    time: int


@dataclass(slots=True)
class WaitingClaim:
    """A call or a result that only one side had claimed, as earlier releases stored it."""

    by_model: bool
    kind: Kind
    call_id: str | None
    tool: str | None
    args: str | None
    time: int


@dataclass(slots=True)
class SeenClaims:
    """What one occurrence of a session was told; `closed` is when it closed, None while it is open.

    `spans` are the digests of the spans that told it, `within` the spans that need not tell it any more,
    `messages` who last told each message of a model's call, `calls` the tool and arguments of each call
    that was not answered, by its id. `uses` are the uses of tools that a span may still claim. `waiting`
    holds what earlier releases stored instead of `uses`, and is empty once it was read.
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
        for one in self.waiting:
            _note(self.uses, one)
        self.waiting = []

    @property
    def size(self) -> int:
        """Return how much is remembered."""
        return len(self.spans) + len(self.within) + len(self.messages) + len(self.uses)


def seen_message(told: Iterable[SeenClaims], candidate: Candidate, claim: Claim) -> SeenMessage | None:
    """Who told this message before, if this call retries that one, runs beside it, or tells its history.

    All before the message is equal then, too. Where that holds no answer yet, a customer may have said the
    same twice: only a call that overlaps the earlier one, or comes after it failed, repeats it.
    """
    for one in told if claim.key else ():
        before = one.messages.get(claim.key)
        if before is not None:
            overlaps = candidate.start < before.end and before.start < candidate.end
            return before if claim.past or claim.answered or overlaps or before.failed else None
    return None


def claim_use(
    told: Sequence[SeenClaims], claim: Claim, candidate: Candidate, key: str
) -> tuple[int | None, ToolUse]:
    """Join a call or a result to the use of a tool that it belongs to; `told` has the open occurrence first.

    Return the time of the event that says the same already, None where there is none, and the use.
    """
    claimed = claimed_use(claim, candidate, key)
    newest = told[0].uses
    known = newest if len(told) == 1 else [use for one in told for use in one.uses]
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
        for one in told:
            one.uses = [other for other in one.uses if other is not use]
    return before, use


def expect(told: Sequence[SeenClaims], claim: Claim) -> None:
    """Let a call with an id wait for its result; of more than `WAITING_MAX` the oldest is given up."""
    call_id, tool, args = claim.call_id or "", claim.tool or "", claim.args
    if len(call_id) + len(tool) > NAME_CHARS_MAX:
        return
    # One character more says that they are longer.
    told[-1].calls[call_id] = claim.tool, None if args is None else args[: CARRIED_CHARS_MAX + 1]
    if sum(len(one.calls) for one in told) > WAITING_MAX:
        oldest = next(one.calls for one in told if one.calls)
        del oldest[next(iter(oldest))]


def answering(told: Iterable[SeenClaims], claim: Claim) -> Claim:
    """Return a result with the tool and the arguments of its call, where it lacks them and the call is known.

    Arguments beyond `CARRIED_CHARS_MAX` are not carried, and called absent.
    """
    if claim.kind is not Kind.TOOL_RESULT or (claim.tool is not None and claim.args is not None):
        return claim
    for one in told:
        if claim.call_id not in one.calls:
            continue
        tool, args = one.calls[claim.call_id]
        if claim.tool is not None and claim.tool != tool:
            continue
        if claim.args is None and args is not None and len(args) > CARRIED_CHARS_MAX:
            content = Content.ABSENT if claim.content is Content.CAPTURED else claim.content
            return msgspec.structs.replace(claim, tool=tool, content=content)
        args = claim.args if claim.args is not None else args
        return msgspec.structs.replace(claim, tool=tool, args=args)
    return claim


def of_its_call(
    told: Sequence[SeenClaims], use: ToolUse, claim: Claim, candidate: Candidate
) -> tuple[Claim, Candidate]:
    """Return a result with the id, tool and arguments of its call where it lacks them, and its `nested`.

    Where a name has the tool's plugin before it, the call's name is taken.

    What a span says that ends after the result's is not taken: it may not have come yet.
    """
    if claim.kind is not Kind.TOOL_RESULT or use.known > candidate.end:
        return claim, candidate
    if use.called is not None and use.nested != candidate.nested:
        candidate = msgspec.structs.replace(candidate, nested=use.nested)
    if claim.call_id is None or (is_item(use.call_id) and not is_item(claim.call_id)):
        # The id of an item is all that was known when the call was judged.
        call_id = _whole(use.call_id)
        claim = answering(told, msgspec.structs.replace(claim, call_id=call_id))
    if claim.tool is not None and use.tool is not None and is_qualified(claim.tool, use.tool):
        claim = msgspec.structs.replace(claim, tool=use.tool)
    if claim.tool is None or claim.args is None:
        tool = _whole(use.tool) if claim.tool is None else claim.tool
        args = _whole(use.args) if claim.args is None else claim.args
        claim = msgspec.structs.replace(claim, tool=tool, args=args)
    return claim, candidate


def _whole(text: str | None) -> str | None:
    """Return a text that is remembered whole."""
    return text if text is not None and is_whole(text) else None


def _note(uses: list[ToolUse], waiting: WaitingClaim) -> None:
    """Add what an earlier release stored of a call or a result whose event it had judged."""
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
