"""The audit: judges an archive by rules and writes a bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from ...predict.following.followed_chain import FollowedChain
from ...rules.engine.judge import JUDGED_COLUMNS, CompiledRules, Judged, compile_rule_set, judge
from ...rules.engine.sessions import Clock
from ...rules.labels.labeler import EventLabels
from ...rules.model.digest import rule_set_digest
from ...rules.model.rule import RuleSet
from ...schemas.time import NS
from ..attestation.attest import UNSIGNED, Attesting, attest
from ..contents.never_true import RuleMistakes, names_never_true, observer_of, rule_mistakes
from ..contents.observed_events import ObservedEvents
from ..evidence import bundle
from ..evidence.output_folder import staged
from ..findings.bundle_rules import keyed
from ..findings.waiving import WaivedCounts
from ..following.archive_following import FOLLOWED_COLUMNS, ArchiveFollowing
from ..following.bucket_crossings import LATE_COLUMNS
from ..following.crossings import NOT_FOLLOWED, FollowedCrossings, followed_crossings
from ..following.unfollowed import events_by_chain, names_chains, unfollowed_events
from ..nights.night import Night, night_of
from ..prepare import spill
from ..prepare.ahead import behind
from ..prepare.buckets import Buckets, label_passes, labelled
from ..prepare.observer import EventObserver
from ..prepare.options import AuditOptions
from ..prepare.prepare import prepare
from ..sources.discover import Population, Reject, SourceFile, Sources, named
from ..sources.event_files import row_count
from .draft import BundleDraft, SampleVerdicts
from .in_order import ROW, PassLabels, disordered, judge_in_order
from .late_columns import HELD, LateColumns, explained
from .open_sessions import OpenedIn, open_in_order, open_sessions
from .row_order import RowOrder, row_order
from .summary import AuditTally, add_risks, summary

FILE_ROWS_MIN = 1_000
"""Average rows of a file below which all sessions are sorted: opening a file twice takes longer."""

Result = TypeVar("Result")

OnProgress = Callable[[str, int, int], None]
"""Called with the current step, the rows done, and the rows in all (0 if unknown)."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The result of an audit. `examples` are the first broken sessions by the rule's name in the summary.

    `rows_in_order` counts the rows that were judged as they came, without a sort. `waived` is None where the
    audit had no waivers; else the summary has its counts, too, which `summary.json` does not have. `chains`
    counts the events by the chain that the archive names, None for none, where no chain was given.
    """

    summary: Any
    population: Population
    examples: SampleVerdicts = field(default_factory=SampleVerdicts)
    rows_in_order: int = 0
    waived: WaivedCounts | None = None
    chains: Mapping[str | None, int] = field(default_factory=dict[str | None, int])


def silent(_step: str, _done: int, _total: int) -> None:
    """Report no progress."""


def audit(
    archive: Sources,
    rule_set: RuleSet,
    out: Path,
    options: AuditOptions,
    on_progress: OnProgress = silent,
    attesting: Attesting = UNSIGNED,
    chain: FollowedChain | None = None,
) -> AuditResult:
    """Judge the archive by the rules and write the bundle `out`, with the risks of the rules by a chain.

    The bytes of the verdicts depend only on the archive and the rules, not on the number of threads or the
    order of files. Raises SourceError if the archive cannot be read or `out` is no bundle, and RuleError if a
    rule exceeds a limit; then nothing is written.
    """
    started = attesting.begin()
    compiled = compile_rule_set(rule_set)
    population = Population()
    with staged(out) as work:
        tally = AuditTally(len(compiled.rules))
        following = None if chain is None else ArchiveFollowing(chain, compiled)
        more = () if following is None else following.more
        draft = BundleDraft.begin(work, out, archive, population, options, {None: compiled}, more)
        crossings = None if following is None else followed_crossings(following, draft.scratch, options)
        parts, tonight = read_parts(archive, draft.scratch, population, options)
        auditing = _Auditing(compiled, draft, tally, on_progress, observer_of(compiled.rules), crossings)
        rows_in_order = auditing.judge(parts)
        if tonight is not None:
            tally.open_sessions += len(tonight.open)
            auditing.opened[:] = [(tonight.open, tonight.files)]
        examples = draft.write_verdicts(compiled.rules)
        tally.reject(named(archive), population)
        content = summary(compiled.rules, compiled.digests, tally, population, options)
        content |= _rule_mistakes(compiled, tally, parts, options, auditing.observed)
        if rule_set.selection:
            content["selection"] = {option: list(words) for option, words in rule_set.selection.items()}
        bundle.write_rules(work / bundle.RULES, rule_set.sources)
        followed = NOT_FOLLOWED
        if crossings is not None:
            followed = crossings.write(work, draft.choice.sessions)
            add_risks(content["rules"].values(), followed.figures)
        chains = events_by_chain(parts, options.as_of) if chain is None else {}
        if chain is not None and names_chains(parts):
            content |= {"followed": asdict(unfollowed_events(parts, chain.digest, options.as_of))}
        by_key = keyed(zip(compiled.rules, compiled.digests, strict=True))
        waived = draft.finish(content, auditing.opened, by_key, risks=followed.drawn)
        by_digest = {rule_set_digest(rule_set): compiled}
        attest(work, by_digest, options, attesting, started, draft.verdicts, chain=chain)
    if waived is not None:
        waived.add_to(content)
    return AuditResult(content, population, examples, rows_in_order, waived, chains)


def read_parts(
    archive: Sources, scratch: Path, population: Population, options: AuditOptions, *, as_judged: bool = False
) -> tuple[tuple[SourceFile, ...], Night | None]:
    """Return the files of the events to judge, as `prepare` does; of a night those that it covers."""
    parts = prepare(archive, scratch, population, options)
    if options.previous_as_of is None:
        return parts, None
    if population.watermark is not None and options.as_of is not None:
        # A later watermark would be that of an archive that has grown.
        population.watermark = min(population.watermark, options.as_of)
    tonight = night_of(parts, scratch / "night", options, as_judged=as_judged)
    for session_id, began in tonight.resumed.iter_rows():
        place = f"session {session_id} of {began:%Y-%m-%dT%H:%M:%SZ}"
        text = "goes on after it was idle for so long that it closed"
        population.reject(Reject(named(archive), place, "session-resumed", text))
    return tonight.parts, tonight


def _rule_mistakes(
    compiled: CompiledRules,
    tally: AuditTally,
    parts: Sequence[SourceFile],
    options: AuditOptions,
    observed: ObservedEvents,
) -> dict[str, Any]:
    """Return the entries of the summary on propositions that are never true, and on likely mistakes."""
    if not tally.events:
        return asdict(RuleMistakes())
    names = names_never_true(compiled.labeler.propositions, tally.true, tally.unknown)
    return asdict(rule_mistakes(parts, compiled.rules, names, options.as_of, observed=observed))


@dataclass(frozen=True, slots=True)
class _Auditing:
    """An audit in progress: its rules, its bundle and counts so far, its progress, and what it observed."""

    compiled: CompiledRules
    draft: BundleDraft
    tally: AuditTally
    on_progress: OnProgress
    observed: ObservedEvents
    crossings: FollowedCrossings | None = None
    opened: list[OpenedIn] = field(default_factory=list["OpenedIn"])

    @property
    def options(self) -> AuditOptions:
        """Return the options of the audit."""
        return self.draft.options

    def judge(self, parts: Sequence[SourceFile]) -> int:
        """Judge the events of all parts, and return the number of rows that were judged without a sort."""
        rows = sum(map(row_count, parts))
        if rows <= max(spill.BUCKET_ROWS, len(parts) * FILE_ROWS_MIN):
            self._sort_parts(parts)
            return 0
        passes, on_rows = tuple(spill.passes(parts)), partial(self.on_progress, "reading")
        found = row_order(passes, self.draft.scratch / "occurrences", self.options, on_rows)
        if not found.is_ordered:
            self._sort_parts(parts)
            return 0
        self._judge_in_order(passes, found)
        if found.disordered_rows:
            self._sort(passes, found)
        return sum(found.sizes) - found.disordered_rows

    def _sort_parts(self, parts: Sequence[SourceFile]) -> None:
        """Judge all sessions, sorted."""
        scratch, columns = self.draft.scratch, self.draft.choice.columns
        batches = sorted_parts(
            parts,
            self.compiled,
            scratch,
            self.options,
            self.on_progress,
            columns,
            self.observed,
            self._labels,
        )
        self._add_all(batches, parts)

    def _judge_in_order(self, passes: Sequence[spill.Pass], found: RowOrder) -> None:
        """Judge the sessions in order."""
        names = [name for name in self.draft.choice.columns if name not in HELD]
        late = LateColumns(names, passes, found, self.options.as_of)
        on_rows = partial(self.on_progress, "judging")
        labels = PassLabels(self._labels, FOLLOWED_COLUMNS if self.crossings else (), self.observed)
        judged = judge_in_order(self.compiled, passes, found, self.options, on_rows, labels)

        def explain(waiting: Sequence[Judged]) -> None:
            for part in late.read(waiting):
                self._explain(part)

        counted = self._counted(self._followed_late(judged, passes, found))
        behind(explain, explained(self.compiled, counted, found, self._more), self.options.threads)
        self.opened.append(open_in_order(passes, found, self.options.as_of))

    def _sort(self, passes: Sequence[spill.Pass], found: RowOrder) -> None:
        """Judge the disordered sessions."""
        rows = disordered(passes, found, self.options.as_of)
        on_rows = partial(self.on_progress, "labelling")
        buckets = label_passes(
            rows,
            found.disordered_rows,
            self._labels,
            self.draft.scratch,
            None,
            on_rows,
            self.draft.choice.columns,
        )
        batches = _sorted(buckets, self.compiled, found.clock, self.options, self.on_progress)
        self._add_all(batches, [part for one_pass in passes for part in one_pass.parts])

    def _add_all(self, batches: Iterable[Judged], files: Sequence[SourceFile]) -> None:
        """Explain and count buckets with all columns, whose rows are in these files."""
        opened: list[pl.DataFrame] = []

        def counted() -> Iterator[Judged]:
            for judged in self._counted(self._followed(batches)):
                opened.append(open_sessions(judged))
                yield judged

        # Records are made in plain Python, which would stop the reading and judging of the next rows.
        behind(self._explain, counted(), self.options.threads)
        self.opened.append((pl.concat(opened) if opened else pl.DataFrame(), list(dict.fromkeys(files))))

    @property
    def _labels(self) -> EventLabels:
        """Return the labels of all events: those of the rules, and those of the chain that is followed."""
        return self.compiled.labeler if self.crossings is None else self.crossings.following.labels

    @property
    def _more(self) -> tuple[str, ...]:
        """Return the columns of labels beside those of the rules."""
        return () if self.crossings is None else self.crossings.following.more

    def _followed(self, batches: Iterable[Judged]) -> Iterator[Judged]:
        """Yield the buckets, which have all columns, and follow the chain in them."""
        for judged in batches:
            if self.crossings is not None:
                self.crossings.add(judged)
            yield judged

    def _followed_late(
        self, batches: Iterable[Judged], passes: Sequence[spill.Pass], found: RowOrder
    ) -> Iterator[Judged]:
        """Yield the buckets of sessions in order, and follow the chain in them."""
        if self.crossings is None:
            yield from batches
            return
        late = LateColumns(LATE_COLUMNS, passes, found, self.options.as_of, gaps=False)
        for judged in batches:
            self.crossings.add_rows(judged, ROW, late.at)
            yield judged
        self.crossings.read_waiting(ROW, late.at)

    def _counted(self, batches: Iterable[Judged]) -> Iterator[Judged]:
        """Yield the buckets, and count what needs no columns that only verdicts have."""
        for judged in batches:
            self.tally.count(self.compiled, judged)
            yield judged

    def _explain(self, judged: Judged) -> None:
        """Add the evidence of a bucket, and count the reasons why rules are unjudged."""
        self.tally.explain(self.compiled, judged)
        self.draft.add(self.compiled, judged)


def judged_batches(
    archive: Sources,
    compiled: CompiledRules,
    scratch: Path,
    options: AuditOptions,
    population: Population,
    on_progress: OnProgress = silent,
    keep: Sequence[str] = JUDGED_COLUMNS,
) -> Iterator[Judged]:
    """Read, label and judge an archive by whole sessions, in no particular order.

    `scratch` is an empty folder of the caller. The results have the columns `keep`, which must include those
    that judging needs. Raises SourceError if there is nothing to read.
    """
    parts = prepare(archive, scratch, population, options)
    return sorted_parts(parts, compiled, scratch, options, on_progress, keep)


def sorted_parts(
    parts: Sequence[SourceFile],
    compiled: CompiledRules,
    scratch: Path,
    options: AuditOptions,
    on_progress: OnProgress,
    keep: Sequence[str] = JUDGED_COLUMNS,
    observer: EventObserver | None = None,
    labels: EventLabels | None = None,
) -> Iterator[Judged]:
    """Label all parts, sort their events and judge them; the `observer` sees all events.

    `labels` are those of the rules, and of others beside them.
    """
    on_rows, labels = partial(on_progress, "labelling"), labels or compiled.labeler
    buckets = labelled(parts, labels, scratch, options.as_of, on_rows, keep=keep, observer=observer)
    last = buckets.last if options.as_of is None else options.as_of
    clock = Clock(last=last or 0, idle=round(options.idle_s * NS), since=options.since, until=options.until)
    yield from _sorted(buckets, compiled, clock, options, on_progress)


def _sorted(
    buckets: Buckets, compiled: CompiledRules, clock: Clock, options: AuditOptions, on_progress: OnProgress
) -> Iterator[Judged]:
    """Sort the events of each bucket and judge them."""
    done = 0
    work = partial(judge, compiled, clock=clock, satisfied=options.satisfied)
    frames = (frame.collect(engine="streaming") for frame in buckets.frames)
    for judged in in_threads(work, frames, options.threads):
        yield judged
        done += len(judged.labelled)
        on_progress("judging", done, buckets.rows)


def in_threads(
    work: Callable[[pl.DataFrame], Result], frames: Iterator[pl.DataFrame], threads: int
) -> Iterator[Result]:
    """Yield the result for each frame as it finishes; at most `threads` frames are in progress."""
    with ThreadPoolExecutor(threads) as pool:
        running: set[Future[Result]] = {pool.submit(work, frame) for frame in islice(frames, threads)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
                running |= {pool.submit(work, frame) for frame in islice(frames, 1)}
