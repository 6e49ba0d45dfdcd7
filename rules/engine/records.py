"""Verdict records: findings with ids, times, slices and witnesses."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import polars as pl
from msgspec import UNSET

from ...schemas.instrumentations.missing import Missing
from ...schemas.records.verdict_record import NoField, VerdictRecord, Witness, WitnessEvent, WitnessHistory
from ...schemas.verdict import Verdict
from ..labels.missing import MISSING, missing_of
from ..model.digest import verdict_id
from . import kernel, kernel_loop
from .judge import CompiledRules, Judged
from .kernel import I64, Findings
from .witness import RunWitness, witnesses

RECORDS_AT_ONCE = 2_000
"""Findings that are made records together."""
WITNESSES_CACHED_MAX = 50_000
"""Runs whose witnesses are cached: runs that are equal as their rule sees them share their witnesses."""
CACHED_EVENTS_MAX = 200
"""Events of a run whose witnesses are cached; longer runs are seldom equal."""

REASONS = {
    kernel_loop.FOUND_UNKNOWN: "something that the rule asks about was not captured",
    kernel_loop.FOUND_SLICES: f"the session has more than {kernel.SLICES_MAX} slices",
}
"""Reasons why a rule is unjudged, by the kind of the finding; the limit of events has another reason."""

EVENT_COLUMNS = ("session_id", "occurrence", "time", "seq", "late", "history", "agent", "event_id")
"""Columns of the event that a record has."""
_SHOWN = ("event_id", "seq")
"""Columns of an event that a witness names."""

_EventFields: TypeAlias = dict[str, Any]
"""The `EVENT_COLUMNS` of an event, with times as text, and its missing content."""

_CLOSED = 8
"""Offset of the codes of closing verdicts among the kinds of findings."""

VERDICTS = {
    kernel_loop.FOUND_VIOLATED: Verdict.VIOLATED,
    kernel_loop.FOUND_SATISFIED: Verdict.SATISFIED,
    kernel_loop.FOUND_UNKNOWN: Verdict.UNJUDGED,
    kernel_loop.FOUND_SLICES: Verdict.UNJUDGED,
    **{_CLOSED + code: verdict for code, verdict in enumerate(kernel.CLOSING) if verdict is not None},
}
"""The verdict of each kind of finding."""

WitnessCache = dict[tuple[int, bytes, tuple[int, ...]], tuple[RunWitness, ...]]
"""Witnesses by column, by the words that the rule read, and by the indices of the verdicts' events."""


def records(compiled: CompiledRules, judged: Judged, known: WitnessCache) -> Iterator[VerdictRecord]:
    """Yield the records of a bucket's findings, in no particular order.

    `known` caches witnesses between calls for the same compiled rules; begin with an empty one.
    """
    closed = judged.closed
    marked = Findings(closed.stamps, closed.slots, closed.columns, closed.slices, closed.kinds + _CLOSED)
    found = kernel.join([judged.found, marked])
    order = np.lexsort((found.stamps, found.slices, found.columns, found.slots))
    for begin in range(0, len(order), RECORDS_AT_ONCE):
        yield from _RecordBuilder(
            compiled, judged, found.take(order[begin : begin + RECORDS_AT_ONCE]), known
        ).records()


class RecordKey(NamedTuple):
    """The sort key of a record: session, occurrence, event, rule, slice (null first), verdict."""

    session_id: str
    occurrence: str
    seq: int
    pack: str
    rule: str
    sliced: bool
    slice: str
    verdict: str


def record_key(record: VerdictRecord) -> RecordKey:
    """Return the record's sort key."""
    return RecordKey(
        record.session_id,
        record.occurrence,
        record.seq,
        record.pack,
        record.rule,
        record.slice is not None,
        record.slice or "",
        record.verdict,
    )


