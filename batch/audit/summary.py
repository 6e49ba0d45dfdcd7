"""The summary of an audit: the population, and how often each rule was broken, by agent and by day."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...archive.writer import day_of
from ...predict.following.archive.warning_tally import WarningFigures
from ...rules.engine import kernel, kernel_loop
from ...rules.engine.judge import CompiledRules, Judged
from ...rules.engine.status import unjudged_findings, unmet_findings, violation_findings
from ...rules.model.arrays import I64, Mask
from ...rules.model.rule import Rule
from ...schemas.records.violation_rate import rate_of
from ...schemas.time import rfc3339
from ..prepare.options import AuditOptions
from ..sources.discover import REJECTS_LISTED_MAX, Population, Reject
from .row_order_loop import first_marked
from .silence import silent_agents
from .unjudged import Unjudged, reasons_by_rule, unjudged_in

COUNTS = (
    "violations",
    "unmet",
    "satisfactions",
    "sessions_violating",
    "sessions_applicable",
    "sessions_unjudged",
    "sessions_possible",
    "sessions_uncertain",
)
"""The counts of each rule.

`violations`, `unmet` and `satisfactions` count verdicts. No count includes verdicts at history events.
`sessions_violating` have a violation or an unmet verdict. `sessions_applicable` include them and the sessions
that the rule applies to and judged to their end. `sessions_unjudged` have an unjudged record; they may also
be violating. `sessions_possible` are not violating, and the rule was not judged in them to the end: they may
violate it or not. `sessions_uncertain` do not violate it, and what was not captured decides whether the rule
applies to them. The rate is of the applicable and possible sessions, and perhaps of the uncertain ones.
"""

CROWDED = "sessions_over_slices_max"
"""The unjudged sessions that exceed the limit of slices of a rule in one session."""


NO_AGENT = ""
"""The agent of sessions in which no event names one."""

NO_MODEL = ""
"""The model of sessions in which no event names one."""

NAMES_MAX = 1_000
"""Agents, and models, with separate counts; the sessions of further ones count together."""
OTHERS = {0: "(other agents)", 2: "(other models)"}
"""The name of the others by their place in a group."""

Group = tuple[str, str, str]
"""The agent, the day and the model of sessions."""


@dataclass(slots=True)
class AuditTally:
    """The counts so far. `counts` has a row per `COUNTS` and a column per rule.

    A session counts under a group: the first agent that its events name, the day (UTC) on which its
    occurrence began, and the first model that its events name. `conflicting` lists the first rejected rows:
    session, seq, event id. `true` and `unknown` are words of the propositions that are so at any event, of a
    single rule set.
    """

    rules: int
    events: int = 0
    sessions: int = 0
    open_sessions: int = 0
    duplicates: int = 0
    conflicts: int = 0
    conflicting: list[tuple[str, int, str]] = field(default_factory=list[tuple[str, int, str]])
    counts: dict[Group, I64] = field(default_factory=dict[Group, I64])
    crowded: Counter[int] = field(default_factory=Counter[int])
    unjudged: Counter[Unjudged] = field(default_factory=Counter[Unjudged])
    groups: Counter[Group] = field(default_factory=Counter[Group])
    true: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    unknown: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))

    def add(self, compiled: CompiledRules, judged: Judged) -> None:
        """Count a judged bucket."""
        self.count(compiled, judged)
        self.explain(compiled, judged)

    def explain(self, compiled: CompiledRules, judged: Judged) -> None:
        """Count the reasons why rules are unjudged."""
        self.unjudged.update(unjudged_in(compiled, judged))

    def count(self, compiled: CompiledRules, judged: Judged) -> None:
        """Count everything else; the bucket needs no columns that only verdicts have."""
        sessions = judged.sessions
        self.events += int(np.diff(sessions.bounds)[sessions.counted].sum())
        self.sessions += int(sessions.counted.sum())
        self.open_sessions += int((sessions.counted & sessions.open).sum())
        self.duplicates += judged.order.duplicates
        self.true = _united(self.true, judged.words.true)
        self.unknown = _united(self.unknown, judged.words.unknown)
        self._count_conflicts(judged)
        groups, slots = _groups(judged)
        by_group = _by_group(judged, slots, len(groups))
        sizes = np.bincount(slots[sessions.counted], minlength=len(groups)).tolist()
        for number, group in enumerate(groups):
            self.groups[group] += sizes[number]
            counts = self.counts.setdefault(group, np.zeros((len(COUNTS), self.rules), dtype=np.int64))
            counts[:, compiled.program.order] += by_group[:, number]
        crowded = judged.found.columns[judged.found.kinds == kernel_loop.FOUND_SLICES]
        self.crowded.update(compiled.program.order[crowded].tolist())

    def _count_conflicts(self, judged: Judged) -> None:
        """Count the conflicting rows, and list the smallest."""
        if not len(judged.order.conflicts):
            return
        self.conflicts += len(judged.order.conflicts)
        rows = judged.labelled.select("session_id", "seq", "event_id")[judged.order.conflicts]
        # The smallest rows of all buckets are among the smallest of each, in any order of buckets.
        least = heapq.nsmallest(REJECTS_LISTED_MAX, rows.iter_rows())
        self.conflicting = sorted([*self.conflicting, *least])[:REJECTS_LISTED_MAX]

    def reject(self, source: str, population: Population) -> None:
        """Add the conflicting rows to the population as rejects of `source`."""
        for session_id, seq, event_id in self.conflicting:
            place, text = f"session {session_id}, seq {seq}", f"event {event_id} claims the place of another"
            population.reject(Reject(source, place, "row-conflict", text))
        population.rejected["row-conflict"] += self.conflicts - len(self.conflicting)


def _united(words: NDArray[np.uint64], rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the words with the bits of all rows; the first rows decide their number."""
    bits = np.bitwise_or.reduce(rows, axis=0)
    return words | bits if len(words) else bits


