"""A simulated support desk: any number of seeded conversations, a known share of which break known rules.

    from tracline.examples.desk.bot import Desk, conversations

    for conversation in conversations(Desk(sessions=1000, seed=7)):
        print(conversation.session_id, sorted(kind.name for kind in conversation.breaks))

`formats` converts the conversations to event frames. A conversation depends only on the desk
and its number, so conversations can be made in any order.
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
"""The relative load of each hour of the day."""
WEEKDAYS = (12, 11, 10, 10, 11, 7, 6)
"""The relative load of each day from Monday to Sunday."""


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
    """A day (from 0) on which one kind of break is far more common than on others."""

    day: int = 9
    kind: Break = Break.CONFIRM_REFUND
    rate: float = 0.25


@dataclass(frozen=True, slots=True)
class Desk:
    """The parameters of a simulation: conversations, days, and how often each rule is broken.

    `rates` is the share of conversations for each kind of break; the sum is at most 1. `spike` raises one
    rate on one day.
    """

    sessions: int = 3000
    seed: int = 7
    days: int = 14
    start: date = date(2026, 3, 2)
    rates: Mapping[Break, float] = field(default_factory=lambda: dict.fromkeys(Break, 0.004))
    spike: BreakSpike | None = BreakSpike()


@dataclass(frozen=True, slots=True)
class DeskConversation:
    """A finished conversation; `breaks` are exactly the rules that it broke."""

    session_id: str
    agent: Agent
    start_ns: int
    steps: tuple[SceneStep, ...]
    breaks: frozenset[Break]


def conversations(desk: Desk) -> Iterator[DeskConversation]:
    """Return all conversations of the desk by number, which is not the order of their times."""
    return (conversation(desk, number) for number in range(desk.sessions))


def conversation(desk: Desk, number: int) -> DeskConversation:
    """Return the conversation of that number, the same on every call.

    Raises ValueError if the desk's rates are not probabilities.
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


def _start_ns(day: date, rng: Random) -> int:
    hour = rng.choices(range(24), HOURS)[0]
    midnight = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    return (midnight + hour * 3600) * NS + rng.randrange(3600 * NS)


def _fault(desk: Desk, day: int, rng: Random) -> Break | None:
    """Choose the kind of break that the agent tries, or None."""
    rates = dict(desk.rates)
    if desk.spike is not None and day == desk.spike.day:
        rates[desk.spike.kind] = desk.spike.rate
    sums = list(accumulate(rates.values(), initial=0.0))
    if min(rates.values(), default=0.0) < 0 or sums[-1] > 1:
        raise ValueError("the rates of a Desk must be at least 0 and together at most 1")
    place = bisect(sums, rng.random()) - 1
    return list(rates)[place] if place < len(rates) else None
