"""The audit of a live archive by the rule sets that judged it: each event by the set that it names.

If rules change while a session runs, its occurrence ends under its first rules, or continues under others
with an empty history. The archive records both: consecutive events of an occurrence with one rule set are a
segment, judged by that set alone, and only the segment with the `end` row closes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...archive.error import SourceError
from ...archive.rule_sets import read_rule_set
from ...archive.writer import RULES_COLUMN
from ...predict.error import PredictError
from ...predict.following.followed_chain import FollowedChain
from ...rules.engine.judge import JUDGED_COLUMNS, CompiledRules, Judged, compile_rule_set, judge
from ...rules.engine.sessions import Clock, in_segments, occurrences_of, segments_of
from ...rules.model.rule import Rule, RuleSet
from ...schemas.event import Kind
from ...schemas.time import NS_MIN, rfc3339
from ..attestation.attest import UNSIGNED, Attesting, attest
from ..contents.never_true import RuleMistakes, names_never_true, rule_mistakes
from ..evidence import bundle
from ..evidence.output_folder import staged
from ..findings.bundle_rules import keyed
from ..following.archive_following import LIVE_COLUMNS, ArchiveFollowing
from ..following.crossings import FollowedCrossings, followed_crossings
from ..following.unfollowed import events_by_chain, unfollowed_events
from ..prepare.buckets import labelled, until
from ..prepare.options import AuditOptions
from ..sources.discover import Population, SourceFile, Sources, named
from ..sources.event_files import FileSlice, footer, null_count, reading, scan_slices
from .audit import AuditResult, OnProgress, in_threads, read_parts, silent
from .draft import BundleDraft
from .open_sessions import OpenedIn, open_sessions
from .summary import COUNTS, AuditTally, add_risks, summary

FollowRules = Callable[[RuleSet], FollowedChain | None]
"""A function that returns a chain as it follows a rule set, None where it follows none of its rules."""

_CLOSES_NOTHING = NS_MIN
"""A last time that closes no session: in a live archive every close has a row."""
_NO_RULES = RuleSet((), {})


@dataclass(frozen=True, slots=True)
class ArchivedRuleSet:
    """A rule set of an archive: the number of events that it judged, the first time, and their files."""

    digest: str
    rule_set: RuleSet
    compiled: CompiledRules
    events: int
    first: int
    parts: tuple[SourceFile, ...]


def audit_as_judged(
    archive: Sources,
    out: Path,
    options: AuditOptions,
    on_progress: OnProgress = silent,
    attesting: Attesting = UNSIGNED,
    follow: FollowRules | None = None,
) -> AuditResult:
    """Judge each event of a live archive by the rule set that judged it, and write the bundle `out`.

    `follow` gives the chain whose risks are followed where the archive names it, as it follows a rule set.
    The rules are those in the archive's `rules/`. The bundle merges the verdicts of all sets in the usual
    order, and counts rules with the same pack and id together. Raises SourceError like `audit`, TRL407 if an
    event does not name its rule set, TRL408 if the archive lacks one, RuleError if one cannot be read, and
    PredictError (TRL803) if the chain follows none of the sets.
    """
    started, population = attesting.begin(), Population()
    with staged(out) as work:
        scratch = work / bundle.SCRATCH
        parts, tonight = read_parts(archive, scratch, population, options, as_judged=True)
        sets = _rule_sets(archive, parts, parts if tonight is None else tonight.files)
        rules = _rules(sets)
        compiled: dict[str | None, CompiledRules] = {each.digest: each.compiled for each in sets}
        draft = BundleDraft.begin(work, out, archive, population, options, compiled)
        chain, crossings = None, None
        if follow is not None:
            chain, following = _following(sets, follow)
            crossings = followed_crossings(following, scratch, options)
        tally, opened = _population(sets, len(rules), scratch, options, on_progress, crossings)
        if tonight is not None:
            tally.open_sessions += len(tonight.open)
            opened = tonight.open, tonight.files
        unseen = _judge_sets(sets, list(rules), draft, tally, on_progress)
        shown, digests = [rule for rule, _ in rules.values()], [digest for _, digest in rules.values()]
        examples = draft.write_verdicts(shown)
        tally.reject(named(archive), population)
        content = summary(shown, digests, tally, population, options)
        judged_by = keyed(
            pair
            for rule_set in reversed(sets)
            for pair in zip(rule_set.compiled.rules, rule_set.compiled.digests, strict=True)
        )
        distinct = list(judged_by.values())
        found = rule_mistakes(parts, distinct, unseen, options.as_of) if tally.events else RuleMistakes()
        content |= asdict(found)
        content |= {"rule_sets": [_summary_of(rule_set) for rule_set in sets]}
        for rule_set in sets:
            bundle.write_rules(work / bundle.RULES / rule_set.digest, rule_set.rule_set.sources)
        if crossings is not None and chain is not None:
            add_risks(content["rules"].values(), crossings.write(work, ()).figures)
            content |= {"followed": asdict(unfollowed_events(parts, chain.digest, options.as_of))}
        chains = events_by_chain(parts, options.as_of) if follow is None else {}
        waived = draft.finish(content, [opened], judged_by, as_judged=True)
        by_digest = {each.digest: each.compiled for each in sets}
        attest(work, by_digest, options, attesting, started, draft.verdicts, as_judged=True, chain=chain)
    if waived is not None:
        waived.add_to(content)
    return AuditResult(content, population, examples, waived=waived, chains=chains)


def _following(
    sets: Sequence[ArchivedRuleSet], follow: FollowRules
) -> tuple[FollowedChain, ArchiveFollowing]:
    """Return the chain with all rules that it follows in some set, and its following of the live archive."""
    chains = {each.digest: follow(each.rule_set) for each in sets}
    found = [chain for chain in chains.values() if chain is not None]
    if not found:
        hint = "learn the chain again from these rules"
        raise PredictError("TRL803", "the archive", "its rules are none that the chain follows", hint)
    # All of them number the rules of the chain alike.
    risks = {number: risk for chain in found for number, risk in chain.risks.items()}
    chain = replace(found[0], risks=dict(sorted(risks.items())))
    live = {digest: () if each is None else tuple(each.risks) for digest, each in chains.items()}
    return chain, ArchiveFollowing(chain, compile_rule_set(_NO_RULES), live)


def _judge_sets(
    sets: Sequence[ArchivedRuleSet],
    rules: Sequence[tuple[str, str]],
    draft: BundleDraft,
    tally: AuditTally,
    on_progress: OnProgress,
) -> list[tuple[str, str]]:
    """Judge the segments of all sets, and return the propositions that are true and unknown at no event.

    `rules` are the pack and id of the rules that the tally counts.
    """
    seen = dict[tuple[str, str], bool]()
    for rule_set in sets:
        counts = AuditTally(len(rule_set.compiled.rules))
        for judged in _judged_batches(rule_set, draft, on_progress):
            counts.add(rule_set.compiled, judged)
            begins = judged.sessions.bounds[:-1]
            whole = ~judged.sessions.open & (judged.column("seq", begins) == 1).to_numpy()
            draft.add(rule_set.compiled, judged, rule_set.digest, whole)
        _merge(tally, counts, [rules.index((rule.pack, rule.id)) for rule in rule_set.compiled.rules])
        propositions = rule_set.compiled.labeler.propositions
        unseen = names_never_true(propositions, counts.true, counts.unknown)
        seen |= {name: seen.get(name, False) or name not in unseen for name in propositions}
    return [name for name, is_seen in seen.items() if not is_seen]


def _rule_sets(
    archive: Sources, parts: Sequence[SourceFile], files: Sequence[SourceFile]
) -> list[ArchivedRuleSet]:
    """Return the rule sets that the events of parts name, in the order of their first events.

    The rule sets are in the archives of `files`.
    """
    found: dict[str, list[tuple[int, int, SourceFile]]] = {}
    for part in parts:
        for digest, events, first in _digests(archive, part):
            found.setdefault(digest, []).append((events, first, part))
    roots = list(dict.fromkeys(part.path.parent.parent for part in files))
    sets: list[ArchivedRuleSet] = []
    for digest, uses in found.items():
        rule_set = read_rule_set(roots, digest)
        events, first = sum(count for count, _, _ in uses), min(time for _, time, _ in uses)
        named_in = tuple(part for _, _, part in uses)
        sets.append(ArchivedRuleSet(digest, rule_set, compile_rule_set(rule_set), events, first, named_in))
    return sorted(sets, key=lambda archived: (archived.first, archived.digest))


def _digests(archive: Sources, part: SourceFile) -> list[tuple[str, int, int]]:
    """Return the rule sets that the rows of a file name: digest, number of events, first time."""
    facts = footer(part)
    if null_count(part, facts, RULES_COLUMN):
        what = f"has events that do not name the rules that judged them, for example in {part.name}"
        hint = "only archives of tracline's live processes name them; use --rules instead of --as-judged"
        raise SourceError("TRL407", named(archive), what, hint)
    rows = scan_slices([FileSlice(part, 0, facts.rows)], {RULES_COLUMN: pl.String()})
    events = (pl.col("kind") != Kind.END.value).sum()
    uses = rows.group_by(RULES_COLUMN).agg(events.alias("events"), pl.col("time").min().to_physical())
    with reading([part]):
        return list(uses.collect(engine="streaming").iter_rows())


def _rules(sets: Sequence[ArchivedRuleSet]) -> dict[tuple[str, str], tuple[Rule, str]]:
    """Return the rules of all sets by pack and id, each in its latest version, sorted by pack."""
    latest: dict[tuple[str, str], tuple[Rule, str]] = {}
    for rule_set in reversed(sets):
        for rule, digest in zip(rule_set.compiled.rules, rule_set.compiled.digests, strict=True):
            latest.setdefault((rule.pack, rule.id), (rule, digest))
    return dict(sorted(latest.items(), key=lambda item: item[0][0]))


def _population(
    sets: Sequence[ArchivedRuleSet],
    rules: int,
    scratch: Path,
    options: AuditOptions,
    on_progress: OnProgress,
    crossings: FollowedCrossings | None,
) -> tuple[AuditTally, OpenedIn]:
    """Count the judged events and sessions, each once, independently of the rules, and return open ones.

    A chain is followed in them, wherever rules changed.
    """
    parts = list(dict.fromkeys(part for rule_set in sets for part in rule_set.parts))
    clock = Clock(last=_CLOSES_NOTHING, idle=0, since=options.since, until=options.until)
    nothing = compile_rule_set(_NO_RULES)
    counted = AuditTally(0)
    folder = scratch / "population"
    on_rows, columns, labels = partial(on_progress, "reading"), (*JUDGED_COLUMNS, "model"), nothing.labeler
    if crossings is not None:
        columns, labels = (*columns, *LIVE_COLUMNS), crossings.following.labels
    buckets = labelled(parts, labels, folder, options.as_of, on_rows, keep=columns)
    work = partial(judge, nothing, clock=clock, satisfied=False, cut=occurrences_of)
    found = (frame.collect(engine="streaming") for frame in buckets.frames)
    opened: list[pl.DataFrame] = []
    for judged in in_threads(work, found, options.threads):
        counted.add(nothing, judged)
        if crossings is not None:
            crossings.add(judged)
        opened.append(open_sessions(judged))
    counted.rules = rules
    counted.counts = {group: np.zeros((len(COUNTS), rules), dtype=np.int64) for group in counted.groups}
    return counted, (pl.concat(opened) if opened else pl.DataFrame(), parts)


def _judged_batches(
    rule_set: ArchivedRuleSet, draft: BundleDraft, on_progress: OnProgress
) -> Iterator[Judged]:
    """Label and judge the segments of a rule set, in no particular order."""
    options, columns = draft.options, draft.choice.columns
    clock = Clock(last=_CLOSES_NOTHING, idle=0, since=options.since, until=options.until)

    def work(rows: pl.DataFrame) -> Judged:
        # Rows after `as_of` must not look like events of another set, so they are removed after the cut.
        segments = until(in_segments(rows), options.as_of)
        return judge(rule_set.compiled, segments, clock, satisfied=options.satisfied, cut=segments_of)

    folder, on_rows = draft.scratch / f"set-{rule_set.digest}", partial(on_progress, "labelling")
    labeler, digest = rule_set.compiled.labeler, rule_set.digest
    buckets = labelled(rule_set.parts, labeler, folder, None, on_rows, judged_by=digest, keep=columns)
    found = (frame.collect(engine="streaming") for frame in buckets.frames)
    done = 0
    for judged in in_threads(work, found, options.threads):
        yield judged
        done += len(judged.labelled)
        on_progress("judging", done, buckets.rows)


def _merge(tally: AuditTally, added: AuditTally, places: Sequence[int]) -> None:
    """Add the counts of one rule set; `places` are the numbers of its rules among all rules."""
    for group, counts in added.counts.items():
        zeros = np.zeros((len(COUNTS), tally.rules), dtype=np.int64)
        tally.counts.setdefault(group, zeros)[:, list(places)] += counts
        # A later segment of a session may have another agent than the first.
        tally.groups.setdefault(group, 0)
    tally.crowded.update({places[number]: count for number, count in added.crowded.items()})
    for reason, count in added.unjudged.items():
        tally.unjudged[replace(reason, rule=places[reason.rule])] += count


def _summary_of(rule_set: ArchivedRuleSet) -> Mapping[str, Any]:
    """Return the entry of a rule set in the summary."""
    return {
        "digest": rule_set.digest,
        "events": rule_set.events,
        "first_time": rfc3339(rule_set.first),
        "packs": sorted(rule_set.rule_set.packs),
        "rules": len(rule_set.compiled.rules),
    }
