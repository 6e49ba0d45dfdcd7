"""What a session has been told, so that whoever tells it again is known (session assembly, stage b)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .candidate import Candidate, Telling
from .event import Kind, canonical_text

WAITING_MAX = 1_000
"""Calls (and results) of one session that may wait to be told from the other side; the oldest is given up."""

REMEMBERED_MAX = 50_000
"""Spans, messages, open calls and distinct events that are remembered of an occurrence, of each so many.

What is told again beyond that is taken for new; its rules are unjudged by then (`rules.kernel.EVENTS_MAX`).
"""


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
    by_model, args = telling.place is not None, _canonical(telling.args)
    for one in told:
        for index, other in enumerate(one.waiting):
            if (
                other.by_model is not by_model
                and other.kind == telling.kind
                and _fits(other.tool, telling.tool)
                and (
                    other.call_id == telling.call_id
                    if other.call_id is not None and telling.call_id is not None
                    else _fits(other.args, args)
                )
            ):
                return one.waiting.pop(index)
    return None


def wait(told: Told, telling: Telling) -> None:
    """Let a call or result wait to be told from the other side."""
    told.waiting.append(
        Waiting(
            by_model=telling.place is not None,
            kind=telling.kind,
            call_id=telling.call_id,
            tool=telling.tool,
            args=_canonical(telling.args),
            time=telling.time,
        )
    )
    if len(told.waiting) > WAITING_MAX:
        del told.waiting[0]


def _canonical(args: str | None) -> str | None:
    return None if args is None else canonical_text(args)


def _fits(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other
