"""The changes of one batch, as the rows of the store's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...predict.drift.detectors import Detectors
from ...schemas.instrumentations.census import SpanCensus
from ...schemas.paged.page import PagePlace
from ...schemas.plain_traces.requests import PlainRequest
from ...schemas.records.dead_letter import DeadLetter
from ...schemas.sessions.span_reading import SpanReading
from ...schemas.span import Span
from ..messages.trace_state import EntrySizes
from ..messages.unjoined import Unjoined
from ..stages.judge import Outputs
from ..stages.resolve import SourceTimes


class SessionRow(NamedTuple):
    """The row of a session: when it is due, whether an occurrence is open, its state, and `pages` of that.

    `pages` has the places of all pages. `new` are the pages to write with the row, and `gone` the places of
    those to delete.
    """

    due: int
    is_open: bool
    state: bytes
    pages: bytes = b""
    new: Sequence[tuple[PagePlace, bytes]] = ()
    gone: Sequence[PagePlace] = ()


class TraceRow(NamedTuple):
    """The row of a trace, and what a batch writes of the trace.

    `row` is the number of the row with its state. Where `written` is 0 the state is `data`, else `data` is
    that change since the state was written; it is None where the trace is forgotten. `before` is what the
    store had of it. `sizes` are those of all entries.
    """

    row: int
    touched: int
    written: int
    data: bytes | None
    sizes: EntrySizes
    before: TraceInRows | None


class TraceInRows(NamedTuple):
    """A trace in the store: the number of its row, how many changes follow, and the sizes of all entries."""

    row: int
    changes: int
    sizes: EntrySizes


@dataclass(slots=True)
class StoreChanges:
    """Everything that one batch changes; rows are tuples in the order of the table's columns.

    `drift` are the detectors after the batch, None where they did not change.
    Requests up to the number `worked_off` leave the inbox, and those `quarantined` go to quarantine.
    `census` counts the spans that came. For metrics and the doctor only: the `outputs` of judging. For
    metrics only: the arrival of the latest request (`received`), the spans and log records that wait, the log
    records that were `unjoined`, and the sessions that are open after the commit. For the doctor only: the
    `spans` with their readings, the `plain_requests`, and whether `log_records` came.
    """

    worked_off: int = 0
    quarantined: list[int] = field(default_factory=list[int])
    sessions: dict[str, SessionRow | None] = field(default_factory=dict[str, SessionRow | None])
    traces: dict[str, TraceRow] = field(default_factory=dict[str, TraceRow])
    events: list[tuple[str, int, int, int, str, bytes]] = field(
        default_factory=list[tuple[str, int, int, int, str, bytes]]
    )
    verdicts: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])
    crossings: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])
    statuses: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])
    closes: list[tuple[int, str, int]] = field(default_factory=list[tuple[int, str, int]])
    dead_letters: list[DeadLetter] = field(default_factory=list[DeadLetter])
    census: SpanCensus = field(default_factory=SpanCensus)
    times: SourceTimes = field(default_factory=SourceTimes)
    drift: Detectors | None = None
    received: int | None = None
    spans_waiting: int = 0
    spans_early: int = 0
    records_waiting: int = 0
    unjoined: Counter[Unjoined] = field(default_factory=Counter[Unjoined])
    open_sessions: int = 0
    spans: list[tuple[Span, SpanReading]] = field(default_factory=list[tuple[Span, SpanReading]])
    plain_requests: list[PlainRequest] = field(default_factory=list[PlainRequest])
    log_records: bool = False
    outputs: Outputs = field(default_factory=Outputs)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write: no request, session, trace or dead letter."""
        return not (self.worked_off or self.sessions or self.traces or self.dead_letters)
