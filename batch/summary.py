"""The summary of an audit: who was judged, how often each rule was broken, by agent and by day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..rules import kernel
from ..rules.kernel import I32, I64
from ..rules.rule import Rule
from .archive import day_of
from .judge import Judged, Statute
from .read import Population

COUNTS = (
    "violations",
    "unmet",
    "satisfactions",
    "sessions_violating",
    "sessions_applicable",
    "sessions_unjudged",
)
"""What is counted for each rule.

`violations`, `unmet` and `satisfactions` count verdicts; those at history events are left out, here and in
the rest. `sessions_violating` have a violation or something unmet. `sessions_applicable`, of which they are
a part, are those that the rule applies to and that it could judge to their end, so the rate of a rule is
the one over the other. `sessions_unjudged` have a record that says so; some may be violating, too.
"""

CROWDED = "sessions_over_slices_max"
"""Of the unjudged sessions, how many have more slices than a rule may have in one session."""

Counts = NDArray[np.int64]

NO_AGENT = ""
"""The name under which sessions count where none of their events says an agent."""

AGENTS_MAX = 1_000
"""Agents with counts of their own; the sessions of further ones count under `OTHER_AGENTS`."""
OTHER_AGENTS = "(other agents)"


@dataclass(slots=True)
class Tally:
    """What has been counted so far. `counts` has a row per `COUNTS` and a column per rule.

    A session counts whole under its own agent, the first that its events name, and under the day (UTC) on
    which its occurrence began.
    """

    rules: int
    events: int = 0
    sessions: int = 0
    open_sessions: int = 0
    duplicates: int = 0
    conflicts: int = 0
    counts: dict[tuple[str, str], Counts] = field(default_factory=dict[tuple[str, str], Counts])
    crowded: Counter[int] = field(default_factory=Counter[int])
    groups: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def add(self, statute: Statute, judged: Judged) -> None:
        """Count a judged bucket."""
        sessions = judged.sessions
        self.events += int(np.diff(sessions.bounds)[sessions.counted].sum())
        self.sessions += int(sessions.counted.sum())
        self.open_sessions += int((sessions.counted & sessions.open).sum())
        self.duplicates += judged.duplicates
        self.conflicts += judged.conflicts
        told = _by_session(statute, judged) * sessions.counted[None, :, None]
        for group, slots in _groups(judged).items():
            self.groups[group] += int(sessions.counted[slots].sum())
            counts = self.counts.setdefault(group, np.zeros((len(COUNTS), self.rules), dtype=np.int64))
            counts[:, statute.program.order] += told[:, slots].sum(axis=1)
        crowded = judged.found.columns[judged.found.kinds == kernel.FOUND_SLICES]
        self.crowded.update(statute.program.order[crowded].tolist())


def summary(rules: Sequence[Rule], digests: Sequence[str], tally: Tally, population: Population) -> Any:
    """The content of `summary.json`, ready for canonical JSON."""
    agents = _capped(tally)
    keys = rule_keys(rules)
    rejected = Counter(population.rejected) + Counter({"row-conflict": tally.conflicts})
    return {
        "population": {
            "files": population.files,
            "rows": population.rows,
            "events": tally.events,
            "sessions": tally.sessions,
            "open_sessions": tally.open_sessions,
            "gaps": 0,
            "duplicates": population.duplicates + tally.duplicates,
            "rejected": rejected.total(),
            "rejected_by_reason": {code: count for code, count in rejected.items() if count},
            "skipped_files": len(population.skipped),
            "sessions_by_agent": _sums(tally.groups, 0, agents),
            "sessions_by_day": _sums(tally.groups, 1, None),
        },
        "rules": {
            key: {
                "pack": rule.pack,
                "id": rule.id,
                "title": rule.title,
                "severity": rule.severity.value,
                "rule_digest": digests[number],
                **_named(sum(tally.counts.values(), _zeros(len(rules)))[:, number]),
                CROWDED: tally.crowded[number],
                "by_agent": _split(tally, number, 0, agents),
                "by_day": _split(tally, number, 1, None),
            }
            for number, (key, rule) in enumerate(zip(keys, rules, strict=True))
        },
    }


def rule_keys(rules: Sequence[Rule]) -> tuple[str, ...]:
    """The rules' names in a summary: the id, or `pack/id` where several packs have a rule of that id."""
    shared = Counter(rule.id for rule in rules)
    return tuple(rule.id if shared[rule.id] == 1 else f"{rule.pack}/{rule.id}" for rule in rules)


