"""The findings of a bundle with the events that led to them, read from the archive beside the bundle."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from ...archive.error import SourceError
from ...rules.engine.judge import CompiledRules, compile_rule_set
from ...rules.engine.sessions import in_order
from ...rules.explanation.breach import decisive_propositions, explain_breach
from ...rules.explanation.nouns import events_of
from ...rules.explanation.past import RunPast
from ...rules.explanation.timeline import pasts
from ...rules.labels.few import WORD_BITS
from ...rules.labels.labeler import Labeler
from ...rules.model.problem import RuleError
from ...rules.model.rule import Rule, RuleSet
from ...rules.packs.selection import select_rules
from ...schemas.records.verdict_record import VerdictRecord, WitnessEvent, WitnessHistory
from ...schemas.time import rfc3339
from ...schemas.verdict import BREACHES, Verdict
from ..evidence.bundle import VERDICTS, SessionName, read_verdicts
from ..prepare.buckets import until
from ..prepare.prepare import prepare
from ..prepare.spill import passes
from ..sources.discover import Population, named
from ..sources.event_files import reading
from .audited_archive import BundleInput
from .bundle_rules import RuleKey, bundle_rules

FINDINGS_MAX = 20
"""Findings that are shown if neither a sample nor a verdict is asked for."""
CONTEXT = 2
"""Events that are shown before and after each event of a witness."""
BETWEEN_MAX = 8
"""Events that are shown between the first that the sentence names and the verdict, the last ones."""

_SHOWN = (
    *("seq", "event_id", "time", "kind", "agent", "nested", "history", "late", "content"),
    *("text", "tool", "call_id", "args", "result", "error"),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The findings to show: those of a rule (`id` or `pack/id`), a verdict, or a sample drawn with a seed.

    `select` and `ignore` are words for rules (`rules.packs.selection`); they do not matter to a verdict.
    """

    rule: str | None = None
    verdict: str | None = None
    sample: int | None = None
    seed: int = 0
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FindingEvent:
    """An event beside a finding: its columns, and the rule's propositions that are true and unknown there.

    `witness` is its part of the witness, and `bits` are the conditions on the past that changed there.
    """

    columns: Mapping[str, Any]
    true: tuple[str, ...]
    unknown: tuple[str, ...]
    witness: WitnessEvent | None
    bits: tuple[WitnessHistory, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding with the events near its witness, out of `length` events, and a sentence on what broke it.

    `decisive` are the propositions of the last event each of which alone would have averted a violation.
    """

    record: VerdictRecord
    rule: Rule
    sentence: str
    decisive: tuple[str, ...]
    events: tuple[FindingEvent, ...]
    length: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chosen records, and the number of findings that they were chosen from."""

    records: tuple[VerdictRecord, ...]
    of: int


def choose(bundle: Path, wanted: Wanted) -> Chosen:
    """Return the wanted records of a bundle: a sample in the order of the bundle, else the most severe first.

    Raises SourceError (TRL421) for an unknown rule or verdict, and RuleError (TRL226) for unknown words.
    """
    if wanted.verdict is not None:
        found = [record for record in _records(bundle) if record.id == wanted.verdict]
        if not found:
            hint = "run without --verdict to list findings, or take an id of verdicts.jsonl"
            raise SourceError("TRL421", str(bundle), f"has no verdict {wanted.verdict}", hint)
        return Chosen(tuple(found), len(found))
    chosen = _chosen_rules(bundle, wanted)
    count = 0

    def findings() -> Iterator[VerdictRecord]:
        nonlocal count
        for record in _records(bundle):
            is_chosen = chosen is None or (record.pack, record.rule) in chosen
            if record.verdict in BREACHES and is_chosen:
                count += 1
                yield record

    if wanted.sample is not None:
        drawn = heapq.nsmallest(wanted.sample, findings(), key=lambda record: _draw(wanted.seed, record.id))
        return Chosen(tuple(sorted(drawn, key=_severest)), count)
    return Chosen(tuple(heapq.nsmallest(FINDINGS_MAX, findings(), key=_severest)), count)


def _chosen_rules(bundle: Path, wanted: Wanted) -> set[tuple[str, str]] | None:
    """Return the packs and ids of the rules whose findings are wanted, None for all."""
    if wanted.rule is None and not wanted.select and not wanted.ignore:
        return None
    rules = bundle_rules(bundle)
    if wanted.rule is not None and not any(wanted.rule in _names(*key[:2]) for key in rules):
        raise _unknown_rule(bundle, wanted.rule, rules)
    selected = select_rules(RuleSet(tuple(rules.values()), {}), wanted.select, wanted.ignore)
    return {
        (rule.pack, rule.id) for rule in selected.rules if wanted.rule in (None, *_names(rule.pack, rule.id))
    }


def findings(
    bundle: Path, source: BundleInput, records: Sequence[VerdictRecord], scratch: Path
) -> Iterator[Finding]:
    """Yield the records as findings, in their order; `scratch` is an empty folder of the caller.

    Raises SourceError (TRL420) if the archive does not have an event of a finding.
    """
    rules = bundle_rules(bundle)
    compiled: dict[RuleKey, CompiledRules] = {}
    sessions = _sessions(source, {record.session_id for record in records}, scratch)
    for record in records:
        key = (record.pack, record.rule, record.rule_digest)
        events = sessions.get((record.session_id, record.occurrence))
        if key not in rules or events is None:
            raise _gone(source, record)
        if key not in compiled:
            compiled[key] = compile_rule_set(RuleSet((rules[key],), {}))
        yield _finding(source, record, compiled[key], events)


def session_events(source: BundleInput, record: VerdictRecord, scratch: Path) -> pl.DataFrame:
    """Return the events of a verdict's session in judged order; `scratch` is an empty folder of the caller.

    Raises SourceError (TRL420) if the archive does not have the event of the verdict.
    """
    sessions = _sessions(source, {record.session_id}, scratch)
    events = sessions.get((record.session_id, record.occurrence))
    if events is None or (record.seq, record.event_id) not in events.select("seq", "event_id").iter_rows():
        raise _gone(source, record)
    return events


def _records(bundle: Path) -> Iterator[VerdictRecord]:
    try:
        yield from read_verdicts(bundle / VERDICTS)
    except msgspec.MsgspecError:
        hint = "write the bundle again"
        raise SourceError("TRL420", str(bundle), f"has a damaged {VERDICTS}", hint) from None


def _names(pack: str, rule: str) -> tuple[str, str]:
    return rule, f"{pack}/{rule}"


def _draw(seed: int, verdict_id: str) -> bytes:
    """Return a number that orders verdicts at random, the same for the same seed."""
    return hashlib.sha256(f"{seed}/{verdict_id}".encode()).digest()


def _severest(record: VerdictRecord) -> tuple[int, str, str, str, str, int, str]:
    place = (record.session_id, record.occurrence, record.seq, record.slice or "")
    return -record.severity.rank, record.pack, record.rule, *place


def _unknown_rule(bundle: Path, rule: str, known: Iterable[RuleKey]) -> SourceError:
    near = get_close_matches(rule, sorted({name for key in known for name in _names(*key[:2])}), n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "the rules are in the bundle's summary.json"
    return SourceError("TRL421", str(bundle), f"has no rule {rule}", hint)


def _sessions(source: BundleInput, ids: set[str], scratch: Path) -> dict[SessionName, pl.DataFrame]:
    """Return the events of sessions by id and occurrence, in judged order."""
    options = source.options
    found: list[pl.DataFrame] = []
    for one_pass in passes(prepare(source.paths, scratch, Population(), options)):
        chosen = until(one_pass.frame.filter(pl.col("session_id").is_in(sorted(ids))), options.as_of)
        with reading(one_pass.parts):
            found.append(chosen.collect(engine="streaming"))
    rows = pl.concat(found) if found else pl.DataFrame()
    if rows.is_empty():
        return {}
    ordered = rows[in_order(rows).rows]
    parts = ordered.with_columns(pl.col("occurrence").to_physical()).partition_by(
        "session_id", "occurrence", as_dict=True
    )
    return {(str(name), rfc3339(began)): part for (name, began), part in parts.items()}


def _finding(
    source: BundleInput, record: VerdictRecord, compiled: CompiledRules, events: pl.DataFrame
) -> Finding:
    """Return a finding with its events, which must have those of the witness."""
    rule, witness, named = compiled.rules[0], record.witness, {record.seq: record.event_id}
    decisive: tuple[str, ...] = ()
    if witness is not None:
        named |= {event.seq: event.event_id for event in witness.events}
        named |= {bit.seq: bit.event_id or "" for bit in witness.history if bit.seq is not None}
        decisive = decisive_propositions(rule, witness) if record.verdict is Verdict.VIOLATED else ()
    ids = dict(events.select("seq", "event_id").iter_rows())
    if any(ids.get(seq) != event_id for seq, event_id in named.items()):
        raise _gone(source, record)
    labels = compiled.labeler.label_few(events, keep=("seq",))
    sentence = explain_breach(rule, record, _past(compiled, labels, record))
    near = {at for seq in named for at in range(seq - CONTEXT, seq + CONTEXT + 1)} | events_of(sentence)
    near |= set(_seen_between(labels, min(events_of(sentence), default=record.seq), record.seq))
    near |= {at + 1 for at in near if at + 2 in near}
    shown = events["seq"].is_in(sorted(near))
    return Finding(
        record=record,
        rule=rule,
        sentence=sentence,
        decisive=decisive,
        events=tuple(_events(record, compiled.labeler, events.filter(shown), labels.filter(shown))),
        length=len(events),
    )


def _seen_between(labels: pl.DataFrame, first: int, last: int) -> list[int]:
    """Return the last events between two at which a proposition of the rule is true."""
    true = pl.any_horizontal(pl.col("^t[0-9]+$") != 0)
    between = labels.filter(true & pl.col("seq").is_between(first, last, closed="none"))
    return between["seq"].tail(BETWEEN_MAX).to_list()


def _past(compiled: CompiledRules, labels: pl.DataFrame, record: VerdictRecord) -> RunPast | None:
    """Return the past of the verdict's run; None where the session is too long for it."""
    try:
        return pasts(compiled, labels, 0).get(record.slice)
    except RuleError:
        return None


def _events(
    record: VerdictRecord, labeler: Labeler, rows: pl.DataFrame, labels: pl.DataFrame
) -> Iterator[FindingEvent]:
    """Yield rows with the rule's labels and their parts of the witness."""
    words = labels.iter_rows(named=True)
    witness = {} if record.witness is None else {event.seq: event for event in record.witness.events}
    bits = () if record.witness is None else record.witness.history
    columns = rows.select(_SHOWN).with_columns(pl.col("time").to_physical()).iter_rows(named=True)
    for row, word in zip(columns, words, strict=True):
        yield FindingEvent(
            columns={**row, "time": rfc3339(row["time"])},
            true=_holding(labeler, word, "t"),
            unknown=_holding(labeler, word, "u"),
            witness=witness.get(row["seq"]),
            bits=tuple(bit for bit in bits if bit.seq == row["seq"]),
        )


def _holding(labeler: Labeler, labels: Mapping[str, int], letter: str) -> tuple[str, ...]:
    """Return the propositions whose bit is set."""
    return tuple(
        name
        for bit, (_, name) in enumerate(labeler.propositions)
        if labels[f"{letter}{bit // WORD_BITS}"] >> bit % WORD_BITS & 1
    )


def _gone(source: BundleInput, record: VerdictRecord) -> SourceError:
    what = f"does not have the events of verdict {record.id}, session {record.session_id}"
    return SourceError("TRL420", named(source.paths), what, "use the archive as it was when it was audited")
