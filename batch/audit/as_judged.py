"""The audit of a live archive by the rule sets that judged it: every event by the one that it names.

Where rules change while sessions run, an occurrence ends under the rules it began with, or goes on under
others with empty history. Both is in the archive: consecutive events of an occurrence with one rule set are
a segment, judged by that set alone, and only the segment that an `end` row belongs to closes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...archive.error import SourceError
from ...archive.rule_sets import read_rule_set
from ...archive.writer import RULES_COLUMN
from ...rules.engine.judge import CompiledRules, Judged, compile_rule_set, judge
from ...rules.engine.records import WitnessCache, records
from ...rules.engine.sessions import Clock, in_segments, occurrences_of, segments_of
from ...rules.model.rule import Rule, RuleSet
from ...schemas.event import Kind
from ...schemas.time import rfc3339
from ..evidence import bundle
from ..prepare.buckets import labelled, until
from ..prepare.options import AuditOptions
from ..prepare.prepare import prepare
from ..sources.discover import Population, SourceFile
from ..sources.event_files import frames, null_count, reading, row_count
from .audit import AuditResult, OnProgress, in_threads, silent, write_verdicts
from .sorted_runs import Runs
from .summary import COUNTS, AuditTally, summary

_NO_TIME = -(1 << 63)
"""A last time that closes nothing: in a live archive every close has its row."""
_NO_RULES = RuleSet((), {})


@dataclass(frozen=True, slots=True)
class ArchivedRuleSet:
    """A rule set of an archive: how many events it judged, the time of the first, the files they are in."""

    digest: str
    rule_set: RuleSet
    compiled: CompiledRules
    events: int
    first: int
    parts: tuple[SourceFile, ...]


def audit_as_judged(
    archive: str | Path, out: Path, terms: AuditOptions, progress: OnProgress = silent
) -> AuditResult:
    """Judge each event of a live archive by the rule set that judged it, and write the bundle `out`.

    The rules are those in the archive's `rules/`. Verdicts of all sets stand together, in the order of any
    bundle, and rules with the same pack and id are counted together. Raises SourceError as `audit`, TRL407
    where events do not say their rule set, TRL408 where one is not in the archive; RuleError where one
    cannot be read any more.
    """
    population = Population()
    with bundle.staged(out) as work:
        scratch = work / ".scratch"
        scratch.mkdir()
        sets = _in_force(archive, prepare(archive, scratch, population, terms))
        rules = _rules(sets)
        tally = _population(sets, len(rules), scratch, terms, progress)
        runs = Runs(scratch)
        for one in sets:
            own = AuditTally(len(one.compiled.rules))
            known: WitnessCache = {}
            for judged in _judging(one, scratch, terms, progress):
                own.add(one.compiled, judged)
                for record in records(one.compiled, judged, known):
                    runs.add(record)
            _count(tally, own, [list(rules).index((rule.pack, rule.id)) for rule in one.compiled.rules])
        shown = [rule for rule, _ in rules.values()]
        examples = write_verdicts(work, runs, shown)
        tally.reject(str(archive), population)
        content = summary(shown, [digest for _, digest in rules.values()], tally, population)
        content |= {"rule_sets": [_told(one) for one in sets]}
        bundle.write_summary(work / bundle.SUMMARY, content)
        (work / bundle.RULES).mkdir()
        for one in sets:
            bundle.write_rules(work / bundle.RULES / one.digest, one.rule_set.sources)
        shutil.rmtree(scratch)
    return AuditResult(content, population, examples)


def _in_force(archive: str | Path, parts: Sequence[SourceFile]) -> list[ArchivedRuleSet]:
    """The rule sets that the events name, in the order of their first events."""
    found: dict[str, list[tuple[int, int, SourceFile]]] = {}
    for part in parts:
        for digest, events, first in _named(archive, part):
            found.setdefault(digest, []).append((events, first, part))
    roots = list(dict.fromkeys(part.path.parent.parent for part in parts))
    sets: list[ArchivedRuleSet] = []
    for digest, own in found.items():
        rule_set = read_rule_set(roots, digest)
        events, first = sum(count for count, _, _ in own), min(time for _, time, _ in own)
        files = tuple(part for _, _, part in own)
        sets.append(ArchivedRuleSet(digest, rule_set, compile_rule_set(rule_set), events, first, files))
    return sorted(sets, key=lambda one: (one.first, one.digest))


def _named(archive: str | Path, part: SourceFile) -> list[tuple[str, int, int]]:
    """The rule sets that the rows of a file name: digest, how many events, the first time."""
    if null_count(part, RULES_COLUMN):
        what = f"holds events that do not say by which rules they were judged, as in {part.name}"
        hint = (
            "archives of tracline's live processes say so; name the rules with --rules, without --as-judged"
        )
        raise SourceError("TRL407", str(archive), what, hint)
    rows = next(frames(part, max(row_count(part), 1), {RULES_COLUMN: pl.String()}))
    events = (pl.col("kind") != Kind.END.value).sum()
    told = rows.group_by(RULES_COLUMN).agg(events.alias("events"), pl.col("time").min().to_physical())
    with reading([part]):
        return list(told.collect(engine="streaming").iter_rows())


def _rules(sets: Sequence[ArchivedRuleSet]) -> dict[tuple[str, str], tuple[Rule, str]]:
    """The rules of all sets by pack and id, each with its digest, as the last set that has it; by packs."""
    latest: dict[tuple[str, str], tuple[Rule, str]] = {}
    for one in reversed(sets):
        for rule, digest in zip(one.compiled.rules, one.compiled.digests, strict=True):
            latest.setdefault((rule.pack, rule.id), (rule, digest))
    return dict(sorted(latest.items(), key=lambda item: item[0][0]))


def _population(
    sets: Sequence[ArchivedRuleSet], rules: int, scratch: Path, terms: AuditOptions, progress: OnProgress
) -> AuditTally:
    """Return who was judged, whatever the rules: events and sessions, each once."""
    parts = list(dict.fromkeys(part for one in sets for part in one.parts))
    clock = Clock(last=_NO_TIME, idle=0, since=terms.since, until=terms.until)
    nothing = compile_rule_set(_NO_RULES)
    counted = AuditTally(0)
    folder = scratch / "population"
    buckets = labelled(parts, nothing.labeler, folder, terms.as_of, partial(progress, "reading"))
    work = partial(judge, nothing, clock=clock, satisfied=False, cut=occurrences_of)
    found = (frame.collect(engine="streaming") for frame in buckets.frames)
    for judged in in_threads(work, found, terms.threads):
        counted.add(nothing, judged)
    counted.rules = rules
    counted.counts = {group: np.zeros((len(COUNTS), rules), dtype=np.int64) for group in counted.groups}
    return counted


def _judging(
    one: ArchivedRuleSet, scratch: Path, terms: AuditOptions, progress: OnProgress
) -> Iterator[Judged]:
    """Label and judge the segments of a rule set, in no particular order."""
    clock = Clock(last=_NO_TIME, idle=0, since=terms.since, until=terms.until)

    def work(rows: pl.DataFrame) -> Judged:
        # What is left out as later must not look like events of another set.
        segments = until(in_segments(rows), terms.as_of)
        return judge(one.compiled, segments, clock, satisfied=terms.satisfied, cut=segments_of)

    folder, tell = scratch / f"set-{one.digest}", partial(progress, "labelling")
    buckets = labelled(one.parts, one.compiled.labeler, folder, None, tell, judged_by=one.digest)
    found = (frame.collect(engine="streaming") for frame in buckets.frames)
    done = 0
    for judged in in_threads(work, found, terms.threads):
        yield judged
        done += len(judged.labelled)
        progress("judging", done, buckets.rows)


def _count(tally: AuditTally, own: AuditTally, places: Sequence[int]) -> None:
    """Add what the rules of one set found; `places` are those of its rules among all."""
    for group, counts in own.counts.items():
        zeros = np.zeros((len(COUNTS), tally.rules), dtype=np.int64)
        tally.counts.setdefault(group, zeros)[:, list(places)] += counts
        # A later part of a session may have another agent than its first.
        tally.groups.setdefault(group, 0)
    tally.crowded.update({places[number]: count for number, count in own.crowded.items()})
    for why, count in own.unjudged.items():
        tally.unjudged[replace(why, rule=places[why.rule])] += count


def _told(one: ArchivedRuleSet) -> Mapping[str, Any]:
    """Return what a summary says of a rule set."""
    return {
        "digest": one.digest,
        "events": one.events,
        "first_time": rfc3339(one.first),
        "packs": sorted(one.rule_set.packs),
        "rules": len(one.compiled.rules),
    }