@dataclass(frozen=True, slots=True)
class _Explained:
    """A witness, and the rows that its indices refer to."""

    witness: RunWitness
    rows: Sequence[int]

    @property
    def shown(self) -> list[int]:
        """Return the rows of the events that the witness names."""
        rows, witness = self.rows, self.witness
        past = [rows[bit.index] for bit in witness.history if bit.index is not None]
        return [rows[event.index] for event in witness.events] + past


@dataclass(frozen=True, slots=True)
class _RecordBuilder:
    """A builder of records from findings of a bucket, which are ordered by slot, column, slice and stamp.

    Findings are few and their runs short, so the builder reads them one by one as Python numbers: a NumPy
    call for each takes longer.
    """

    compiled: CompiledRules
    judged: Judged
    found: Findings
    known: WitnessCache
    words: dict[int, I64] = field(default_factory=dict[int, I64])

    def records(self) -> Iterator[VerdictRecord]:
        """Yield one record for each finding."""
        explanations = list(self._explanations())
        stamps = cast("list[int]", self.found.stamps.tolist())
        names = [*EVENT_COLUMNS, *({MISSING} & {*self.judged.labelled.columns})]
        times = pl.col("occurrence", "time").dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ")
        events = _rows(self.judged, stamps, names).with_columns(times).to_dicts()
        shown = {row for explained in explanations if explained is not None for row in explained.shown}
        ids = dict(zip(shown, _rows(self.judged, list(shown), _SHOWN).iter_rows(), strict=True))
        numbers = self.compiled.program.order[self.found.columns].tolist()
        findings = zip(numbers, self.found.kinds.tolist(), events, explanations, strict=True)
        for i, (number, kind, event, explained) in enumerate(findings):
            witness = None if explained is None else _witness(explained, ids)
            yield self._record(number, kind, self._slice_value(i), event, witness)

    def _record(
        self, number: int, kind: int, slice_value: str | None, event: _EventFields, witness: Witness | None
    ) -> VerdictRecord:
        rule = self.compiled.rules[number]
        named: dict[str, Any] = {
            "pack": rule.pack,
            "rule": rule.id,
            "rule_digest": self.compiled.digests[number],
            "session_id": event["session_id"],
            "occurrence": event["occurrence"],
            "slice": slice_value,
            "event_id": event["event_id"],
            "verdict": VERDICTS[kind],
        }
        missing: Missing | NoField | None = UNSET
        if named["verdict"] is Verdict.UNJUDGED:
            missing = missing_of(event.get(MISSING)) if is_unknown(kind, event["seq"]) else None
        return VerdictRecord(
            id=verdict_id(**named),
            **named,
            seq=event["seq"],
            time=event["time"],
            severity=rule.severity,
            agent=event["agent"],
            late=event["late"],
            history=event["history"],
            reason=reason_of(kind, event["seq"]),
            witness=witness,
            missing=missing,
        )

    def _explanations(self) -> Iterator[_Explained | None]:
        """Yield the witness of each finding, None where the rule is unjudged."""
        found = self.found
        runs = np.stack([found.slots, found.columns, found.slices])
        cuts = (np.flatnonzero(np.any(runs[:, 1:] != runs[:, :-1], axis=0)) + 1).tolist()
        first = cast("list[int]", self.judged.sessions.bounds[found.slots].tolist())
        stamps = cast("list[int]", found.stamps.tolist())
        judged = (
            (found.kinds != kernel_loop.FOUND_UNKNOWN) & (found.kinds != kernel_loop.FOUND_SLICES)
        ).tolist()
        for begin, end in zip([0, *cuts], [*cuts, len(stamps)], strict=True):
            at = [stamps[i] for i in range(begin, end) if judged[i]]
            explained: Iterator[_Explained] = iter(())
            if at:
                rows = self._run(begin, first[begin], at[-1])
                explained = (_Explained(witness, rows) for witness in self._witnesses(begin, rows, at))
            yield from (next(explained) if judged[i] else None for i in range(begin, end))

    def _run(self, i: int, begin: int, last: int) -> Sequence[int]:
        """Return the rows up to `last` that the run of finding `i` stepped on."""
        column = int(self.found.columns[i])
        if column < self.compiled.program.plain:
            return range(begin, last + 1)
        codes = self.judged.codes[begin : last + 1]
        seen = self.judged.letters[codes, column] != self.compiled.program.skip[column]
        key = int(self.compiled.program.groups[column])
        if key >= 0:
            slices = self.judged.slices[begin : last + 1, key]
            seen &= (slices == kernel_loop.NO_SLICE) | (slices == self.found.slices[i])
        return (np.flatnonzero(seen) + begin).tolist()

    def _witnesses(self, i: int, rows: Sequence[int], stamps: Sequence[int]) -> tuple[RunWitness, ...]:
        """Return the witnesses at these stamps of one run, from one replay or from the cache."""
        column = int(self.found.columns[i])
        number = int(self.compiled.program.order[column])
        is_whole = isinstance(rows, range)
        at = tuple(stamp - rows[0] if is_whole else bisect_left(rows, stamp) for stamp in stamps)
        codes = self.judged.codes[rows.start : rows.stop] if is_whole else self.judged.codes[rows]
        words = self._words(number)[codes]
        key = (column, words.tobytes(), at)
        cached = self.known.get(key)
        if cached is None:
            machine = self.compiled.machines[number]
            names = machine.propositions
            labels = [[name for bit, name in enumerate(names) if word >> bit & 1] for word in words.tolist()]
            found = witnesses(self.compiled.rules[number], machine, labels, at)
            cached = tuple(found[index] for index in at)
            if len(self.known) < WITNESSES_CACHED_MAX and len(rows) <= CACHED_EVENTS_MAX:
                self.known[key] = cached
        return cached

    def _words(self, number: int) -> I64:
        """Return for each word of the bucket the word that the machine of a rule reads in it."""
        if number not in self.words:
            pack, names = self.compiled.rules[number].pack, self.compiled.machines[number].propositions
            bits = [self.compiled.propositions[pack, name] for name in names]
            self.words[number] = self.judged.words.packed(bits)
        return self.words[number]

    def _slice_value(self, i: int) -> str | None:
        slice_slot = int(self.found.slices[i])
        if slice_slot == kernel_loop.NO_SLICE:
            return None
        key = int(self.compiled.program.groups[self.found.columns[i]])
        return self.judged.labelled[f"s{key}"][
            int(self.judged.order.rows[self.judged.slice_places[slice_slot]])
        ]


