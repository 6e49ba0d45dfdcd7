"""A simulated support desk: any number of seeded conversations, a known share of which break known rules.

    from tracline.examples.desk.bot import Desk, conversations

    for conversation in conversations(Desk(sessions=1000, seed=7)):
        print(conversation.session_id, sorted(kind.name for kind in conversation.breaks))

What happened (here) is kept apart from how it is told (`support_telling`): the same conversations become
event frames, archives and chat logs. A conversation depends on the desk and its own number only, so any one
of them can be made alone and in any order.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate
from random import Random

from ...schemas.time import NS
from .requests import play
from .scene import Break, Scene, SceneStep

HOURS = (1, 1, 1, 1, 1, 2, 4, 7, 11, 13, 13, 12, 11, 12, 13, 13, 12, 11, 10, 9, 8, 5, 3, 2)
"""How busy the desk is at each hour of the day."""
WEEKDAYS = (12, 11, 10, 10, 11, 7, 6)
"""How busy it is from Monday to Sunday."""


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent of the desk: name, model, service, and its share of the conversations."""

    name: str
    model: str
    service: str
    share: int


AGENTS = (
    Agent("retail-assistant", "lumen-4", "shop-web", 5),
    Agent("retail-assistant", "lumen-4-mini", "shop-app", 3),
    Agent("returns-assistant", "birch-2", "shop-web", 2),
)


@dataclass(frozen=True, slots=True)
class BreakSpike:
    """A day (counted from 0) on which one kind of break is far more common than otherwise."""

    day: int = 9
    kind: Break = Break.CONFIRM_REFUND
    rate: float = 0.25


@dataclass(frozen=True, slots=True)
class Desk:
    """What to simulate: how many conversations over how many days, and how often each rule is broken.

    `rates` gives, for each kind of break, the share of conversations in which the agent sets out to do it;
    together they may not be above 1. `spike` raises one of them on one day.
    """

    sessions: int = 3000
    seed: int = 7
    days: int = 14
    start: date = date(2026, 3, 2)
    rates: Mapping[Break, float] = field(default_factory=lambda: dict.fromkeys(Break, 0.004))
    spike: BreakSpike | None = BreakSpike()


@dataclass(frozen=True, slots=True)
class DeskConversation:
    """One finished conversation and the truth about it: `breaks` are exactly the rules it broke."""

    session_id: str
    agent: Agent
    start_ns: int
    steps: tuple[SceneStep, ...]
    breaks: frozenset[Break]


def conversations(desk: Desk) -> Iterator[DeskConversation]:
    """All conversations of the desk, by number (which is not the order of their times)."""
    return (conversation(desk, number) for number in range(desk.sessions))


def conversation(desk: Desk, number: int) -> DeskConversation:
    """The conversation of that number, the same on every call.

    Raises ValueError when the desk's rates are no probabilities.
    """
    rng = Random(f"support desk {desk.seed} {number}")
    busy = [WEEKDAYS[(desk.start.weekday() + day) % 7] for day in range(desk.days)]
    day = rng.choices(range(desk.days), busy)[0]
    agent = rng.choices(AGENTS, [agent.share for agent in AGENTS])[0]
    start_ns = _start_ns(desk.start + timedelta(days=day), rng)
    scene = Scene(rng, start_ns)
    play(scene, _fault(desk, day, rng))
    scene.finish()
    return DeskConversation(
        f"chat-{number:07d}", agent, scene.steps[0].time_ns, tuple(scene.steps), frozenset(scene.breaks)
    )


def expected_breaks(desk: Desk) -> Mapping[tuple[str, str], frozenset[str]]:
    """Which sessions break which rule: session ids by (pack, rule), every kind of break present."""
    found: dict[tuple[str, str], set[str]] = {kind.value: set() for kind in Break}
    for told in conversations(desk):
        for kind in told.breaks:
            found[kind.value].add(told.session_id)
    return {rule: frozenset(sessions) for rule, sessions in found.items()}


def spike_day(desk: Desk) -> date | None:
    """The day of the desk's spike, where it has one."""
    return None if desk.spike is None else desk.start + timedelta(days=desk.spike.day)


def _start_ns(day: date, rng: Random) -> int:
    hour = rng.choices(range(24), HOURS)[0]
    midnight = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    return (midnight + hour * 3600) * NS + rng.randrange(3600 * NS)


def _fault(desk: Desk, day: int, rng: Random) -> Break | None:
    """Return what the agent sets out to do wrongly, if anything."""
    rates = dict(desk.rates)
    if desk.spike is not None and day == desk.spike.day:
        rates[desk.spike.kind] = desk.spike.rate
    sums = list(accumulate(rates.values(), initial=0.0))
    if min(rates.values(), default=0.0) < 0 or sums[-1] > 1:
        raise ValueError("the rates of a Desk must be at least 0 and together at most 1")
    place = bisect(sums, rng.random()) - 1
    return list(rates)[place] if place < len(rates) else None
