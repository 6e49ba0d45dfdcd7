"""What a session has been told, so that whoever tells it again is known (session assembly, stage b)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from .candidate import Candidate, Telling
from .event import Content, Kind, canonical_text

WAITING_MAX = 1_000
"""Calls (and results) of one session that may wait to be told from the other side; the oldest is given up."""

REMEMBERED_MAX = 50_000
"""Spans, messages, open calls and distinct events that are remembered of an occurrence, of each so many.

What is told again beyond that is taken for new; its rules are unjudged by then (`rules.kernel.EVENTS_MAX`).
What closed occurrences told is forgotten beyond as much in all, and beyond `CLOSED_MAX` of them.
"""
CLOSED_MAX = 1_000
CARRIED_CHARS_MAX = 30_000
"""Characters of a call's arguments that its result carries: an event then fits where its span did."""
NAME_CHARS_MAX = 1_000
"""Characters of a call's id and tool together beyond which it is not remembered for its result."""
_SHORT_CHARS = 64


@dataclass(slots=True)
class Teller:
    """The span that last told a message: when it ran, whether it failed; and the time of the event."""

    start: int
    end: int
    failed: bool
    time: int


@dataclass(slots=True)
class Waiting:
    """A call or a result that one side told, the model's or the tool's, and the other has not yet."""

    by_model: bool
    kind: Kind
    call_id: str | None
    tool: str | None
    args: str | None
    time: int


@dataclass(slots=True)
class Told:
    """What one occurrence of a session was told; `closed` is when it closed, None while it is open.

    `spans` are the digests of the spans that told it, `within` the spans that need not tell it any more,
    `messages` who last told each message of a model's call, `calls` the tool and arguments of each call
    that was not answered, by its id.
    """

    closed: int | None = None
    spans: set[str] = field(default_factory=set[str])
    within: set[str] = field(default_factory=set[str])
    messages: dict[str, Teller] = field(default_factory=dict[str, Teller])
    waiting: list[Waiting] = field(default_factory=list[Waiting])
    calls: dict[str, tuple[str | None, str | None]] = field(
        default_factory=dict[str, tuple[str | None, str | None]]
    )

    @property
    def size(self) -> int:
        """How much is remembered."""
        return len(self.spans) + len(self.within) + len(self.messages) + len(self.waiting)


def teller_of(told: Iterable[Told], candidate: Candidate, telling: Telling) -> Teller | None:
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


def partner_of(told: Iterable[Told], telling: Telling) -> Waiting | None:
    """The first call or result that the other side told and that is this one; it waits no more.

    They are one by call id and tool, or by tool and arguments where either lacks an id. Where a side lacks
    what is compared (a tool's name, arguments that were not captured) it fits any.
    """
    this = _waiting(telling)
    for one in told:
        for index, other in enumerate(one.waiting):
            if (
                other.by_model is not this.by_model
                and other.kind == this.kind
                and _fits(other.tool, this.tool)
                and (
                    other.call_id == this.call_id
                    if other.call_id is not None and this.call_id is not None
                    else _fits(other.args, this.args)
                )
            ):
                return one.waiting.pop(index)
    return None


def wait(told: Told, telling: Telling) -> None:
    """Let a call or result wait to be told from the other side."""
    told.waiting.append(_waiting(telling))
    if len(told.waiting) > WAITING_MAX:
        del told.waiting[0]


def expect(told: Sequence[Told], telling: Telling) -> None:
    """Let a call with an id wait for its result; of more than `WAITING_MAX` the oldest is given up."""
    call_id, tool, args = telling.call_id or "", telling.tool or "", telling.args
    if len(call_id) + len(tool) > NAME_CHARS_MAX:
        return
    # One character more says that they are longer.
    told[-1].calls[call_id] = telling.tool, None if args is None else args[: CARRIED_CHARS_MAX + 1]
    if sum(len(one.calls) for one in told) > WAITING_MAX:
        oldest = next(one.calls for one in told if one.calls)
        del oldest[next(iter(oldest))]


def answering(told: Iterable[Told], telling: Telling) -> Telling:
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


def _waiting(telling: Telling) -> Waiting:
    args = None if telling.args is None else canonical_text(telling.args)
    names = {"call_id": telling.call_id, "tool": telling.tool, "args": args}
    shortened = {name: _short(text) for name, text in names.items()}
    return Waiting(by_model=telling.place is not None, kind=telling.kind, time=telling.time, **shortened)


def _short(text: str | None) -> str | None:
    """A text, or of a long one its digest: it is only compared."""
    if text is None or len(text) <= _SHORT_CHARS:
        return text
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()


def _fits(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other
