"""Rows of the store, from the outputs of judging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import polars as pl

from ...schemas.event import Event, Kind
from ...schemas.frames.events import event_frame
from ...schemas.records.risk_crossing import RiskCrossing, encode_crossing
from ...schemas.records.session_status import SessionStatus, StatusChange
from ...schemas.records.verdict_record import VerdictRecord, encode_verdict
from ...schemas.time import parse_time
from ..stages.judge import Outputs
from .changes import StoreChanges
from .store import damaged

T = TypeVar("T")

_ROW = msgspec.json.Encoder()
_EVENT = msgspec.json.Decoder(Event)


class _JudgedBy(msgspec.Struct):
    """The fields of a row beside its event: the digest of its rule set, which rows of version 1 lack.

    `chain` is the digest of the chain that followed its session; a row has it only where there is a chain.
    """

    rules: str | None = None
    chain: str | msgspec.UnsetType | None = msgspec.UNSET


_JUDGED_BY = msgspec.json.Decoder(_JudgedBy)
_TIMES = {
    SessionStatus.APPLIED: (True, False, False),
    SessionStatus.VIOLATED: (True, True, False),
    SessionStatus.UNJUDGED: (False, False, True),
}
"""The columns `applied`, `violated` and `unjudged` that a status sets to its time."""


def add_outputs(batch: StoreChanges, outputs: Outputs, given: int) -> None:
    """Add the outputs to a batch; `given` is the time now."""
    batch.outputs = outputs
    chains = outputs.chains or [msgspec.UNSET] * len(outputs.events)
    for event, rules, chain in zip(outputs.events, outputs.digests, chains, strict=True):
        batch.events.append(event_row(event, rules, chain))
        if event.kind is Kind.END:
            batch.closes.append((event.time, event.session_id, event.occurrence))
    batch.verdicts += [verdict_row(record, given) for record in outputs.records]
    batch.crossings += [crossing_row(crossing, given) for crossing in outputs.crossings]
    # The first row of a rule and occurrence sets `applied`: a violating session counts when it violates.
    for status in sorted(outputs.statuses, key=lambda status: status.status is SessionStatus.APPLIED):
        if status.status in _TIMES:
            batch.statuses.append(_status_row(status))


def event_row(
    event: Event, rules: str, chain: str | msgspec.UnsetType | None = msgspec.UNSET
) -> tuple[str, int, int, int, str, bytes]:
    """Return the row of an event that the rule set with this digest judged, and the chain followed."""
    row = b"%s,%s" % (_ROW.encode(event)[:-1], _ROW.encode(_JudgedBy(rules, chain))[1:])
    return event.session_id, event.occurrence, event.seq, event.time, event.kind.value, row


def verdict_row(record: VerdictRecord, given: int) -> tuple[object, ...]:
    """Return the row of a verdict; `given` is the time at which it was given."""
    return (
        record.id,
        record.pack,
        record.rule,
        record.session_id,
        _ns(record.occurrence),
        record.seq,
        _ns(record.time),
        record.verdict.value,
        record.severity.value,
        record.agent,
        int(record.history),
        given,
        encode_verdict(record),
    )


def crossing_row(crossing: RiskCrossing, given: int) -> tuple[object, ...]:
    """Return the row of a crossing; `given` is the time at which it was found."""
    return (
        crossing.id,
        crossing.level.value,
        crossing.pack,
        crossing.rule,
        crossing.session_id,
        _ns(crossing.occurrence),
        crossing.seq,
        _ns(crossing.time),
        crossing.risk,
        crossing.threshold,
        crossing.severity.value,
        crossing.agent,
        int(crossing.history),
        given,
        encode_crossing(crossing),
    )


def _status_row(status: StatusChange) -> tuple[object, ...]:
    """Return the row of a status; a session to which a rule may not apply is counted as an unjudged one."""
    applied, violated, unjudged = _TIMES[status.status]
    columns = applied, violated, unjudged or not status.is_certain
    times = (status.time if is_set else None for is_set in columns)
    return status.session_id, status.occurrence, status.pack, status.rule, status.agent, *times


def _ns(text: str) -> int:
    found = parse_time(text)
    assert found is not None, "a record's times are RFC 3339"
    return found


def frame_of(rows: Sequence[bytes]) -> pl.DataFrame:
    """Return rows of the table `event` as an event frame."""
    return event_frame(_read(_EVENT, rows))


def rules_of(rows: Sequence[bytes]) -> list[str | None]:
    """Return the digest of the rule set that judged each of these rows, None where the row lacks it."""
    return [judged_by.rules for judged_by in _read(_JUDGED_BY, rows)]


def chains_of(rows: Sequence[bytes]) -> list[str | None] | None:
    """Return the digest of the chain that followed each of these rows; None where no row states any."""
    found = [judged_by.chain for judged_by in _read(_JUDGED_BY, rows)]
    if all(chain is msgspec.UNSET for chain in found):
        return None
    return [None if isinstance(chain, msgspec.UnsetType) else chain for chain in found]


def _read(decoder: msgspec.json.Decoder[T], rows: Sequence[bytes]) -> list[T]:
    """Return the decoded rows. Raises StreamError (TRL702) where one is damaged."""
    try:
        return [decoder.decode(row) for row in rows]
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError):
        raise damaged() from None
