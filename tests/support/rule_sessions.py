"""Rule sets of every kind, and random sessions for them: slices, steps, unknowns, several occurrences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random

from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import pack_text
from tracline.schemas.event import Content, Event, Kind, end_event

START = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
NAMES = ("p", "q", "r", "s")

PACK = """
pack: generated
version: 1
propositions:
  p: tool matches /p/
  q: args.q == true
  r: args.r == true
  s: tool matches /s/
transitions:
  odd: not previous odd
  mode: q or (previous mode and not r)
rules:
"""
RULES = (
    ("always (p -> F[0,2] q)", ""),
    ("always (p -> eventually q)", "for_each: call_id"),
    ("always (p -> once q)", "for_each: args.k"),
    ("always (q -> previous[2] p)", "steps: p or q"),
    ("always not (q and once[1,2] q)", "for_each: call_id"),
    ("always (s -> not previous once s)", "for_each: args.k"),
    ("always (s -> not q since r)", "recover: none"),
    ("p until q", "recover: violation"),
    ("always (p -> odd)", ""),
    ("always (s -> mode)", "for_each: call_id"),
    ("eventually (p and previous s)", "steps: not r"),
    ("always (r -> F[0,4] (p and once q))", "for_each: args.k"),
    ("always (p -> eventually s)", "applies_to: once r"),
    ("historically (at_most[2] (p and s))", ""),
    ("always (s -> X p)", ""),
    ("F[0,30] (p and q and r and s)", "recover: none"),
    ("always (p -> F[0,2] s)", "for_each: call_id"),
    ("always (r -> weak_previous q or next s)", "steps: q or r or s"),
)
"""Formulas, each with a further line of its rule."""


def rule_set(places: Sequence[int] = range(len(RULES))) -> RuleSet:
    """Return the rules at these places of `RULES` as a pack."""
    text = PACK
    for place in places:
        formula, more = RULES[place]
        text += f"  - id: rule-{place}\n    title: Rule {place}\n    formula: {formula}\n"
        text += f"    {more}\n" if more else ""
    return pack_text(text)


def random_sessions(random: Random, sessions: int, events: int, *, unknowns: float = 0.02) -> list[Event]:
    """Return the events and `end` rows of sessions that interleave; each session's are in judged order."""
    queues = [random_session(random, f"session-{number}", events, unknowns) for number in range(sessions)]
    found: list[Event] = []
    while queues := [queue for queue in queues if queue]:
        found.append(random.choice(queues).pop(0))
    return found


def random_session(random: Random, session_id: str, events: int, unknowns: float) -> list[Event]:
    """Return the rows of up to three occurrences of a session; the last may be open."""
    found, time = list[Event](), START
    for number in range(random.randint(1, 3)):
        begun, count = time, random.randint(1, events)
        history = random.randint(0, 3) if random.random() < 0.3 else 0
        spread = random.choice((1, 3, 8))
        for seq in range(1, count + 1):
            found.append(random_event(random, session_id, begun, time, seq, spread, unknowns, seq <= history))
            time += random.choice((0, 1, 7)) * SECOND
        time += 100 * SECOND
        if number < 2 and random.random() < 0.8:
            found.append(end_event(session_id, begun, time, count + 1, {"end": "mark"}))
            time += SECOND
        else:
            break
    return found


def random_event(
    random: Random,
    session_id: str,
    occurrence: int,
    time: int,
    seq: int,
    slices: int,
    unknowns: float,
    history: bool,
) -> Event:
    """Return an event at which each proposition may be true, with the slice values that it may have."""
    true = {name for name in NAMES if random.random() < 0.3}
    absent = random.random() < unknowns
    args: dict[str, object] = {name: name in true for name in ("q", "r")}
    if random.random() < 0.5:
        args["k"] = random.randrange(slices)
    return Event(
        session_id=session_id,
        occurrence=occurrence,
        time=time,
        seq=seq,
        kind=Kind.TOOL_CALL,
        late=random.random() < 0.1,
        history=history,
        agent=random.choice((None, "desk", "sales")),
        tool="t" + "".join(name for name in ("p", "s") if name in true),
        call_id=random.choice((None, *(f"c{number}" for number in range(slices)))),
        args=None if absent else json.dumps(args),
        content=Content.ABSENT if absent else Content.CAPTURED,
        event_id=f"{hash_of(session_id, occurrence, seq):016x}",
    )


def hash_of(session_id: str, occurrence: int, seq: int) -> int:
    """Return a number that no other event of the sessions has."""
    return int(session_id.rpartition("-")[2]) << 40 | (occurrence - START) // SECOND << 16 | seq
