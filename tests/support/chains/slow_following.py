"""The crossings of a rule in plain Python: each run of a session stepped and looked up event by event."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tracline.rules.model.machine import Machine

from .slow_counting import UNKNOWN_VALUE, SlowSession

RiskOf = Callable[[str, int], float | None]
"""Returns the risk of a symbol and a machine state, None where there is none."""


class SlowCrossing(NamedTuple):
    """A crossing: its session, the number of the event, the slice, and the level."""

    session: str
    event: int
    value: str | None
    level: str


def slow_crossings(
    machine: Machine, session: SlowSession, sliced: bool, risk_of: RiskOf, threshold: float
) -> list[SlowCrossing]:
    """Return the crossings of a session whose propositions are all known, sorted."""
    seen = [(number, event) for number, event in enumerate(session.events) if event.seen]
    cut = next((i for i, (_, event) in enumerate(seen) if event.value == UNKNOWN_VALUE), None)
    seen, found = seen[:cut], list[SlowCrossing]()
    first: dict[str | None, int] = {}
    for number, event in seen:
        if sliced and event.value is not None:
            first.setdefault(event.value, number)
    end_alone = min(first.values(), default=len(session.events))
    for value in (None, *first):
        state, above = 0, False
        for number, event in seen:
            if sliced and event.value not in (None, value):
                continue
            if value is None and number >= end_alone:
                break
            state, _ = machine.step(state, machine.word(event.true))
            if value is not None and number < first[value]:
                continue
            suffix = "+own" if sliced and event.value is not None else ""
            risk = risk_of(event.symbol + suffix, state)
            is_above = risk is not None and risk >= (threshold * 0.8 if above else threshold)
            if is_above != above:
                found.append(SlowCrossing(session.name, number, value, "up" if is_above else "down"))
            above = is_above
    return sorted(found, key=str)
