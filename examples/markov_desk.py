"""A support desk that follows a stated chain, so that the true risk of every rule is known.

    from tracline.examples.markov_desk import MarkovDesk, event_frame

    event_frame(MarkovDesk(sessions=400, seed=1)).write_parquet("archive/events.parquet")

The next step depends on the last one and on whether an account was found: a rule that does not ask for the
account has a risk that its own contexts do not determine. A session depends only on the seed and its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..schemas.event import Event, Kind, content_of, end_event, event_id
from ..schemas.time import NS

if TYPE_CHECKING:
    import polars as pl

FIRST, LAST = "first", "last"
"""The names of the places before the first step and after the last one."""

FOUND = "found"
"""The step after which the policy remembers that an account was found."""

START_NS = 1_772_400_000 * NS
SESSION_NS, STEP_NS = 60 * NS, 2 * NS


@dataclass(frozen=True, slots=True)
class MarkovStep:
    """One step of a session as an event, with the fields of `EventLike`."""

    kind: Kind
    text: str | None = None
    tool: str | None = None
    args: str | None = None
    result: str | None = None
    call_id: str | None = None


STEPS: Mapping[str, MarkovStep] = MappingProxyType(
    {
        "asks": MarkovStep(Kind.USER, "I want my money back for order 17."),
        "agrees": MarkovStep(Kind.USER, "Yes, please."),
        "declines": MarkovStep(Kind.USER, "No, wait."),
        "offers": MarkovStep(Kind.ASSISTANT, "I would refund 40 dollars. Shall I proceed?"),
        "reports": MarkovStep(Kind.ASSISTANT, "The money is on its way."),
        "looks_up": MarkovStep(Kind.TOOL_CALL, tool="find_user_id_by_email", args='{"email":"a@b.example"}'),
        FOUND: MarkovStep(Kind.TOOL_RESULT, tool="find_user_id_by_email", result="user_17"),
        "not_found": MarkovStep(
            Kind.TOOL_RESULT, tool="find_user_id_by_email", result="Error: user not found"
        ),
        "refunds": MarkovStep(Kind.TOOL_CALL, tool="issue_refund", args='{"amount":40}'),
        "refunded": MarkovStep(Kind.TOOL_RESULT, tool="issue_refund", result="done"),
        "hands_over": MarkovStep(Kind.TOOL_CALL, tool="transfer_to_human_agents", args="{}"),
        "handed_over": MarkovStep(Kind.TOOL_RESULT, tool="transfer_to_human_agents", result="done"),
    }
)
"""The steps of the desk by name."""

_BEFORE: dict[str, dict[str, int]] = {
    FIRST: {"asks": 100},
    "asks": {"looks_up": 70, "offers": 22, "refunds": 3, "hands_over": 5},
    "looks_up": {FOUND: 80, "not_found": 20},
    "not_found": {"asks": 60, "hands_over": 30, "offers": 10},
    "offers": {"agrees": 60, "declines": 30, LAST: 10},
    "agrees": {"refunds": 25, "looks_up": 70, "hands_over": 5},
    "declines": {"asks": 40, "offers": 20, "refunds": 2, LAST: 38},
    "refunds": {"refunded": 100},
    "refunded": {"reports": 88, "asks": 8, LAST: 4},
    "reports": {"asks": 20, LAST: 80},
    "hands_over": {"handed_over": 100},
    "handed_over": {LAST: 80, "looks_up": 12, "refunds": 8},
}
"""The next step by the last one, in per cent, before an account was found."""

_AFTER = _BEFORE | {
    "asks": {"offers": 85, "refunds": 5, "hands_over": 5, "looks_up": 5},
    FOUND: {"offers": 80, "refunds": 6, "asks": 14},
    "not_found": {"asks": 80, "hands_over": 20},
    "agrees": {"refunds": 95, "hands_over": 5},
}
"""The same after an account was found."""

POLICY: Mapping[tuple[str, bool], Mapping[str, int]] = MappingProxyType(
    {(last, False): nexts for last, nexts in _BEFORE.items()}
    | {(last, True): nexts for last, nexts in _AFTER.items()}
)
"""The next step in per cent, by the last step and whether an account was found."""

_SUMS = {key: (tuple(row), tuple(accumulate(row.values()))) for key, row in POLICY.items()}


@dataclass(frozen=True, slots=True)
class MarkovDesk:
    """A number of sessions of the desk, and the seed that they are drawn by."""

    sessions: int = 400
    seed: int = 1


def steps(desk: MarkovDesk, number: int) -> tuple[str, ...]:
    """Return the names of the steps of a session, the same on every call."""
    draw = Random(f"markov desk {desk.seed} {number}").choices
    taken: list[str] = []
    last, found = FIRST, False
    while True:
        names, sums = _SUMS[last, found]
        last = draw(names, cum_weights=sums)[0]
        if last == LAST:
            return tuple(taken)
        taken.append(last)
        found = found or last == FOUND


def events(desk: MarkovDesk, number: int) -> Iterator[Event]:
    """Yield the judged events of a session, and its `end` row last."""
    session, start = f"markov-{number:07d}", START_NS + number * SESSION_NS
    time, seen = start, dict[str, int]()
    for place, name in enumerate(steps(desk, number)):
        step, time = STEPS[name], start + place * STEP_NS
        equals = seen[name] = seen.get(name, -1) + 1
        yield Event(
            session_id=session,
            occurrence=start,
            time=time,
            seq=place + 1,
            kind=step.kind,
            agent="markov-desk",
            text=step.text,
            tool=step.tool,
            args=step.args,
            result=step.result,
            event_id=event_id(session, start, step.kind, content_of(step), equals),
        )
    yield end_event(session, start, time, sum(seen.values()) + len(seen) + 1, {"end": "complete"})


def event_frame(desk: MarkovDesk) -> pl.DataFrame:
    """Return all sessions of the desk as rows of the event frame."""
    from ..schemas.frames import events as frame

    return frame.event_frame([event for number in range(desk.sessions) for event in events(desk, number)])