def summary(
    rules: Sequence[Rule],
    digests: Sequence[str],
    tally: AuditTally,
    population: Population,
    options: AuditOptions,
) -> Any:
    """Return the content of `summary.json` for canonical JSON."""
    agents, models, unjudged = _capped(tally, 0), _capped(tally, 2), reasons_by_rule(tally.unjudged)
    keys, totals = rule_keys(rules), sum(tally.counts.values(), _zeros(len(rules)))
    return {
        "population": {
            **_population(tally, population),
            "sessions_by_agent": _by_name(tally.groups, 0, agents),
            "sessions_by_day": _by_name(tally.groups, 1, None),
            "sessions_by_model": _by_name(tally.groups, 2, models),
            "silent_agents": silent_agents(
                tally.groups, (population.watermark, options.as_of, options.until)
            ),
        },
        "rules": {
            key: {
                "pack": rule.pack,
                "id": rule.id,
                "title": rule.title,
                "severity": rule.severity.value,
                "rule_digest": digests[number],
                **_metadata(rule),
                **_named(totals[:, number]),
                CROWDED: tally.crowded[number],
                "unjudged": unjudged.get(number, []),
                "by_agent": _split(tally, number, 0, agents),
                "by_day": _split(tally, number, 1, None),
                "by_model": _split(tally, number, 2, models),
            }
            for number, (key, rule) in enumerate(zip(keys, rules, strict=True))
        },
    }


def add_risks(entries: Iterable[dict[str, Any]], figures: Mapping[tuple[str, str], WarningFigures]) -> None:
    """Add the figures of warnings to the entries of the rules that have some, by pack and id."""
    for entry in entries:
        if (found := figures.get((entry["pack"], entry["id"]))) is not None:
            entry["risk"] = asdict(found)


def _population(tally: AuditTally, population: Population) -> dict[str, Any]:
    """Return the counts of what was audited."""
    rejected, spans = population.rejected, population.census
    return {
        "files": population.files,
        "rows": population.rows,
        "events": tally.events,
        "sessions": tally.sessions,
        "open_sessions": tally.open_sessions,
        "gaps": population.gaps,
        "watermark": None if population.watermark is None else rfc3339(population.watermark),
        "duplicates": population.duplicates + tally.duplicates,
        "rejected": rejected.total(),
        "rejected_by_reason": {code: count for code, count in rejected.items() if count},
        "skipped_files": len(population.skipped),
        "spans": spans.spans.total(),
        "spans_read": spans.read.total(),
        "scopes": spans.as_json(),
        "log_records": asdict(population.log_records),
        "metrics": population.metrics,
    }


def _metadata(rule: Rule) -> dict[str, Any]:
    """Return the texts about a rule that its pack gives, and its measured precision."""
    precision = None if rule.precision is None else asdict(rule.precision)
    texts = {"policy": rule.policy, "owner": rule.owner, "tags": list(rule.tags), "precision": precision}
    return {name: text for name, text in texts.items() if text}


def rule_keys(rules: Sequence[Rule]) -> tuple[str, ...]:
    """Return the rules' names in a summary: the id, or `pack/id` if several packs have that id."""
    shared = Counter(rule.id for rule in rules)
    return tuple(rule.id if shared[rule.id] == 1 else f"{rule.pack}/{rule.id}" for rule in rules)


