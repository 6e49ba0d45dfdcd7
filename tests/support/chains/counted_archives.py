"""Random sessions as archives, and their counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from tracline.batch.prediction.tallied import tallied
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.sources.discover import Population
from tracline.predict.chain.learned import Counted
from tracline.predict.counting.split import Split
from tracline.predict.counting.watched_rules import watch
from tracline.rules.model.rule import RuleSet

from ..event_rows import session, user, write
from .slow_counting import UNKNOWN_VALUE, SlowEvent, SlowSession

PACK = """
pack: desk
version: 1
propositions:
  p: text contains "p"
  q: text contains "q"
rules:
  - {id: plain, severity: low, formula: always (p -> eventually q)}
  - {id: stepped, severity: low, steps: p or q, formula: 'always (p -> next q)'}
  - {id: sliced, severity: low, for_each: args.id, formula: always (p -> eventually q)}
  - {id: both, severity: low, for_each: args.id, steps: p or q, formula: 'not q since p'}
"""
"""Plain, stepped and sliced rules over two propositions."""

EVERYTHING = Split(hold_out=0.0)


def args_of(value: str | None) -> str | None:
    """Return the arguments of an event with that slice; an array is no value that can be read."""
    if value is None:
        return None
    return '{"id": []}' if value == UNKNOWN_VALUE else f'{{"id": "{value}"}}'


def random_sessions(count: int, seed: int, more: str = "") -> list[SlowSession]:
    """Sessions of up to eight events over two propositions, and `more`; some have values of a slice."""
    random = Random(seed)
    values = (None, None, "a", "b", "c")
    made: list[SlowSession] = []
    for number in range(count):
        words = [random.choice(["", "p", "q", "pq"]) for _ in range(random.randint(1, 8))]
        words = [word + more * random.randint(0, 1) for word in words] if more else words
        events = [
            SlowEvent("user:" + ",".join(word), frozenset(word), random.choice(values)) for word in words
        ]
        made.append(SlowSession(f"s{number:03d}", events, random.random() < 0.8))
    return made


def rows(sessions: Iterable[SlowSession]) -> list[dict]:
    """Return the rows of sessions; an open one has no end row."""
    return [
        row
        for each in sessions
        for row in session(
            each.name,
            *(user("".join(sorted(event.true)), args=args_of(event.value)) for event in each.events),
            end=each.closed,
        )
    ]


def counted(
    sessions: Sequence[SlowSession], rule_set: RuleSet, folder: Path, split: Split = EVERYTHING
) -> list[Counted]:
    """Return the counts of every rule over an archive of the sessions."""
    scratch = folder / "scratch"
    scratch.mkdir()
    archive = write(folder / "events.parquet", rows(sessions))
    tally = tallied(archive, watch(rule_set), split, scratch, AuditOptions(), Population())
    return list(tally.counted())
