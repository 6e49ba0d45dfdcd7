"""The audit: an archive and rules in, a bundle out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from ...rules.engine.judge import JUDGED_COLUMNS, CompiledRules, Judged, compile_rule_set, judge
from ...rules.engine.records import Record, RecordKey, WitnessCache, records
from ...rules.engine.sessions import Clock
from ...rules.model.rule import Rule, RuleSet
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
"""Findings that an outcome keeps of each rule."""

TYPED_RECORDS = 10_000
"""Records that are written as a row group of Parquet."""

OnProgress = Callable[[str, int, int], None]
"""Hears what is being done, how far it has come, and of how much (0 where that is not known yet)."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What was found. `examples` holds, by the rule's name in the summary, its first broken sessions."""

    summary: Any
    population: Population
    examples: dict[str, list[Record]] = field(default_factory=dict[str, list[Record]])


def silent(_what: str, _done: int, _of: int) -> None:
    """Say nothing."""


def audit(
    archive: str | Path, rule_set: RuleSet, out: Path, terms: AuditOptions, progress: OnProgress = silent
) -> AuditResult:
    """Judge the archive by the rules and write the bundle `out`.

    The same archive and rules give the same bytes of verdicts for any number of threads and any order of
    the files. Raises SourceError where the archive cannot be read or `out` is in the way, RuleError where
    a rule runs into a limit; then nothing is written.
    """
    compiled = compile_rule_set(rule_set)
    population = Population()
    with bundle.staged(out) as work:
        scratch = work / ".scratch"
        scratch.mkdir()
        tally = AuditTally(len(compiled.rules))
        runs = _judged(archive, compiled, scratch, terms, population, tally, progress)
        examples = write_verdicts(work, runs, compiled.rules)
        tally.reject(str(archive), population)
        content = summary(compiled.rules, compiled.digests, tally, population)
        bundle.write_summary(work / bundle.SUMMARY, content)
        bundle.write_rules(work / bundle.RULES, rule_set.sources)
        shutil.rmtree(scratch)
    return AuditResult(content, population, examples)


def write_verdicts(work: Path, runs: Runs, rules: Sequence[Rule]) -> dict[str, list[Record]]:
    """Write the files of verdicts into a bundle; gives the examples of each rule that has any."""
    keys = {(r.pack, r.id): key for key, r in zip(rule_keys(rules), rules, strict=True)}
    examples: dict[str, list[Record]] = {}
    typed = bundle.typed_writer(work / bundle.TYPED_VERDICTS)
    with (work / bundle.VERDICTS).open("wb") as verdicts, typed as write_typed:
        for some in _pieces(runs.merged(), TYPED_RECORDS):
            lines = [text for _, text in some]
            verdicts.writelines(lines)
            write_typed(lines)
            for at, text in some:
                _keep(examples.setdefault(keys[at.pack, at.rule], []), at, text)
    return examples


def _judged(
    archive: str | Path,
    compiled: CompiledRules,
    scratch: Path,
    terms: AuditOptions,
    population: Population,
    tally: AuditTally,
    progress: OnProgress,
) -> Runs:
    """Read, label and judge; what was found is to be read before `scratch` is taken away."""
    known: WitnessCache = {}
    runs = Runs(scratch)
    for judged in judged_batches(archive, compiled, scratch, terms, population, progress):
        tally.add(compiled, judged)
        for record in records(compiled, judged, known):
            runs.add(record)
    return runs


def judged_batches(
    archive: str | Path,
    compiled: CompiledRules,
    scratch: Path,
    terms: AuditOptions,
    population: Population,
    progress: OnProgress = silent,
    keep: Sequence[str] = JUDGED_COLUMNS,
) -> Iterator[Judged]:
    """Read, label and judge an archive by whole sessions, in no particular order of them.

    `scratch` is an empty folder of the caller's. What is judged has the columns `keep`, those that judging
    needs among them. Raises SourceError where there is nothing to read.
    """
    parts = prepare(archive, scratch, population, terms)

    def told(rows: int, of: int) -> None:
        progress("labelling", rows, of)

    buckets = labelled(parts, compiled.labeler, scratch, terms.as_of, told, keep=keep)
    last = buckets.last if terms.as_of is None else terms.as_of
    clock = Clock(last=last or 0, idle=round(terms.idle_s * NS), since=terms.since, until=terms.until)
    done = 0

    def one(rows: pl.DataFrame) -> Judged:
        return judge(compiled, rows, clock, satisfied=terms.satisfied)

    frames = (frame.collect(engine="streaming") for frame in buckets.frames)
    for judged in in_threads(one, frames, terms.threads):
        yield judged
        done += len(judged.labelled)
        progress("judging", done, buckets.rows)


def _pieces(found: Iterable[PlacedLine], size: int) -> Iterator[list[PlacedLine]]:
    """Yield what was found, in lists of bounded length."""
    rest = iter(found)
    while piece := list(islice(rest, size)):
        yield piece


def in_threads(
    work: Callable[[pl.DataFrame], Judged], frames: Iterator[pl.DataFrame], threads: int
) -> Iterator[Judged]:
    """The work done on each frame, as it is finished; no more than `threads` are begun and not yet used."""
    with ThreadPoolExecutor(threads) as pool:
        running: set[Future[Judged]] = {pool.submit(work, frame) for frame in islice(frames, threads)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
                running |= {pool.submit(work, frame) for frame in islice(frames, 1)}


def _keep(examples: list[Record], at: RecordKey, text: bytes) -> None:
    """Keep a record as an example if it is a breach in a session that has none among them yet."""
    if len(examples) == EXAMPLES_MAX or at.verdict not in (Verdict.VIOLATED, Verdict.UNMET):
        return
    known = {(example["session_id"], example["occurrence"]) for example in examples}
    if (at.session_id, at.occurrence) not in known:
        record = orjson.loads(text)
        if not record["history"]:
            examples.append(record)
