"""The audit: judges an archive by rules and writes a bundle."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from ...rules.engine.judge import JUDGED_COLUMNS, CompiledRules, Judged, compile_rule_set, judge
from ...rules.engine.records import RecordKey, record_line, records
from ...rules.engine.sessions import Clock
from ...rules.model.digest import rule_set_digest
from ...rules.model.rule import Rule, RuleSet
from ...schemas.records.verdict_record import VerdictRecord, decode_verdict
from ...schemas.time import NS, rfc3339
from ...schemas.verdict import Verdict
from ..attestation.attest import UNSIGNED, Attesting, attest
from ..evidence import bundle
from ..evidence.canonical_json import write_canonical
from ..evidence.certificates import CERTIFICATES, Certificates, SessionPlace
from ..evidence.sorted_lines import SortedLines
from ..findings.bundle_rules import keyed
from ..findings.inputs import write_inputs
from ..findings.waiving import WaivedCounts, Waiving
from ..nights.night import Night, night_of
from ..prepare import spill
from ..prepare.ahead import behind
from ..prepare.buckets import Buckets, label_passes, labelled
from ..prepare.options import AuditOptions
from ..prepare.prepare import prepare
from ..report.drawn import write_sessions
from ..report.page import write_report
from ..sources.discover import Population, SourceFile, Sources, named
from ..sources.event_files import row_count
from .in_order import disordered, judge_in_order
from .late_columns import LateColumns, with_findings
from .never_true import names_never_true, never_true
from .open_sessions import OpenedIn, open_in_order, open_sessions, write_open
from .row_order import RowOrder, row_order
from .summary import AuditTally, rule_keys, summary

EXAMPLES_MAX = 3
"""Findings per rule in a result."""

FILE_ROWS_MIN = 1_000
"""Average rows of a file below which all sessions are sorted: opening a file twice takes longer."""

TYPED_RECORDS = 10_000
"""Records per row group of `verdicts.parquet`."""

OnProgress = Callable[[str, int, int], None]
"""Called with the current step, the rows done, and the rows in all (0 if unknown)."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The result of an audit. `examples` are the first broken sessions by the rule's name in the summary.

    `rows_in_order` counts the rows that were judged as they came, without a sort. `waived` is None where the
    audit had no waivers; else the summary has its counts, too, which `summary.json` does not have.
    """

    summary: Any
    population: Population
    examples: dict[str, list[VerdictRecord]] = field(default_factory=dict[str, list[VerdictRecord]])
    rows_in_order: int = 0
    waived: WaivedCounts | None = None


def silent(_step: str, _done: int, _total: int) -> None:
    """Report no progress."""


def audit(
    archive: Sources,
    rule_set: RuleSet,
    out: Path,
    options: AuditOptions,
    on_progress: OnProgress = silent,
    attesting: Attesting = UNSIGNED,
) -> AuditResult:
    """Judge the archive by the rules and write the bundle `out`.

    The bytes of the verdicts depend only on the archive and the rules, not on the number of threads or the
    order of files. Raises SourceError if the archive cannot be read or `out` is no bundle, and RuleError if a
    rule exceeds a limit; then nothing is written.
    """
    started = attesting.begin()
    compiled = compile_rule_set(rule_set)
    population = Population()
    with bundle.staged(out) as work:
        scratch = work / ".scratch"
        scratch.mkdir()
        tally = AuditTally(len(compiled.rules))
        lines = SortedLines(scratch / "verdicts", RecordKey)
        certificates = new_certificates({None: compiled}, scratch, options)
        parts, tonight = read_parts(archive, scratch, population, options)
        auditing = _Auditing(compiled, scratch, options, tally, lines, certificates, on_progress)
        rows_in_order = auditing.judge(parts)
        if tonight is not None:
            tally.open_sessions += len(tonight.open)
            auditing.opened[:] = [(tonight.open, tonight.files)]
        waiving = new_waiving(work, options)
        examples = write_verdicts(work, lines, compiled.rules, options.threads, waiving)
        waived = None if waiving is None else waiving.finish()
        certificates.write(work / CERTIFICATES)
        write_open(work / bundle.OPEN_SESSIONS, auditing.opened, population.inputs, options.as_of)
        tally.reject(named(archive), population)
        content = summary(compiled.rules, compiled.digests, tally, population)
        content["never_true"] = _never_true(compiled, tally, parts, options)
        if rule_set.selection:
            content["selection"] = {option: list(words) for option, words in rule_set.selection.items()}
        write_canonical(work / bundle.SUMMARY, content)
        bundle.write_rules(work / bundle.RULES, rule_set.sources)
        write_inputs(work, out, archive, population, options)
        write_sessions(work, compiled, parts, options)
        write_report(work, keyed(zip(compiled.rules, compiled.digests, strict=True)))
        shutil.rmtree(scratch)
        attest(work, {rule_set_digest(rule_set): compiled}, options, attesting, started)
    if waived is not None:
        waived.add_to(content)
    return AuditResult(content, population, examples, rows_in_order, waived)


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
    return tonight.parts, tonight


def _never_true(
    compiled: CompiledRules, tally: AuditTally, parts: Sequence[SourceFile], options: AuditOptions
) -> list[dict[str, Any]]:
    """Return the entry of the summary on propositions that are true at no event."""
    if not tally.events:
        return []
    names = names_never_true(compiled.labeler.propositions, tally.true, tally.unknown)
    return [asdict(each) for each in never_true(parts, compiled.rules, names, options.as_of)]


def new_certificates(
    rule_sets: Mapping[str | None, CompiledRules], scratch: Path, options: AuditOptions
) -> Certificates:
    """Return the certificates of an audit that begins."""
    since, until = (None if time is None else rfc3339(time) for time in (options.since, options.until))
    return Certificates(rule_sets, (since, until), SortedLines(scratch / "certificates", SessionPlace))


def new_waiving(work: Path, options: AuditOptions) -> Waiving | None:
    """Return the matching of verdicts with the waivers of an audit, None if it has none."""
    at = options.waivers_in_force_at
    return None if options.waivers is None or at is None else Waiving(options.waivers, at, work)


def write_verdicts(
    work: Path,
    found: SortedLines[RecordKey],
    rules: Sequence[Rule],
    threads: int,
    waiving: Waiving | None = None,
) -> dict[str, list[VerdictRecord]]:
    """Write the files of verdicts into a bundle, and return the examples of each rule that has any.

    Waived verdicts are no examples.
    """
    keys = {(r.pack, r.id): key for key, r in zip(rule_keys(rules), rules, strict=True)}
    examples: dict[str, list[VerdictRecord]] = {}

    def written(verdicts: BinaryIO) -> Iterator[list[bytes]]:
        for block in _blocks(found.merged(), TYPED_RECORDS):
            lines = [text for _, text in block]
            verdicts.writelines(lines)
            for at, text in block:
                if waiving is None or not waiving.waives(at, text):
                    _add_example(examples.setdefault(keys[at.pack, at.rule], []), at, text)
            yield lines

    typed = bundle.typed_writer(work / bundle.TYPED_VERDICTS)
    with (work / bundle.VERDICTS).open("wb") as verdicts, typed as write_typed:
        behind(write_typed, written(verdicts), threads)
    return examples


@dataclass(frozen=True, slots=True)
class _Auditing:
    """An audit in progress: its rules, options and progress, and the counts and records so far."""

    compiled: CompiledRules
    scratch: Path
    options: AuditOptions
    tally: AuditTally
    lines: SortedLines[RecordKey]
    certificates: Certificates
    on_progress: OnProgress
    opened: list[OpenedIn] = field(default_factory=list["OpenedIn"])

    def judge(self, parts: Sequence[SourceFile]) -> int:
        """Judge the events of all parts, and return the number of rows that were judged without a sort."""
        rows = sum(map(row_count, parts))
        if rows <= max(spill.BUCKET_ROWS, len(parts) * FILE_ROWS_MIN):
            self._sort_parts(parts)
            return 0
        passes, on_rows = tuple(spill.passes(parts)), partial(self.on_progress, "reading")
        found = row_order(passes, self.scratch / "occurrences", self.options, on_rows)
        if not found.is_ordered:
            self._sort_parts(parts)
            return 0
        self._judge_in_order(passes, found)
        if found.disordered_rows:
            self._sort(passes, found)
        return sum(found.sizes) - found.disordered_rows

    def _sort_parts(self, parts: Sequence[SourceFile]) -> None:
        """Judge all sessions, sorted."""
        batches = sorted_parts(parts, self.compiled, self.scratch, self.options, self.on_progress)
        self._add_all(batches, parts)

    def _judge_in_order(self, passes: Sequence[spill.Pass], found: RowOrder) -> None:
        """Judge the sessions in order."""
        late = LateColumns(passes, found, self.options.as_of)
        on_rows = partial(self.on_progress, "judging")
        judged = judge_in_order(self.compiled, passes, found, self.options, on_rows)

        def explain(waiting: Sequence[Judged]) -> None:
            for part in late.read(waiting):
                self._explain(part)

        behind(explain, with_findings(self.compiled, self._counted(judged)), self.options.threads)
        self.opened.append(open_in_order(passes, found, self.options.as_of))

    def _sort(self, passes: Sequence[spill.Pass], found: RowOrder) -> None:
        """Judge the disordered sessions."""
        rows = disordered(passes, found, self.options.as_of)
        on_rows, labeler = partial(self.on_progress, "labelling"), self.compiled.labeler
        buckets = label_passes(
            rows, found.disordered_rows, labeler, self.scratch, None, on_rows, JUDGED_COLUMNS
        )
        batches = _sorted(buckets, self.compiled, found.clock, self.options, self.on_progress)
        self._add_all(batches, [part for one_pass in passes for part in one_pass.parts])

    def _add_all(self, batches: Iterable[Judged], files: Sequence[SourceFile]) -> None:
        """Explain and count buckets with all columns, whose rows are in these files."""
        opened: list[pl.DataFrame] = []

        def counted() -> Iterator[Judged]:
            for judged in self._counted(batches):
                opened.append(open_sessions(judged))
                yield judged

        # Records are made in plain Python, which would stop the reading and judging of the next rows.
        behind(self._explain, counted(), self.options.threads)
        self.opened.append((pl.concat(opened) if opened else pl.DataFrame(), list(dict.fromkeys(files))))

    def _counted(self, batches: Iterable[Judged]) -> Iterator[Judged]:
        """Yield the buckets, and count what needs no columns that only verdicts have."""
        for judged in batches:
            self.tally.count(self.compiled, judged)
            yield judged

    def _explain(self, judged: Judged) -> None:
        """Write the records and certificates of a bucket, and count the reasons why rules are unjudged."""
        self.tally.explain(self.compiled, judged)
        for record in records(self.compiled, judged):
            self.lines.add(*record_line(record))
        self.certificates.add(judged)


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
) -> Iterator[Judged]:
    """Label all parts, sort their events and judge them by whole sessions, in no particular order."""
    on_rows = partial(on_progress, "labelling")
    buckets = labelled(parts, compiled.labeler, scratch, options.as_of, on_rows, keep=keep)
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


def _blocks(found: Iterable[tuple[RecordKey, bytes]], size: int) -> Iterator[list[tuple[RecordKey, bytes]]]:
    """Yield the lines in lists of bounded length."""
    rest = iter(found)
    while block := list(islice(rest, size)):
        yield block


def in_threads(
    work: Callable[[pl.DataFrame], Judged], frames: Iterator[pl.DataFrame], threads: int
) -> Iterator[Judged]:
    """Yield the result for each frame as it finishes; at most `threads` frames are in progress."""
    with ThreadPoolExecutor(threads) as pool:
        running: set[Future[Judged]] = {pool.submit(work, frame) for frame in islice(frames, threads)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
                running |= {pool.submit(work, frame) for frame in islice(frames, 1)}


def _add_example(examples: list[VerdictRecord], at: RecordKey, text: bytes) -> None:
    """Add a record to the examples if it is a breach in a session without an example."""
    if len(examples) == EXAMPLES_MAX or at.verdict not in (Verdict.VIOLATED, Verdict.UNMET):
        return
    known = {(example.session_id, example.occurrence) for example in examples}
    if (at.session_id, at.occurrence) not in known:
        record = decode_verdict(text)
        if not record.history:
            examples.append(record)
