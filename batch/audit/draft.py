"""The bundle of an audit in progress: what is known of its verdicts, and its files at the end."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...predict.following.risk_courses import RiskCourse
from ...rules.engine.judge import CompiledRules, Judged
from ...rules.engine.records import RecordKey, record_line, records
from ...rules.model.arrays import Mask
from ...rules.model.rule import Rule
from ...schemas.records.verdict_record import VerdictRecord, decode_verdict
from ...schemas.time import rfc3339
from ...schemas.verdict import Verdict
from ..evidence import bundle
from ..evidence.bundle import SessionName
from ..evidence.canonical_json import write_canonical
from ..evidence.certificates import CERTIFICATES, Certificates, SessionPlace
from ..evidence.sorted_lines import SortedLines
from ..findings.audited_archive import input_lines, write_inputs
from ..findings.bundle_rules import RuleKey
from ..findings.waiving import WaivedCounts, Waiving
from ..prepare.ahead import beside
from ..prepare.options import AuditOptions
from ..report.choice import SessionChoice
from ..report.drawn import SESSIONS, write_sessions
from ..report.page import write_report
from ..sources.discover import Population, Sources
from .open_sessions import OpenedIn, write_open
from .summary import rule_keys

EXAMPLES_MAX = 3
"""Findings per rule in a result."""

SampleVerdicts = dict[str, list[VerdictRecord]]
"""The first broken sessions of each rule that has any, by the rule's name in the summary."""


@dataclass(frozen=True, slots=True)
class BundleDraft:
    """The verdicts, certificates and drawn sessions so far, for the bundle `out`, which is made in `work`.

    `verdicts` counts the lines that were written, by verdict.
    """

    work: Path
    out: Path
    archive: Sources
    population: Population
    options: AuditOptions
    lines: SortedLines[RecordKey]
    certificates: Certificates
    choice: SessionChoice
    waiving: Waiving | None
    verdicts: Counter[str] = field(default_factory=Counter[str])

    @classmethod
    def begin(
        cls,
        work: Path,
        out: Path,
        archive: Sources,
        population: Population,
        options: AuditOptions,
        rule_sets: Mapping[str | None, CompiledRules],
        more: Sequence[str] = (),
    ) -> BundleDraft:
        """Return the draft of an audit by rule sets, by their digests; a single one needs no digest.

        `more` are the label columns of the buckets beside those of their rules.
        """
        scratch = work / bundle.SCRATCH
        window = tuple(None if time is None else rfc3339(time) for time in (options.since, options.until))
        waivers = options.waivers_in_force
        places = SortedLines(scratch / "certificates", SessionPlace)
        return cls(
            work=work,
            out=out,
            archive=archive,
            population=population,
            options=options,
            lines=SortedLines(scratch / "verdicts", RecordKey),
            certificates=Certificates(rule_sets, (window[0], window[1]), places),
            choice=SessionChoice(options.seed, with_text=options.with_text, more=more),
            waiving=None if waivers is None else Waiving(*waivers, work),
        )

    @property
    def scratch(self) -> Path:
        """Return the folder of what is deleted at the end."""
        return self.work / bundle.SCRATCH

    def add(
        self,
        compiled: CompiledRules,
        judged: Judged,
        rule_set: str | None = None,
        whole: Mask | None = None,
    ) -> None:
        """Add the records, certificates and drawn sessions of a bucket with the columns of the choice."""
        chosen = self.choice.add(compiled, judged, whole)
        for record in records(compiled, judged):
            self.lines.add(*record_line(record))
            if (place := (record.session_id, record.occurrence)) in chosen:
                chosen[place].append(record)
        self.certificates.add(judged, rule_set)

    def write_verdicts(self, rules: Sequence[Rule]) -> SampleVerdicts:
        """Write the lines of verdicts, and return examples; waived verdicts are none."""
        keys = {(r.pack, r.id): key for key, r in zip(rule_keys(rules), rules, strict=True)}
        examples: SampleVerdicts = {}
        with (self.work / bundle.VERDICTS).open("wb") as verdicts:
            for at, text in self.lines.merged():
                verdicts.write(text)
                self.verdicts[at.verdict] += 1
                if self.waiving is None or not self.waiving.waives(at, text):
                    _add_example(examples.setdefault(keys[at.pack, at.rule], []), at, text)
        return examples

    def finish(
        self,
        summary: Mapping[str, Any],
        opened: Iterable[OpenedIn],
        rules: Mapping[RuleKey, Rule],
        *,
        as_judged: bool = False,
        risks: Mapping[SessionName, Sequence[RiskCourse]] = MappingProxyType({}),
    ) -> WaivedCounts | None:
        """Write all other files but the rules, delete the scratch folder, and return what was waived.

        `risks` are those of the drawn sessions.
        """
        work, options, population = self.work, self.options, self.population
        # Digests and Parquet need no interpreter lock, and are computed while the other files are written.
        digests = beside(partial(input_lines, population), options.threads)
        typed = beside(partial(bundle.write_typed, work), options.threads)
        with digests as inputs, typed as typed_is_written:
            self.certificates.write(work / CERTIFICATES)
            write_open(work / bundle.OPEN_SESSIONS, opened, population.inputs, options.as_of)
            write_canonical(work / bundle.SUMMARY, summary)
            write_sessions(work / SESSIONS, self.choice, risks)
            write_inputs(work, self.out, self.archive, inputs(), options, as_judged=as_judged)
            waived = None if self.waiving is None else self.waiving.finish()
            write_report(work, rules)
            typed_is_written()
        shutil.rmtree(self.scratch)
        return waived


def _add_example(examples: list[VerdictRecord], at: RecordKey, text: bytes) -> None:
    """Add a record to the examples if it is a breach in a session without an example."""
    if len(examples) == EXAMPLES_MAX or at.verdict not in (Verdict.VIOLATED, Verdict.UNMET):
        return
    known = {(example.session_id, example.occurrence) for example in examples}
    if (at.session_id, at.occurrence) not in known:
        record = decode_verdict(text)
        if not record.history:
            examples.append(record)
