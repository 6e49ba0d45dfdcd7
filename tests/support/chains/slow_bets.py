"""The bets of a rule on the events of a session in plain Python, and the bets of a batch by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log
from typing import NamedTuple

from tracline.predict.detector import RATIOS
from tracline.predict.drift.bet_sums import BetGroups, BetSum, bet_sums
from tracline.predict.following.live.session_follower import FollowedBatch, SessionFollower
from tracline.rules.model.machine import VERDICT_MASK, VIOLATED, Machine
from tracline.schemas.verdict import Verdict

from .slow_counting import UNKNOWN_VALUE, SlowSession

Run = tuple[int, str | None]
"""The state of a sequence, and its last symbol."""


class SlowBet(NamedTuple):
    """An event with a bet (the session's end has the number after the last), and its log e-values."""

    event: int
    trials: int
    violated: int
    logs: tuple[float, ...]


def slow_bets(
    machine: Machine, session: SlowSession, sliced: bool, high_of: Callable[[str, int], float]
) -> Iterator[SlowBet]:
    """Yield the bets of a session; `high_of` has the limit of a symbol and a state."""
    alone: Run = (0, None)
    slices: dict[str, Run] = {}
    for number, event in enumerate(session.events):
        if not event.seen:
            continue
        if event.value == UNKNOWN_VALUE and sliced:
            return
        known = max(len(slices), 1)
        bets: list[tuple[Run, bool]] = []

        def stepped(run: Run, suffix: str = "") -> tuple[Run, bool]:
            state, output = machine.step(run[0], machine.word(event.true))  # noqa: B023
            return (state, event.symbol + suffix), output & VERDICT_MASK == VIOLATED  # noqa: B023

        if sliced and event.value is not None:
            is_first, is_new = not slices, event.value not in slices
            before = slices.get(event.value, alone)
            slices[event.value], violated = stepped(before, "+own")
            bets = [(before, violated)] if is_first or not is_new else []
        else:
            bets = [(run, stepped(run)[1]) for run in slices.values() or [alone]]
            slices = {value: stepped(run)[0] for value, run in slices.items()}
            alone = stepped(alone)[0]
        yield from _bet(number, bets, known, high_of)
    if session.closed:
        is_unmet = [machine.closing[state] is Verdict.UNMET for state, _ in slices.values()]
        runs = list(zip(slices.values(), is_unmet, strict=True))
        alone_unmet = machine.closing[alone[0]] is Verdict.UNMET and not sliced
        bets = runs or [(alone, alone_unmet)]
        yield from _bet(len(session.events), bets, max(len(slices), 1), high_of)


def _bet(
    number: int, bets: list[tuple[Run, bool]], known: int, high_of: Callable[[str, int], float]
) -> Iterator[SlowBet]:
    taken = [(high_of(symbol, state), violated) for (state, symbol), violated in bets if symbol is not None]
    if taken:
        gains = [sum(e_value(high, violated, ratio) - 1 for high, violated in taken) for ratio in RATIOS]
        logs = tuple(log(1 + gain / known) for gain in gains)
        yield SlowBet(number, len(taken), sum(violated for _, violated in taken), logs)


def bets_by_row(follower: SessionFollower, done: FollowedBatch) -> dict[int, list[BetSum]]:
    """Return the bets on each row of a batch."""
    assert done.bets is not None
    rows = done.bets.rows.tolist()
    groups = BetGroups(rows, [0] * len(rows), [""] * len(rows))
    return bet_sums(follower.chain.digest, follower.names, done.bets, groups)


def e_value(high: float, violated: bool, ratio: float) -> float:
    """The likelihood ratio of one event."""
    higher = min(ratio * high, (1 + high) / 2)
    return higher / high if violated else (1 - higher) / (1 - high)