def _by_group(judged: Judged, groups: I64, count: int) -> I64:
    """Return the `COUNTS` by group and column; `groups` has the group of each slot."""
    found, rated = judged.found, judged.rated
    violated, unmet = violation_findings(found, rated), unmet_findings(judged.closed, rated)
    dead = unjudged_findings(found)
    violating: NDArray[np.bool_] = np.zeros(judged.memory.state.shape, dtype=np.bool_)
    violating[violated.slots, violated.columns] = True
    violating[unmet.slots, unmet.columns] = True
    unjudged, counted = kernel.unjudged(judged.memory), judged.sessions.counted[:, None]
    applicable = kernel.applies(judged.memory) & ~unjudged & counted
    uncertain = kernel.may_apply(judged.memory) & ~(violating | applicable | unjudged) & counted
    slots, columns = np.nonzero(judged.satisfactions)
    shape = (count, *violating.shape[1:])
    return np.stack(
        [
            _count(groups[violated.slots], violated.columns, shape),
            _count(groups[unmet.slots], unmet.columns, shape),
            _count(groups[slots], columns, shape, judged.satisfactions[slots, columns]),
            _sums(groups, violating, count),
            _sums(groups, violating | applicable, count),
            _count(groups[dead.slots], dead.columns, shape),
            _sums(groups, unjudged & ~violating & counted, count),
            _sums(groups, uncertain, count),
        ]
    )


def _count(rows: NDArray[Any], columns: NDArray[Any], shape: tuple[int, ...], each: Any = None) -> I64:
    """Return a table of how often each pair of row and column occurs (or of the sums of `each`)."""
    flat = rows.astype(np.int64) * shape[1] + columns
    return np.bincount(flat, each, minlength=shape[0] * shape[1]).reshape(shape).astype(np.int64)


def _sums(groups: I64, marked: Mask, count: int) -> I64:
    """Return how many slots of each group are marked, by group and column."""
    slots, columns = np.nonzero(marked)
    return _count(groups[slots], columns, (count, *marked.shape[1:]))


def _groups(judged: Judged) -> tuple[list[Group], I64]:
    """Return the groups of a bucket, and the number of each slot's group."""
    begins = judged.sessions.bounds[:-1]
    sessions = pl.DataFrame(
        {
            "agent": first_named(judged, "agent").fill_null(NO_AGENT),
            "day": judged.column("occurrence", begins).dt.date(),
            "model": first_named(judged, "model").fill_null(NO_MODEL),
        }
    )
    distinct = sessions.unique(maintain_order=True).with_row_index("group")
    group = sessions.join(distinct, on=["agent", "day", "model"], how="left", maintain_order="left")["group"]
    # Texts of the few days; days that have no name are groups of one name.
    names: list[Group] = list(distinct.select("agent", day_of(pl.col("day")), "model").iter_rows())
    return names, group.cast(pl.Int64).to_numpy()


def first_named(judged: Judged, column: str) -> pl.Series:
    """Return the agent or the model of each slot: that of its first event that names one, else null."""
    values = judged.labelled[column]
    named = values.is_not_null().to_numpy()
    return values[first_marked(named, judged.order.rows, judged.sessions.bounds)]


def _capped(tally: AuditTally, part: int) -> frozenset[str]:
    """Return the agents (`part` 0) or models (2) with separate counts: those with the most sessions."""
    sessions: Counter[str] = Counter()
    for group, count in tally.groups.items():
        sessions[group[part]] += count
    ranked = sorted(sessions, key=lambda name: (-sessions[name], name))
    return frozenset(ranked[:NAMES_MAX])


def _split(
    tally: AuditTally, number: int, part: int, named: frozenset[str] | None
) -> dict[str, dict[str, Any]]:
    """Return one rule's counts by agent (`part` 0), day (1) or model (2), without those that are all zero."""
    parts: dict[str, I64] = {}
    for group, counts in tally.counts.items():
        name = group[part] if named is None or group[part] in named else OTHERS[part]
        parts[name] = parts.get(name, 0) + counts[:, number]
    return {name: _named(parts[name]) for name in sorted(parts) if parts[name].any()}


def _by_name(groups: Counter[Group], part: int, named: frozenset[str] | None) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for group, count in groups.items():
        sums[group[part] if named is None or group[part] in named else OTHERS[part]] += count
    return dict(sorted(sums.items()))


def _zeros(rules: int) -> I64:
    return np.zeros((len(COUNTS), rules), dtype=np.int64)


def _named(counts: I64) -> dict[str, Any]:
    """Return the counts by name, with the bounds of the rate."""
    named: dict[str, int] = dict(zip(COUNTS, counts.tolist(), strict=True))
    return {**named, "rate": rate_of(named).as_json()}
