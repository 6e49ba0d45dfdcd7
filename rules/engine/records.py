"""Verdict records: findings with ids, times, slices and witnesses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
from msgspec import UNSET

from ...schemas.instrumentations.missing import Missing
from ...schemas.records.verdict_record import (
    VerdictRecord,
    Witness,
    encode_verdict,
)
from ...schemas.verdict import Verdict
from ..labels.missing import missing_of
from ..model.arrays import I32, Mask
from ..model.digest import verdict_id
from . import kernel, kernel_loop
from .judge import CompiledRules, Judged, columns_at
from .kernel import Findings
from .status import is_unjudged
from .witness import (
    Explanations,
    TrailRows,
    TrailRuns,
    before_events,
    replay,
    run_starts,
    runs_of,
    trail_letters,
    witnesses,
)

RECORDS_AT_ONCE = 2_000
"""Findings that become records together; those of one run are never separated."""

REASONS = {
    kernel_loop.FOUND_UNKNOWN: "something that the rule asks about was not captured",
    kernel_loop.FOUND_SLICES: f"the session has more than {kernel.SLICES_MAX} slices",
    kernel_loop.FOUND_UNSETTLED: "something that was not captured decides whether the session met the rule",
}
"""Reasons why a rule is unjudged, by the kind of the finding; the limit of events has another reason."""


_CLOSED = 8
"""Offset of the codes of closing verdicts among the kinds of findings."""

VERDICTS = {
    kernel_loop.FOUND_VIOLATED: Verdict.VIOLATED,
    kernel_loop.FOUND_SATISFIED: Verdict.SATISFIED,
    kernel_loop.FOUND_UNKNOWN: Verdict.UNJUDGED,
    kernel_loop.FOUND_SLICES: Verdict.UNJUDGED,
    kernel_loop.FOUND_UNSETTLED: Verdict.UNJUDGED,
    **{_CLOSED + code: verdict for code, verdict in enumerate(kernel.CLOSING) if verdict is not None},
}
"""The verdict of each kind of finding."""


TIME_TEXT = "%Y-%m-%dT%H:%M:%S%.9fZ"
"""The format in which Polars writes a time as `rfc3339` does."""


def records(compiled: CompiledRules, judged: Judged) -> Iterator[VerdictRecord]:
    """Yield the records of a bucket's findings, in no particular order."""
    found = kernel.join([judged.found, marked(judged.closed)])
    found = found.take(np.lexsort((found.stamps, found.slices, found.columns, found.slots)))
    rows = _trail_rows(compiled, judged, np.unique(found.columns).tolist())
    source = JudgedEvents(judged, compiled.program.groups)
    for part in _parts(found):
        explained = part.take(has_witnesses(part))
        runs = _runs(compiled, judged, explained)
        memory = before_events(compiled.trails, runs)
        yield from records_of(compiled, part, replay(compiled.trails, rows, runs, memory), source)


def marked(closed: Findings) -> Findings:
    """Return closing verdicts with kinds that no other finding has, by which `VERDICTS` names them."""
    return Findings(closed.stamps, closed.slots, closed.columns, closed.slices, closed.kinds + _CLOSED)


def _parts(found: Findings) -> Iterator[Findings]:
    """Cut findings, which are ordered by run, into parts of whole runs."""
    begin, count = 0, len(found.stamps)
    starts = np.append(run_starts(found), count)
    while begin < count:
        end = int(starts[np.searchsorted(starts, min(begin + RECORDS_AT_ONCE, count))])
        yield found.take(slice(begin, end))
        begin = end


def _trail_rows(compiled: CompiledRules, judged: Judged, columns: Iterable[int]) -> TrailRows:
    """Return the bucket's events as the trails of these columns read them."""
    letters, words = trail_letters(compiled.trails, compiled.program, judged.words, judged.letters, columns)
    return TrailRows(judged.codes, letters, words, judged.slices)


def _runs(compiled: CompiledRules, judged: Judged, found: Findings) -> TrailRuns:
    """Return the runs of findings that are ordered by run and stamp, each from its session's first event."""
    starts = run_starts(found)
    bounds = np.append(starts, len(found.stamps))
    return runs_of(
        compiled.trails,
        begins=judged.sessions.bounds[found.slots[starts]],
        ends=found.stamps[bounds[1:] - 1] + 1,
        columns=found.columns[starts],
        slices=found.slices[starts],
        bounds=bounds,
        asked=found.stamps,
    )


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
        record.verdict.value,
    )


def record_line(record: VerdictRecord) -> tuple[RecordKey, bytes]:
    """Return the record's sort key, and its line of canonical JSON."""
    return record_key(record), encode_verdict(record) + b"\n"


class RecordEvent(NamedTuple):
    """The columns of an event that its records have; times are text."""

    session_id: str
    occurrence: str
    time: str
    seq: int
    late: bool
    history: bool
    agent: str | None
    event_id: str
    missing: dict[str, Any] | None = None


