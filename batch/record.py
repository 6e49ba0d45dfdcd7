"""From findings to verdict records: ids, times, slices, and witnesses, made by replaying the run of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import polars as pl

from ..rules import kernel, kernel_loop
from ..rules.digest import verdict_id
from ..rules.kernel import I64, Found
from ..rules.witness import Witness, witnesses
from ..schemas.verdict import Verdict
from .judge import Judged, Statute, join, take

RECORDS_AT_ONCE = 20_000
"""Findings that are turned into records together."""
WITNESSES_KEPT_MAX = 50_000
"""Runs whose witnesses are remembered: those that went alike, as their rule sees them, share theirs."""
KNOWN_EVENTS_MAX = 200
"""Events of a run whose witnesses are remembered; longer ones are hardly alike."""

FINDINGS = {
    kernel_loop.FOUND_VIOLATED: Verdict.VIOLATED,
    kernel_loop.FOUND_SATISFIED: Verdict.SATISFIED,
    kernel_loop.FOUND_UNKNOWN: Verdict.UNJUDGED,
    kernel_loop.FOUND_SLICES: Verdict.UNJUDGED,
}
REASONS = {
    kernel_loop.FOUND_UNKNOWN: "something that the rule asks about was not captured",
    kernel_loop.FOUND_SLICES: f"the session has more than {kernel.SLICES_MAX} slices",
}
"""Why a session is unjudged."""

EVENT_COLUMNS = ("session_id", "occurrence", "time", "seq", "late", "history", "agent", "event_id")
"""What a record says of its event."""

_CLOSED = 8
"""Added to the codes of closing verdicts where they stand among the kinds of findings."""

Record = dict[str, Any]


Known = dict[tuple[int, bytes, tuple[int, ...]], tuple[Witness, ...]]


def records(statute: Statute, judged: Judged, known: Known) -> Iterator[Record]:
    """The records of everything that was found in a bucket, in no particular order.

    `known` remembers witnesses between calls for the same statute; begin with an empty one.
    """
    closed = judged.closed
    marked = Found(closed.stamps, closed.slots, closed.columns, closed.slices, closed.kinds + _CLOSED)
    found = join([judged.found, marked])
    order = np.lexsort((found.stamps, found.slices, found.columns, found.slots))
    for begin in range(0, len(order), RECORDS_AT_ONCE):
        yield from _Reading(
            statute, judged, take(found, order[begin : begin + RECORDS_AT_ONCE]), known
        ).records()


def line(record: Record) -> bytes:
    """The record as one line of canonical JSON (RFC 8785).

    A record holds texts, nulls, flags and integers below 2**53 under ASCII keys only; of those orjson
    writes the same bytes as RFC 8785 prescribes, in a fraction of the time.
    """
    return orjson.dumps(record, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def place(record: Record) -> tuple[Any, ...]:
    """Where a record stands in a bundle: by session, occurrence, event, rule, slice (null first), verdict."""
    return (
        record["session_id"],
        record["occurrence"],
        record["seq"],
        record["pack"],
        record["rule"],
        record["slice"] is not None,
        record["slice"] or "",
        record["verdict"],
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """Some findings of a bucket, ordered by slot, column, slice and stamp, and what explains them."""

    statute: Statute
    judged: Judged
    found: Found
    known: Known
    words: dict[int, I64] = field(default_factory=dict[int, I64])

    def records(self) -> Iterator[Record]:
        """One record for each finding."""
        explained = list(self._explained())
        told = (rows[_indices(witness)] for witness, rows in explained if witness and rows is not None)
        needed = np.unique(np.concatenate([self.found.stamps, *told]))
        chosen = self.judged.labelled.select(EVENT_COLUMNS)[self.judged.order.rows[needed]]
        times = pl.col("occurrence", "time").dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ")
        events = dict(zip(needed.tolist(), chosen.with_columns(times).to_dicts(), strict=True))
        for i, (witness, rows) in enumerate(explained):
            shown = None if witness is None or rows is None else _shown(witness, rows, events)
            yield self._record(i, events[int(self.found.stamps[i])], shown)

    def _record(self, i: int, event: Record, witness: Record | None) -> Record:
        number = int(self.statute.program.order[self.found.columns[i]])
        rule, digest = self.statute.rules[number], self.statute.digests[number]
        kind = int(self.found.kinds[i])
        verdict = kernel.CLOSING[kind - _CLOSED] if kind >= _CLOSED else FINDINGS[kind]
        assert verdict is not None, "the kernel reports no empty closing"
        named: Record = {
            "pack": rule.pack,
            "rule": rule.id,
            "rule_digest": digest,
            "session_id": event["session_id"],
            "occurrence": event["occurrence"],
            "slice": self._slice_value(i),
            "event_id": event["event_id"],
            "verdict": verdict.value,
        }
        return {
            "id": verdict_id(**named),
            **named,
            "seq": event["seq"],
            "time": event["time"],
            "severity": rule.severity.value,
            "agent": event["agent"],
            "late": event["late"],
            "history": event["history"],
            "reason": REASONS.get(kind),
            "witness": witness,
        }

    def _explained(self) -> Iterator[tuple[Witness | None, I64 | None]]:
        """For each finding its witness and the rows that the witness's indices mean; none if unjudged."""
        runs = np.stack([self.found.slots, self.found.columns, self.found.slices])
        cuts = (np.flatnonzero(np.any(runs[:, 1:] != runs[:, :-1], axis=0)) + 1).tolist()
        for begin, end in zip([0, *cuts], [*cuts, runs.shape[1]], strict=True):
            kinds = self.found.kinds[begin:end]
            judged = (kinds != kernel_loop.FOUND_UNKNOWN) & (kinds != kernel_loop.FOUND_SLICES)
            stamps = self.found.stamps[begin:end][judged]
            rows = self._run(begin, int(stamps.max())) if len(stamps) else None
            made = iter(() if rows is None else self._replayed(begin, rows, stamps))
            yield from ((next(made), rows) if one else (None, None) for one in judged)

    def _run(self, i: int, last: int) -> I64:
        """The rows up to `last` that the run of finding `i` stepped on: of its slice, seen by its rule."""
        column = int(self.found.columns[i])
        begin = int(self.judged.sessions.bounds[self.found.slots[i]])
        if column < self.statute.program.plain:
            return np.arange(begin, last + 1)
        codes = self.judged.codes[begin : last + 1]
        seen = self.judged.letters[codes, column] != self.statute.program.skip[column]
        key = int(self.statute.program.groups[column])
        if key >= 0:
            own = self.judged.slices[begin : last + 1, key]
            seen &= (own == kernel_loop.NO_SLICE) | (own == self.found.slices[i])
        return np.flatnonzero(seen) + begin

    def _replayed(self, i: int, rows: I64, stamps: I64) -> tuple[Witness, ...]:
        """The witnesses at these stamps of one run, made in one replay or remembered."""
        column = int(self.found.columns[i])
        number = int(self.statute.program.order[column])
        machine = self.statute.machines[number]
        at = tuple(np.searchsorted(rows, stamps).tolist())
        words = self._words(number)[self.judged.codes[rows]]
        key = (column, words.tobytes(), at)
        made = self.known.get(key)
        if made is None:
            names = machine.propositions
            labels = [[name for bit, name in enumerate(names) if word >> bit & 1] for word in words.tolist()]
            found = witnesses(self.statute.rules[number], machine, labels, at)
            made = tuple(found[index] for index in at)
            if len(self.known) < WITNESSES_KEPT_MAX and len(rows) <= KNOWN_EVENTS_MAX:
                self.known[key] = made
        return made

    def _words(self, number: int) -> I64:
        """For each word of the bucket, the word that the machine of a rule reads in it."""
        if number not in self.words:
            pack, names = self.statute.rules[number].pack, self.statute.machines[number].propositions
            bits = [self.statute.propositions[pack, name] for name in names]
            self.words[number] = self.judged.words.packed(bits)
        return self.words[number]

    def _slice_value(self, i: int) -> str | None:
        slice_slot = int(self.found.slices[i])
        if slice_slot == kernel_loop.NO_SLICE:
            return None
        key = int(self.statute.program.groups[self.found.columns[i]])
        return self.judged.labelled[f"s{key}"][
            int(self.judged.order.rows[self.judged.slice_places[slice_slot]])
        ]


def _indices(witness: Witness) -> list[int]:
    past = [bit.index for bit in witness.history if bit.index is not None]
    return [event.index for event in witness.events] + past


def _shown(witness: Witness, rows: I64, events: Mapping[int, Record]) -> Record:
    """A witness as JSON: its indices become the events' ids and places in the session."""

    def named(index: int | None) -> Record:
        event: Record = {} if index is None else events[int(rows[index])]
        return {"event_id": event.get("event_id"), "seq": event.get("seq")}

    return {
        "events": [
            {**named(event.index), "true": list(event.true), "residual": event.residual}
            for event in witness.events
        ],
        "history": [
            {**named(bit.index), "formula": bit.formula, "value": bit.value} for bit in witness.history
        ],
        "truncated": witness.truncated,
    }