def is_unknown(kind: int, seq: int) -> bool:
    """Return whether a finding means that something was not captured, for the event with this `seq`."""
    return kind == kernel_loop.FOUND_UNKNOWN and seq <= kernel.EVENTS_MAX


def reason_of(kind: int, seq: int) -> str | None:
    """Return why the rule is unjudged, None where the verdict is another one."""
    if kind == kernel_loop.FOUND_UNKNOWN and not is_unknown(kind, seq):
        return f"the session has more than {kernel.EVENTS_MAX} events"
    return REASONS.get(kind)


def _rows(judged: Judged, places: Sequence[int], names: Sequence[str]) -> pl.DataFrame:
    """Return columns of the events at these places in judged order."""
    return judged.labelled.select(names)[judged.order.rows[np.array(places, dtype=np.int64)]]


def _witness(explained: _Explained, ids: Mapping[int, tuple[str, int]]) -> Witness:
    """Return the witness of a record, with the events' ids and `seq` instead of its indices."""
    witness, rows = explained.witness, explained.rows
    events: list[WitnessEvent] = []
    for event in witness.events:
        event_id, seq = ids[rows[event.index]]
        events.append(WitnessEvent(event_id, event.residual, seq, event.true))
    history: list[WitnessHistory] = []
    for bit in witness.history:
        event_id, seq = (None, None) if bit.index is None else ids[rows[bit.index]]
        history.append(WitnessHistory(event_id, bit.formula, seq, bit.value))
    return Witness(tuple(events), tuple(history), witness.truncated)