class EventSource(Protocol):
    """The events that records name, by their places in judged order."""

    def events(self, places: Sequence[int]) -> Iterable[RecordEvent]:
        """Return the events at these places."""
        ...

    def ids(self, places: Sequence[int]) -> Iterable[tuple[str, int]]:
        """Return the id and the `seq` of the events at these places."""
        ...

    def slice_values(self, found: Findings) -> Sequence[str | None]:
        """Return the value of each finding's slice, None where it has none."""
        ...


@dataclass(frozen=True, slots=True)
class JudgedEvents:
    """The events of a judged bucket."""

    judged: Judged
    groups: I32

    def events(self, places: Sequence[int]) -> Iterable[RecordEvent]:
        """Return the events at these places."""
        times = pl.col("occurrence", "time").dt.strftime(TIME_TEXT)
        known = set(self.judged.labelled.columns)
        rows = self._rows(places, [name for name in RecordEvent._fields if name in known])
        return starmap(RecordEvent, rows.with_columns(times).iter_rows())

    def ids(self, places: Sequence[int]) -> Iterable[tuple[str, int]]:
        """Return the id and the `seq` of the events at these places."""
        return self._rows(places, ("event_id", "seq")).iter_rows()

    def slice_values(self, found: Findings) -> Sequence[str | None]:
        """Return the value of each finding's slice, None where it has none."""
        values = np.full(len(found.slices), None, dtype=object)
        sliced = np.flatnonzero(found.slices != kernel_loop.NO_SLICE)
        keys = self.groups[found.columns]
        for key in np.unique(keys[sliced]).tolist():
            chosen = sliced[keys[sliced] == key]
            rows = self.judged.order.rows[self.judged.slice_places[found.slices[chosen]]]
            values[chosen] = self.judged.labelled[f"s{key}"][rows].to_numpy()
        return values.tolist()

    def _rows(self, places: Sequence[int], names: Sequence[str]) -> pl.DataFrame:
        rows = self.judged.order.rows[np.array(places, dtype=np.int64)]
        return columns_at(self.judged.labelled, names, rows)


def records_of(
    compiled: CompiledRules, found: Findings, explained: Explanations, source: EventSource
) -> Iterator[VerdictRecord]:
    """Yield a record for each finding; `explained` has the witnesses of those that have one, in order."""
    rest = witnesses(compiled.trails, explained, source.ids)
    shown = [next(rest) if has_witness else None for has_witness in has_witnesses(found).tolist()]
    events = source.events(found.stamps.tolist())
    numbers = compiled.program.order[found.columns].tolist()
    values = source.slice_values(found)
    for finding in zip(numbers, found.kinds.tolist(), values, events, shown, strict=True):
        yield _record(compiled, *finding)


def has_witnesses(found: Findings) -> Mask:
    """Return which findings have a witness: all but those of unjudged rules."""
    return ~is_unjudged(found)


def _record(
    compiled: CompiledRules,
    number: int,
    kind: int,
    slice_value: str | None,
    event: RecordEvent,
    witness: Witness | None,
) -> VerdictRecord:
    rule, digest, verdict = compiled.rules[number], compiled.digests[number], VERDICTS[kind]
    return VerdictRecord(
        id=verdict_id(
            pack=rule.pack,
            rule=rule.id,
            rule_digest=digest,
            session_id=event.session_id,
            occurrence=event.occurrence,
            slice=slice_value,
            event_id=event.event_id,
            verdict=verdict,
        ),
        pack=rule.pack,
        rule=rule.id,
        rule_digest=digest,
        session_id=event.session_id,
        occurrence=event.occurrence,
        slice=slice_value,
        event_id=event.event_id,
        verdict=verdict,
        seq=event.seq,
        time=event.time,
        severity=rule.severity,
        agent=event.agent,
        late=event.late,
        history=event.history,
        reason=reason_of(kind, event.seq),
        witness=witness,
        missing=_missing(kind, event) if verdict is Verdict.UNJUDGED else UNSET,
    )


def _missing(kind: int, event: RecordEvent) -> Missing | None:
    """Return what an unjudged rule lacked at the event; None where nothing was lacking."""
    return missing_of(event.missing) if is_unknown(kind, event.seq) else None


def is_unknown(kind: int, seq: int) -> bool:
    """Return whether a finding means that something was not captured, for the event with this `seq`."""
    return kind == kernel_loop.FOUND_UNKNOWN and seq <= kernel.EVENTS_MAX


def reason_of(kind: int, seq: int) -> str | None:
    """Return why the rule is unjudged, None where the verdict is another one."""
    if kind == kernel_loop.FOUND_UNKNOWN and not is_unknown(kind, seq):
        return f"the session has more than {kernel.EVENTS_MAX} events"
    return REASONS.get(kind)
