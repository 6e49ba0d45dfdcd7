"""Session status: the rules that apply to a session, are violated or unjudged there, and their residuals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import polars as pl

from ...schemas.event import Event
from ...schemas.frames.events import event_frame
from ...schemas.verdict import Verdict
from ..model.arrays import I32, I64, Mask
from . import kernel
from .judge import CompiledRules, Judged, label_columns, read_labels
from .kernel import CLOSING_UNMET, Findings, LetterTable
from .kernel_loop import FOUND_UNKNOWN, FOUND_UNSETTLED, FOUND_VIOLATED
from .stepper import RuleEvent, RuleRun, SliceRun, SliceStep


def violation_findings(found: Findings, rated: Mask) -> Findings:
    """Return the violations among findings, without those at history events, which are not rated."""
    return found.take((found.kinds == FOUND_VIOLATED) & rated[found.stamps])


def unmet_findings(closed: Findings, rated: Mask) -> Findings:
    """Return the obligations that closed sessions leave unmet, without those that end at history events."""
    return closed.take((closed.kinds == CLOSING_UNMET) & rated[closed.stamps])


def unjudged_findings(found: Findings) -> Findings:
    """Return the events at which rules become unjudged."""
    return found.take(is_unjudged(found))


def is_unjudged(found: Findings) -> Mask:
    """Return which findings are of rules that become unjudged."""
    return (found.kinds >= FOUND_UNKNOWN) & (found.kinds <= FOUND_UNSETTLED)


def first_breaches(found: Findings, closed: Findings, rated: Mask) -> tuple[Findings, Findings]:
    """Return the first breach of each rule in each session: the violations, and the unmet obligations.

    An unmet obligation is a first breach where the session has no violation of the rule. Both are ordered
    by their events.
    """
    violated, left = firsts(violation_findings(found, rated)), firsts(unmet_findings(closed, rated))
    if not len(left.stamps):
        return violated, left
    return violated, left.take(~np.isin(_pairs(left), _pairs(violated)))


def firsts(found: Findings) -> Findings:
    """Return the first finding of each session and rule, ordered by events."""
    if len(found.stamps) < 2:
        return found
    order = np.argsort(found.stamps, kind="stable")
    _, firsts = np.unique(_pairs(found)[order], return_index=True)
    return found.take(order[np.sort(firsts)])


def _pairs(found: Findings) -> I64:
    """Return a number for the slot and column of each finding."""
    return found.slots.astype(np.int64) << 32 | found.columns


def applied_at(compiled: CompiledRules, judged: Judged) -> tuple[I64, I64]:
    """Return the columns of rules that come to apply to sessions, or may, and the places of the events.

    The kernel steps once more over the first event of all sessions, then over the second, and so on.
    """
    program, bounds = compiled.program, judged.sessions.bounds
    lengths = np.diff(bounds)
    longest = np.argsort(-lengths, kind="stable").astype(np.int32)
    steps = np.arange(int(lengths.max(initial=0)), dtype=np.int64)
    counts: I64 = np.searchsorted(-lengths[longest], -steps)
    memory = kernel.remember(program, len(lengths), len(judged.slice_places))
    known: Mask = np.zeros(memory.state.shape, dtype=np.bool_)
    found = [np.empty((2, 0), dtype=np.int64)]
    for step, count in enumerate(counts.tolist()):
        slots = longest[:count]
        places = bounds[slots] + step
        rows = kernel.Rows(judged.codes[places], slots, places, judged.slices[places])
        for _ in kernel.judge(program, judged.letters, rows, memory, found_max=1 << 10):
            pass
        sessions, columns = np.nonzero(kernel.may_apply(memory)[slots] & ~known[slots])
        known[slots[sessions], columns] = True
        found.append(np.stack([columns, places[sessions]]))
    columns, places = np.concatenate(found, axis=1)
    return columns, places


@dataclass(frozen=True, slots=True)
class SliceStatus:
    """The status of one slice of a rule: its last step, the `seq` of that event, and its closing reading."""

    last: SliceStep
    seq: int
    closing: Verdict | None


def event_labels(compiled: CompiledRules, events: Sequence[Event]) -> pl.DataFrame:
    """Return `seq` and the labels of events, a row for each."""
    labels = compiled.labeler.label_few(event_frame(events), keep=("seq",))
    return labels.select("seq", *label_columns(compiled))


def label_runs(
    compiled: CompiledRules, labels: pl.DataFrame
) -> Iterator[tuple[int, RuleRun, list[RuleEvent]]]:
    """Yield each rule's number, a run of it, and the occurrence's events as the rule reads them.

    `labels` has `seq` and the labels of the first events of an occurrence in judged order. The caller steps
    the run. The rules come in the order of the program.
    """
    _, codes, table = read_labels(compiled, labels)
    yield from letter_runs(compiled, labels, codes, table)


def letter_runs(
    compiled: CompiledRules, labels: pl.DataFrame, codes: I32, table: LetterTable
) -> Iterator[tuple[int, RuleRun, list[RuleEvent]]]:
    """Yield the same as `label_runs`, given the words of the events and the letters of the words."""
    program, words = compiled.program, codes.tolist()
    seqs = labels["seq"].to_list()
    for column, number in enumerate(cast("list[int]", program.order.tolist())):
        key = int(program.groups[column])
        run = RuleRun(
            compiled.machines[number],
            skip=int(program.skip[column]),
            unknown=int(program.unknown[column]),
            is_sliced=key >= 0,
            slices_max=kernel.SLICES_MAX,
        )
        values = labels[f"s{key}"].to_list() if run.is_sliced else [None] * len(seqs)
        unknown = labels[f"su{key}"].to_list() if run.is_sliced else [False] * len(seqs)
        read = table.letters[codes, column].tolist()
        several = [table.several(program, word, column) for word in range(len(table.letters))]
        events = map(RuleEvent, seqs, read, values, unknown, map(several.__getitem__, words))
        yield number, run, list(events)


def status_of(run: RuleRun) -> list[SliceStatus]:
    """Return the status of a rule after the stepped events, slice by slice, those stepped last first."""
    runs = run.slices.values() if run.slices else (run.valueless,)
    found = [SliceStatus(each.last, each.seq, _closing(run, each)) for each in runs if each.last is not None]
    return sorted(found, key=lambda status: -status.seq)


def _closing(run: RuleRun, slice_run: SliceRun) -> Verdict | None:
    """Return the closing reading of a slice; unjudged rules and events without a value have none."""
    if run.is_stopped or (run.is_sliced and slice_run is run.valueless):
        return None
    return slice_run.machine_run.closing
