"""The audit: judges an archive by rules and writes a bundle."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from ...rules.engine.judge import JUDGED_COLUMNS, CompiledRules, Judged, compile_rule_set, judge
from ...rules.engine.records import RecordKey, WitnessCache, records
from ...rules.engine.sessions import Clock
from ...rules.model.rule import Rule, RuleSet
from ...schemas.records.verdict_record import VerdictRecord, decode_verdict
from ...schemas.time import NS
from ...schemas.verdict import Verdict
from ..evidence import bundle
from ..prepare.buckets import labelled
from ..prepare.options import AuditOptions
from ..prepare.prepare import prepare
from ..sources.discover import Population
from .sorted_runs import PlacedLine, Runs
from .summary import AuditTally, rule_keys, summary

EXAMPLES_MAX = 3
"""Findings per rule in a result."""

TYPED_RECORDS = 10_000
"""Records per row group of `verdicts.parquet`."""

OnProgress = Callable[[str, int, int], None]
"""Called with the current step, the rows done, and the rows in all (0 if unknown)."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The result of an audit. `examples` are the first broken sessions by the rule's name in the summary."""

    summary: Any
    population: Population
    examples: dict[str, list[VerdictRecord]] = field(default_factory=dict[str, list[VerdictRecord]])


def silent(_step: str, _done: int, _total: int) -> None:
    """Report no progress."""


def audit(
    archive: str | Path, rule_set: RuleSet, out: Path, options: AuditOptions, on_progress: OnProgress = silent
) -> AuditResult:
    """Judge the archive by the rules and write the bundle `out`.

    The bytes of the verdicts depend only on the archive and the rules, not on the number of threads or the
    order of files. Raises SourceError if the archive cannot be read or `out` is no bundle, and RuleError if a
    rule exceeds a limit; then nothing is written.
    """
    compiled = compile_rule_set(rule_set)
    population = Population()
    with bundle.staged(out) as work:
        scratch = work / ".scratch"
        scratch.mkdir()
        tally = AuditTally(len(compiled.rules))
        runs = _judged(archive, compiled, scratch, options, population, tally, on_progress)
        examples = write_verdicts(work, runs, compiled.rules)
        tally.reject(str(archive), population)
        content = summary(compiled.rules, compiled.digests, tally, population)
        bundle.write_summary(work / bundle.SUMMARY, content)
        bundle.write_rules(work / bundle.RULES, rule_set.sources)
        shutil.rmtree(scratch)
    return AuditResult(content, population, examples)


def write_verdicts(work: Path, runs: Runs, rules: Sequence[Rule]) -> dict[str, list[VerdictRecord]]:
    """Write the files of verdicts into a bundle, and return the examples of each rule that has any."""
    keys = {(r.pack, r.id): key for key, r in zip(rule_keys(rules), rules, strict=True)}
    examples: dict[str, list[VerdictRecord]] = {}
    typed = bundle.typed_writer(work / bundle.TYPED_VERDICTS)
    with (work / bundle.VERDICTS).open("wb") as verdicts, typed as write_typed:
        for block in _blocks(runs.merged(), TYPED_RECORDS):
            lines = [text for _, text in block]
            verdicts.writelines(lines)
            write_typed(lines)
            for at, text in block:
                _add_example(examples.setdefault(keys[at.pack, at.rule], []), at, text)
    return examples


def _judged(
    archive: str | Path,
    compiled: CompiledRules,
    scratch: Path,
    options: AuditOptions,
    population: Population,
    tally: AuditTally,
    on_progress: OnProgress,
) -> Runs:
    """Read, label and judge. The caller must read the runs before it removes `scratch`."""
    known: WitnessCache = {}
    runs = Runs(scratch)
    for judged in judged_batches(archive, compiled, scratch, options, population, on_progress):
        tally.add(compiled, judged)
        for record in records(compiled, judged, known):
            runs.add(record)
    return runs


def judged_batches(
    archive: str | Path,
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
    on_rows = partial(on_progress, "labelling")
    buckets = labelled(parts, compiled.labeler, scratch, options.as_of, on_rows, keep=keep)
    last = buckets.last if options.as_of is None else options.as_of
    clock = Clock(last=last or 0, idle=round(options.idle_s * NS), since=options.since, until=options.until)
    done = 0

    work = partial(judge, compiled, clock=clock, satisfied=options.satisfied)
    frames = (frame.collect(engine="streaming") for frame in buckets.frames)
    for judged in in_threads(work, frames, options.threads):
        yield judged
        done += len(judged.labelled)
        on_progress("judging", done, buckets.rows)


def _blocks(found: Iterable[PlacedLine], size: int) -> Iterator[list[PlacedLine]]:
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
