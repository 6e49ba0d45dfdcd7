"""The sessions of an archive that a change of rules newly breaks, or clears."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ...rules.comparison.packs import RuleComparison
from ...rules.engine.judge import CompiledRules, Judged, compile_rule_set
from ...rules.engine.status import unmet_findings, violation_findings
from ...rules.model.rule import Rule, RuleSet
from ...schemas.time import NS, rfc3339
from ..audit.audit import silent, sorted_parts
from ..prepare.options import AuditOptions
from ..prepare.prepare import prepare
from ..sources.discover import Population, Sources

PERIOD = 31 * 86_400 * NS
"""The time before the newest event whose sessions are compared: the last month."""
SAMPLES_MAX = 5
"""Sessions of each kind that are named."""
_SIDES = ("left", "right")


class ChangedSession(NamedTuple):
    """A session of an archive."""

    session_id: str
    occurrence: str


@dataclass(frozen=True, slots=True)
class SessionChanges:
    """The sessions that only the right rule breaks, and those that only the left one breaks, sorted."""

    broken: tuple[ChangedSession, ...]
    cleared: tuple[ChangedSession, ...]


def changed_sessions(
    archive: Sources, rules: Sequence[RuleComparison], scratch: Path, options: AuditOptions
) -> Mapping[str, SessionChanges]:
    """Return the sessions of the archive's last month that each change of a rule breaks or clears, by name.

    `scratch` is an empty folder of the caller. Raises SourceError if there is nothing to read.
    """
    compiled = compile_rule_set(RuleSet(tuple(_both_sides(rules)), {}))
    population = Population()
    parts = prepare(archive, scratch, population, options)
    known = (population.extent_of(file.name).last for file in population.inputs)
    newest = max((time for time in known if time is not None), default=None)
    if options.since is None and newest is not None:
        options = replace(options, since=newest - PERIOD)
    found: dict[tuple[str, str], set[ChangedSession]] = {}
    for judged in sorted_parts(parts, compiled, scratch, options, silent):
        _add_broken(compiled, judged, found)
    return {each.name: _changes(each, found) for each in rules}


def _both_sides(rules: Sequence[RuleComparison]) -> Sequence[Rule]:
    """Return the rules of both sides in packs of different names, ordered by pack."""
    pairs = ((side, getattr(each, side), each.name) for each in rules for side in _SIDES)
    named = (
        replace(rule, pack=f"{side}/{rule.pack}", id=name) for side, rule, name in pairs if rule is not None
    )
    return sorted(named, key=lambda rule: rule.pack)


def _add_broken(
    compiled: CompiledRules, judged: Judged, found: dict[tuple[str, str], set[ChangedSession]]
) -> None:
    """Add the sessions of a bucket that each rule breaks, by side and name."""
    breaches = violation_findings(judged.found, judged.rated), unmet_findings(judged.closed, judged.rated)
    begins = judged.sessions.bounds[:-1]
    ids = judged.column("session_id", begins)
    occurrences = judged.column("occurrence", begins).to_physical()
    for each in breaches:
        for slot, column in zip(each.slots.tolist(), each.columns.tolist(), strict=True):
            if judged.sessions.counted[slot]:
                rule = compiled.rules[int(compiled.program.order[column])]
                side = rule.pack.partition("/")[0]
                place = ChangedSession(ids[slot], rfc3339(occurrences[slot]))
                found.setdefault((side, rule.id), set()).add(place)


def _changes(rule: RuleComparison, found: Mapping[tuple[str, str], set[ChangedSession]]) -> SessionChanges:
    left, right = (found.get((side, rule.name), set[ChangedSession]()) for side in _SIDES)
    return SessionChanges(tuple(sorted(right - left)), tuple(sorted(left - right)))
