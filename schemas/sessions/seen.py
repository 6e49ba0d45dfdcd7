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


def seen_message(told: Iterable[SeenClaims], candidate: Candidate, telling: Claim) -> SeenMessage | None:
    """Who told this message before, if this call retries that one, runs beside it, or tells its history.

    All before the message is equal then, too. Where that holds no answer yet, a customer may have said the
    same twice: only a call that overlaps the earlier one, or comes after it failed, repeats it.
    """
    for one in told if telling.key else ():
        before = one.messages.get(telling.key)
        if before is not None:
            overlaps = candidate.start < before.end and before.start < candidate.end
            return before if telling.past or telling.answered or overlaps or before.failed else None
    return None


def claim_use(
    told: Sequence[SeenClaims], telling: Claim, candidate: Candidate, key: str
) -> tuple[int | None, ToolUse]:
    """Join a call or a result to the use of a tool that it belongs to; `told` has the open occurrence first.

    Return the time of the event that says the same already, None where there is none, and the use.
    """
    claim = claimed_use(telling, candidate, key)
    newest = told[0].uses
    known = newest if len(told) == 1 else [use for one in told for use in one.uses]
    use = matching_use(known, claim, telling.kind)
    if use is None:
        use = claim
        newest.append(use)
        if len(newest) > WAITING_MAX:
            del newest[0]
    else:
        join(use, claim)
    if telling.kind is Kind.TOOL_CALL:
        before = use.called
        if before is None:
            use.called, use.nested, use.known = telling.time, candidate.nested, max(use.known, candidate.end)
    else:
        before = use.returned
        use.returned = telling.time if before is None else before
    if use.is_complete:
        for one in told:
            one.uses = [other for other in one.uses if other is not use]
    return before, use


def expect(told: Sequence[SeenClaims], telling: Claim) -> None:
    """Let a call with an id wait for its result; of more than `WAITING_MAX` the oldest is given up."""
    call_id, tool, args = telling.call_id or "", telling.tool or "", telling.args
    if len(call_id) + len(tool) > NAME_CHARS_MAX:
        return
    # One character more says that they are longer.
    told[-1].calls[call_id] = telling.tool, None if args is None else args[: CARRIED_CHARS_MAX + 1]
    if sum(len(one.calls) for one in told) > WAITING_MAX:
        oldest = next(one.calls for one in told if one.calls)
        del oldest[next(iter(oldest))]


def answering(told: Iterable[SeenClaims], telling: Claim) -> Claim:
    """A result with the tool and the arguments of its call, where it lacks them and the call is known.

    Arguments beyond `CARRIED_CHARS_MAX` are not carried, and called absent.
    """
    if telling.kind is not Kind.TOOL_RESULT or (telling.tool is not None and telling.args is not None):
        return telling
    for one in told:
        if telling.call_id not in one.calls:
            continue
        tool, args = one.calls[telling.call_id]
        if telling.tool is not None and telling.tool != tool:
            continue
        if telling.args is None and args is not None and len(args) > CARRIED_CHARS_MAX:
            content = Content.ABSENT if telling.content is Content.CAPTURED else telling.content
            return msgspec.structs.replace(telling, tool=tool, content=content)
        args = telling.args if telling.args is not None else args
        return msgspec.structs.replace(telling, tool=tool, args=args)
    return telling


def of_its_call(
    told: Sequence[SeenClaims], use: ToolUse, telling: Claim, candidate: Candidate
) -> tuple[Claim, Candidate]:
    """Return a result with the id, tool and arguments of its call where it lacks them, and its `nested`.

    Where a name has the tool's plugin before it, the call's name is taken.

    What a span says that ends after the result's is not taken: it may not have come yet.
    """
    if telling.kind is not Kind.TOOL_RESULT or use.known > candidate.end:
        return telling, candidate
    if use.called is not None and use.nested != candidate.nested:
        candidate = msgspec.structs.replace(candidate, nested=use.nested)
    if telling.call_id is None or (is_item(use.call_id) and not is_item(telling.call_id)):
        # The id of an item is all that was known when the call was judged.
        call_id = _whole(use.call_id)
        telling = answering(told, msgspec.structs.replace(telling, call_id=call_id))
    if telling.tool is not None and use.tool is not None and is_qualified(telling.tool, use.tool):
        telling = msgspec.structs.replace(telling, tool=use.tool)
    if telling.tool is None or telling.args is None:
        tool = _whole(use.tool) if telling.tool is None else telling.tool
        args = _whole(use.args) if telling.args is None else telling.args
        telling = msgspec.structs.replace(telling, tool=tool, args=args)
    return telling, candidate


def _whole(text: str | None) -> str | None:
    """Return a text that is remembered whole."""
    return text if text is not None and is_whole(text) else None


def _note(uses: list[ToolUse], waiting: WaitingClaim) -> None:
    """Add what an earlier release stored of a call or a result whose event it had judged."""
    claim = ToolUse(_stored(waiting.call_id), _stored(waiting.tool), _stored(waiting.args))
    claim.lacks_id = claim.call_id is None
    is_call = waiting.kind is Kind.TOOL_CALL
    if not waiting.by_model:
        claim.run, claim.began, claim.ended = UNLINKED, waiting.time, waiting.time
        claim.is_ended = not is_call
    elif is_call:
        claim.since = claim.asked = waiting.time
    else:
        claim.answered = waiting.time
    use = matching_use(uses, claim, waiting.kind)
    if use is None:
        uses.append(use := claim)
    else:
        join(use, claim)
    if is_call:
        use.called = waiting.time
    else:
        use.returned = waiting.time


def _stored(text: str | None) -> str | None:
    """Return a text that an earlier release stored, None where it stored the digest of a long one."""
    if text is None or (len(text) == _STORED_DIGEST_CHARS and not text.strip("0123456789abcdef")):
        return None
    return brief(text)
