"""The counts of a rule in plain Python: sequences of a session by their definition, stepped one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tracline.predict.chain.learned import Counted
from tracline.rules.model.machine import SATISFIED, VERDICT_MASK, VIOLATED, Machine
from tracline.schemas.verdict import Verdict

UNKNOWN_VALUE = "?"
"""The value of an event whose slice cannot be read."""


class SlowEvent(NamedTuple):
    """An event: its symbol, its true propositions, the value of its slice, and whether the rule sees it."""

    symbol: str
    true: frozenset[str]
    value: str | None = None
    seen: bool = True


@dataclass(frozen=True)
class SlowSession:
    """A session and whether it closed."""

    name: str
    events: Sequence[SlowEvent]
    closed: bool = True


Place = tuple[str, int, bool]
"""The symbol, the machine's state and whether there was a verdict against the agent."""


@dataclass
class SlowSequence:
    """The places of a sequence and its last successor: `end`, or None where it is cut; and its ending."""

    places: list[Place] = field(default_factory=list)
    successor: str | None = None
    ending: str = "cut"


def slow_sequences(machine: Machine, session: SlowSession, sliced: bool) -> list[SlowSequence]:
    """Return the sequences of a session for a rule whose propositions are all known."""
    seen = [event for event in session.events if event.seen]
    cut = next((i for i, event in enumerate(seen) if event.value == UNKNOWN_VALUE), None)
    judged, closed = seen[:cut], session.closed and cut is None
    values = list(dict.fromkeys(event.value for event in judged if event.value is not None)) if sliced else []
    return [_walked(machine, judged, value, closed, sliced) for value in values or [None]]


def _walked(
    machine: Machine, events: Sequence[SlowEvent], value: str | None, closed: bool, sliced: bool
) -> SlowSequence:
    state, found = 0, SlowSequence([("start", 0, False)])
    for event in events:
        if sliced and event.value not in (None, value):
            continue
        is_own = sliced and event.value is not None
        state, output = machine.step(state, machine.word(event.true))
        assert output & VERDICT_MASK in (0, VIOLATED, SATISFIED, 3, 4)
        found.places.append((event.symbol + "+own" * is_own, state, output & VERDICT_MASK == VIOLATED))
    if closed:
        found.successor, found.ending = "end", "closed"
        # Events without a value close nothing.
        if machine.closing[state] is Verdict.UNMET and not (sliced and value is None):
            found.ending = "unmet"
    return found


def transitions(sequences: Iterable[SlowSequence]) -> dict[tuple[str, int, str], int]:
    """Return the number of transitions from each symbol and state to each next symbol."""
    counts: dict[tuple[str, int, str], int] = {}
    for sequence in sequences:
        nexts = [symbol for symbol, _, _ in sequence.places[1:]] + [sequence.successor]
        for (symbol, state, _), following in zip(sequence.places, nexts, strict=True):
            if following is not None:
                key = symbol, state, following
                counts[key] = counts.get(key, 0) + 1
    return counts


def counted_transitions(counted: Counted) -> dict[tuple[str, int, str], int]:
    """Return the same of counts, whatever their folds."""
    found: dict[tuple[str, int, str], int] = {}
    symbols = counted.symbols.symbols
    for context, following, count in zip(
        counted.counts.contexts.tolist(),
        counted.counts.nexts.tolist(),
        counted.counts.counts.tolist(),
        strict=True,
    ):
        symbol, row = int(counted.contexts.symbols[context]), int(counted.contexts.states[context])
        key = (*symbols, "start")[symbol], int(counted.steps.states[row]), (*symbols, "end")[following]
        found[key] = found.get(key, 0) + count
    return found


def counted_walks(counted: Counted) -> list[SlowSequence]:
    """Return the walks of counts as sequences; the successor of the last place is not among them."""
    symbols = (*counted.symbols.symbols, "start")
    walks, found = counted.walks, list[SlowSequence]()
    for number, (first, last) in enumerate(zip(walks.bounds[:-1], walks.bounds[1:], strict=True)):
        places: list[Place] = []
        for place in range(int(first), int(last)):
            context = int(walks.contexts[place])
            row = int(counted.contexts.states[context])
            symbol = symbols[int(counted.contexts.symbols[context])]
            places.append((symbol, int(counted.steps.states[row]), bool(walks.violated[place])))
        ending = ("cut", "closed", "unmet")[int(walks.endings[number])]
        found.append(SlowSequence(places, None, ending))
    return found