def _by_session(statute: Statute, judged: Judged) -> Counts:
    """The `COUNTS` by slot and column."""
    shape = judged.satisfactions.shape
    rated = ~judged.rows["history"].to_numpy()
    found, closed = judged.found, judged.closed
    violated = (found.kinds == kernel.FOUND_VIOLATED) & rated[found.stamps]
    unmet = (closed.kinds == kernel.CLOSING_UNMET) & rated[closed.stamps]
    violations = _count(found.slots[violated], found.columns[violated], shape)
    unmets = _count(closed.slots[unmet], closed.columns[unmet], shape)
    violating = (violations + unmets) > 0
    unjudged = kernel.unjudged(statute.program, judged.memory)
    said = (found.kinds == kernel.FOUND_UNKNOWN) | (found.kinds == kernel.FOUND_SLICES)
    applicable = violating | (kernel.applies(judged.memory) & ~unjudged)
    unjudged_inside = _count(found.slots[said], found.columns[said], shape)
    return np.stack(
        [violations, unmets, judged.satisfactions.astype(np.int64), violating, applicable, unjudged_inside]
    ).astype(np.int64)


def _count(slots: I32, columns: I32, shape: tuple[int, ...]) -> Counts:
    return np.bincount(slots.astype(np.int64) * shape[1] + columns, minlength=shape[0] * shape[1]).reshape(
        shape
    )


def _groups(judged: Judged) -> Mapping[tuple[str, str], I64]:
    """The slots of each (agent, day)."""
    slots = np.repeat(np.arange(len(judged.sessions.open)), np.diff(judged.sessions.bounds))
    named = judged.rows.select(pl.Series("slot", slots), "agent", day_of(pl.col("occurrence")).alias("day"))
    first = named.group_by("slot", maintain_order=True).agg(
        pl.col("agent").drop_nulls().first().fill_null(NO_AGENT), pl.col("day").first()
    )
    parts = first.group_by(["agent", "day"], maintain_order=True).agg("slot")
    return {(agent, day): np.array(own, dtype=np.int64) for agent, day, own in parts.iter_rows()}


def _capped(tally: Tally) -> frozenset[str]:
    """The agents that keep counts of their own: those with the most sessions, equal ones by name."""
    sessions: Counter[str] = Counter()
    for (agent, _), count in tally.groups.items():
        sessions[agent] += count
    ranked = sorted(sessions, key=lambda agent: (-sessions[agent], agent))
    return frozenset(ranked[:AGENTS_MAX])


def _split(tally: Tally, number: int, part: int, kept: frozenset[str] | None) -> dict[str, dict[str, int]]:
    """One rule's counts by the first or second part of the groups, those that are all zero left out."""
    parts: dict[str, Counts] = {}
    for group, counts in tally.counts.items():
        name = group[part] if kept is None or group[part] in kept else OTHER_AGENTS
        parts[name] = parts.get(name, 0) + counts[:, number]
    return {name: _named(parts[name]) for name in sorted(parts) if parts[name].any()}


def _sums(groups: Counter[tuple[str, str]], part: int, kept: frozenset[str] | None) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for group, count in groups.items():
        sums[group[part] if kept is None or group[part] in kept else OTHER_AGENTS] += count
    return dict(sorted(sums.items()))


def _zeros(rules: int) -> Counts:
    return np.zeros((len(COUNTS), rules), dtype=np.int64)


def _named(counts: Counts) -> dict[str, int]:
    return dict(zip(COUNTS, counts.tolist(), strict=True))
