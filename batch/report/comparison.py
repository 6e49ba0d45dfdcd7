"""Two bundles compared, such as those of two nights: population, rates, and new and vanished violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import msgspec

from ...rules.engine.records import RecordKey, record_key
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.records.violation_rate import ViolationRate, rate_of
from ...schemas.verdict import BREACHES
from ..evidence.bundle import SUMMARY, VERDICTS, read_verdicts
from .damage import damages

POPULATION = ("files", "rows", "events", "sessions", "open_sessions", "gaps", "rejected", "duplicates")
"""The compared counts of the population."""
LISTED_MAX = 20
"""New, and vanished, violations that a comparison lists, the most severe ones; the others are counted."""


@dataclass(frozen=True, slots=True)
class ComparedRule:
    """A rule in both bundles or in one: the rates, and the numbers of new and vanished violations.

    `is_changed` is true where the bundles have the rule with different digests.
    """

    key: str
    before: ViolationRate | None
    now: ViolationRate | None
    is_changed: bool
    new: int
    vanished: int


@dataclass(frozen=True, slots=True)
class ChangedBundle:
    """The changes from one bundle to another; `new` and `vanished` list the most severe violations."""

    population: Mapping[str, tuple[int, int]]
    rules: tuple[ComparedRule, ...]
    new: tuple[VerdictRecord, ...]
    vanished: tuple[VerdictRecord, ...]


def compare_bundles(before: Path, now: Path) -> ChangedBundle:
    """Return what changed between two bundles.

    A violation is in both if they have the verdict at the same event, of the same rule and slice, whatever
    the rule's digest. Raises SourceError (TRL424) if a file of a bundle is missing or damaged.
    """
    with damages(before):
        old = msgspec.json.decode((before / SUMMARY).read_bytes())
        old_counts = _population(old)
        old_rules = {(entry["pack"], entry["id"]): (key, entry) for key, entry in old["rules"].items()}
    with damages(now):
        new = msgspec.json.decode((now / SUMMARY).read_bytes())
        new_counts = _population(new)
        new_rules = {(entry["pack"], entry["id"]): (key, entry) for key, entry in new["rules"].items()}
    counts: dict[str, Counter[tuple[str, str]]] = {"new": Counter(), "vanished": Counter()}
    listed: dict[str, list[VerdictRecord]] = {"new": [], "vanished": []}
    for change, record in _changes(before, now):
        counts[change][record.pack, record.rule] += 1
        # Sorting is stable: of one severity the first ones in the bundle's order stay.
        listed[change] = sorted([*listed[change], record], key=_severest)[:LISTED_MAX]
    rules = [
        _rule(old_rules.get(name), new_rules.get(name), counts["new"][name], counts["vanished"][name])
        for name in dict.fromkeys([*new_rules, *old_rules])
    ]
    return ChangedBundle(
        population={name: (old_counts[name], new_counts[name]) for name in POPULATION},
        rules=tuple(rules),
        new=tuple(listed["new"]),
        vanished=tuple(listed["vanished"]),
    )


def _severest(record: VerdictRecord) -> int:
    return -record.severity.rank


def _population(summary: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(summary["population"][name]) for name in POPULATION}


def _rule(
    before: tuple[str, Mapping[str, Any]] | None,
    now: tuple[str, Mapping[str, Any]] | None,
    new: int,
    vanished: int,
) -> ComparedRule:
    key, _ = now or before or ("", {})
    digests = {found[1]["rule_digest"] for found in (before, now) if found is not None}
    rates = [None if found is None else rate_of(found[1]) for found in (before, now)]
    return ComparedRule(key, rates[0], rates[1], len(digests) > 1, new, vanished)


def _changes(before: Path, now: Path) -> Iterator[tuple[Literal["new", "vanished"], VerdictRecord]]:
    """Yield the violations that only one of the bundles has; both are sorted by the same keys."""
    both = merge(_breaches(before, False), _breaches(now, True), key=lambda found: found[0])
    for _, group in groupby(both, key=lambda found: found[0]):
        found = list(group)
        if len({is_now for _, is_now, _ in found}) == 1:
            for _, is_now, record in found:
                yield "new" if is_now else "vanished", record


def _breaches(bundle: Path, is_now: bool) -> Iterator[tuple[RecordKey, bool, VerdictRecord]]:
    with damages(bundle):
        for record in read_verdicts(bundle / VERDICTS):
            if record.verdict in BREACHES:
                yield record_key(record), is_now, record
