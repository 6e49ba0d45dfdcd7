"""The explanation of a session: each run of a rule with its steps, and the status of the rule's parts there.

A rule has a run for each slice. The verdicts and residuals are the machine's, with its restarts; the statuses
are those of Rule Status Assessment, which knows no restarts. Where something was not captured, they are those
of the completion in which nothing unknown is true, as witnesses are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.verdict import Verdict
from ..engine.judge import CompiledRules, Judged, label_columns, read_labels
from ..engine.letters import LabelWords
from ..engine.status import letter_runs, status_of
from ..engine.stepper import MachineStep, RuleEvent, RuleRun
from ..model.arrays import Mask
from ..model.printer import to_text
from ..model.rule import ExampleSession, Rule
from .breach import explain_breach
from .past import RunPast
from .rule_status import VIOLATED_END, PartStatus, RuleStatus, assess, check_size

Sentences: TypeAlias = Mapping[tuple[str, str, str | None, int, Verdict], str]
"""The sentences on verdicts, by pack, rule, slice, `seq` and verdict."""


class RunStep(NamedTuple):
    """A step of a run: the `seq` of its event, and what the machine makes of it.

    `is_reported` is true where the engine writes a verdict record for this event and slice.
    """

    seq: int
    step: MachineStep
    is_reported: bool


@dataclass(frozen=True, slots=True)
class RunExplanation:
    """One run of a rule over a session: its steps, its closing reading, and the status of the rule's parts.

    `steps` are the events that the run saw, from its first; a slice also saw the earlier events without a
    value. `unjudged` is the `seq` of the event at which the rule became unjudged, None where it did not.
    `past` has the propositions at the steps before anything was not captured.
    """

    rule: Rule
    digest: str
    slice: str | None
    steps: tuple[RunStep, ...]
    close: Verdict | None
    applies: bool
    unjudged: int | None
    status: RuleStatus
    past: RunPast

    def sentence(self, seq: int, verdict: Verdict, sentences: Sentences) -> str | None:
        """Return the sentence on a verdict of this run."""
        return sentences.get((self.rule.pack, self.rule.id, self.slice, seq, verdict))

    def end_sentences(self, sentences: Sentences) -> list[str]:
        """Return the sentences on an obligation that was left open, and on why the rule is unjudged."""
        found: list[str | None] = []
        if self.close is Verdict.UNMET:
            found.append(self.sentence(self.steps[-1].seq, self.close, sentences))
        if self.unjudged is not None:
            found.append(_unjudged_sentence(self, sentences))
        return [sentence for sentence in found if sentence is not None]


def explanations(
    compiled: CompiledRules,
    labels: pl.DataFrame,
    *,
    is_closed: bool,
    only: int | None = None,
    every: bool = True,
) -> Iterator[RunExplanation]:
    """Yield the runs of every rule over one occurrence, in the order of the rules and of their slices.

    With `only` they are the runs of the rule with that number, without `every` those of rules that apply to
    the session, are broken or are unjudged there. `labels` has `seq` and the labeler's columns, a row for
    each event of the occurrence in judged order. Raises RuleError (TRL303) where the parts of a rule are too
    many for the session.
    """
    words, codes, table = read_labels(compiled, labels)
    runs = {number: (run, events) for number, run, events in letter_runs(compiled, labels, codes, table)}
    for number in range(len(compiled.rules)) if only is None else (only,):
        rule, (run, events) = compiled.rules[number], runs[number]
        truths = _truths(compiled, rule, words, codes)
        places = {event.seq: place for place, event in enumerate(events)}
        steps = _stepped(run, events, rule)
        is_over = is_closed and not run.is_stopped
        closings = {status.last.slice: status.closing for status in status_of(run)} if is_over else {}
        for name, stepped in steps.items():
            close = closings.get(name)
            unjudged = run.unjudged
            if unjudged is None and close is Verdict.UNJUDGED:
                unjudged = stepped[-1].seq
            is_broken = close is Verdict.UNMET or any(step.is_reported for step in stepped)
            if not (every or run.applies is not None or unjudged is not None or is_broken):
                continue
            trace = _trace(truths, [places[step.seq] for step in stepped])
            yield RunExplanation(
                rule=rule,
                digest=compiled.digests[number],
                slice=name,
                steps=tuple(stepped),
                close=None if close is Verdict.UNJUDGED else close,
                applies=run.applies is not None,
                unjudged=unjudged,
                status=assess(rule.formula, trace, rule.transitions, is_closed=is_over),
                past=_known(rule, stepped, trace, events),
            )


def pasts(compiled: CompiledRules, labels: pl.DataFrame, number: int) -> dict[str | None, RunPast]:
    """Return the past of each run of the rule with that number over one occurrence, by slice."""
    words, codes, table = read_labels(compiled, labels)
    runs = letter_runs(compiled, labels, codes, table)
    _, run, events = next(found for found in runs if found[0] == number)
    rule = compiled.rules[number]
    truths = _truths(compiled, rule, words, codes)
    places = {event.seq: place for place, event in enumerate(events)}
    return {
        name: _known(rule, stepped, _trace(truths, [places[step.seq] for step in stepped]), events)
        for name, stepped in _stepped(run, events, rule).items()
    }


def _truths(
    compiled: CompiledRules, rule: Rule, words: LabelWords, codes: NDArray[np.int32]
) -> dict[str, Mask]:
    """Return at which events each proposition of a rule is true."""
    bits = {name: compiled.propositions[rule.pack, name] for name in rule.propositions}
    return {name: words.holds(bit)[codes] for name, bit in bits.items()}


def _trace(truths: Mapping[str, Mask], rows: Sequence[int]) -> ExampleSession:
    """Return the true propositions at events, by their places."""
    chosen = [(name, truth[rows].tolist()) for name, truth in truths.items()]
    return tuple(frozenset(name for name, true in chosen if true[at]) for at in range(len(rows)))


def _known(
    rule: Rule, stepped: Sequence[RunStep], trace: ExampleSession, events: Sequence[RuleEvent]
) -> RunPast:
    """Return the past of a run before the first event with something that was not captured."""
    unknown = next((event.seq for event in events if event.possible or event.is_value_unknown), None)
    seqs = [step.seq for step in stepped if unknown is None or step.seq < unknown]
    return RunPast(rule, seqs, trace[: len(seqs)])


def judged_explanations(
    compiled: CompiledRules, judged: Judged, slot: int, *, every: bool = True
) -> Iterator[RunExplanation]:
    """Yield the runs over the occurrence in a slot of a judged bucket, like `explanations`."""
    rows = judged.order.rows[judged.sessions.bounds[slot] : judged.sessions.bounds[slot + 1]]
    labels = judged.labelled.select("seq", *label_columns(compiled))[rows]
    yield from explanations(compiled, labels, is_closed=not judged.sessions.open[slot], every=every)


def sentences_of(
    compiled: CompiledRules, records: Iterable[VerdictRecord], runs: Iterable[RunExplanation]
) -> Sentences:
    """Return a sentence on each verdict of an occurrence, which has these runs."""
    rules = {(rule.pack, rule.id): rule for rule in compiled.rules}
    known = {(run.rule.pack, run.rule.id, run.slice): run.past for run in runs}
    return {
        (record.pack, record.rule, record.slice, record.seq, record.verdict): explain_breach(
            rules[record.pack, record.rule], record, known.get((record.pack, record.rule, record.slice))
        )
        for record in records
    }


def _stepped(run: RuleRun, events: Sequence[RuleEvent], rule: Rule) -> dict[str | None, list[RunStep]]:
    """Step a rule over its events, and return the steps of each slice.

    The steps without a value are a run of their own where they gave a verdict, or where there is no slice.
    """
    found: dict[str | None, list[RunStep]] = {None: []}
    count = 0
    for event in events:
        for name, step, is_reported in run.step(event):
            if name not in found:
                found[name] = [RunStep(earlier.seq, earlier.step, False) for earlier in found[None]]
                count += len(found[name])
            found[name].append(RunStep(event.seq, step, is_reported))
            count += 1
        check_size(rule.formula, count)
    if len(found) > 1 and not any(step.is_reported for step in found[None]):
        del found[None]
    return found


def explanation_data(run: RunExplanation, sentences: Sentences, at: int | None = None) -> dict[str, Any]:
    """Return a run as plain data, with the statuses at step `at` if it is given and the run has that step."""
    rule, residual = run.rule, run.steps[-1].step.residual if run.steps else ""
    verdicts = [
        {
            "step": number,
            "verdict": each.step.verdict.value,
            "residual": each.step.residual,
            "sentence": run.sentence(each.seq, each.step.verdict, sentences) if each.is_reported else None,
        }
        for number, each in enumerate(run.steps, start=1)
    ]
    if run.close is Verdict.UNMET:
        sentence = run.sentence(run.steps[-1].seq, run.close, sentences)
        last = {"step": len(run.steps), "verdict": run.close.value, "residual": residual}
        verdicts.append({**last, "sentence": sentence})
    data: dict[str, Any] = {
        "pack": rule.pack,
        "rule": rule.id,
        "rule_digest": run.digest,
        "slice": run.slice,
        "steps": [step.seq for step in run.steps],
        "verdicts": verdicts,
        "close": None if run.close is None else run.close.value,
        "unjudged": _unjudged(run, sentences),
        "nodes": [_part_data(part) for part in run.status.parts],
        "worth": run.status.worth(),
    }
    if at is not None and at <= len(run.steps):
        status = {part.node: part.status(at, at).value for part in run.status.parts}
        data["at"] = {"t": at, "status": status}
    return data


def _part_data(part: PartStatus) -> dict[str, Any]:
    """Return the status of a part at every start as plain data."""
    return {
        "node": part.node,
        "formula": to_text(part.formula),
        "parent": part.parent or None,
        "ends": [None if end == VIOLATED_END else end for end in part.ends.tolist()],
        "open": part.is_open.tolist(),
    }


def _unjudged(run: RunExplanation, sentences: Sentences) -> dict[str, Any] | None:
    """Return where a rule became unjudged, and why."""
    if run.unjudged is None:
        return None
    return {"seq": run.unjudged, "sentence": _unjudged_sentence(run, sentences)}


def _unjudged_sentence(run: RunExplanation, sentences: Sentences) -> str | None:
    """Return the sentence on why a rule is unjudged, None where another slice has its record."""
    assert run.unjudged is not None
    return sentences.get((run.rule.pack, run.rule.id, None, run.unjudged, Verdict.UNJUDGED))
