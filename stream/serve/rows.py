"""What a batch of outputs changes in the store, as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
import polars as pl

from ...rules.engine.records import Record, line
from ...schemas.event import Event, Kind
from ...schemas.frames.events import event_frame
from ...schemas.time import parse_time
from ...schemas.verdict import Verdict
from ..messages.session_state import SessionState, encode
from ..messages.status import SessionStatus
from ..stages.judge import Outputs
from .store import StoreChanges, damaged

T = TypeVar("T")

_ROW = msgspec.json.Encoder()
_EVENT = msgspec.json.Decoder(Event)


class _JudgedBy(msgspec.Struct):
    """What a row says beside the event: the digest of the rule set that judged it; older rows do not."""

    rules: str | None = None


_JUDGED_BY = msgspec.json.Decoder(_JudgedBy)
_BREACHES = (Verdict.VIOLATED.value, Verdict.UNMET.value)


def add_changes(
    batch: StoreChanges, outputs: Outputs, states: Mapping[str, SessionState], given: int
) -> None:
    """Add to a batch what the outputs and the states that were touched change; `given` is the time now."""
    for session_id, state in states.items():
        due = state.session.due
        is_open = state.session.open is not None
        batch.sessions[session_id] = None if due is None else (due, is_open, encode(state))
    batch.late, batch.repeats, batch.judged = outputs.late, outputs.repeats, outputs.events
    for event, rules in zip(outputs.events, outputs.digests, strict=True):
        batch.events.append(_event(event, rules))
        if event.kind is Kind.END:
            batch.closes.append((event.time, event.session_id, event.occurrence))
    batch.verdicts += [_verdict(record, given) for record in outputs.records]
    batch.standings += [_standing(record) for record in outputs.records if not record["history"]]
    batch.standings += [
        (one.session_id, one.occurrence, one.pack, one.rule, one.agent, one.time, None, None)
        for one in outputs.statuses
        if one.status is SessionStatus.APPLIED
    ]


def _event(event: Event, rules: str) -> tuple[str, int, int, int, str, bytes]:
    told: dict[str, object] = msgspec.to_builtins(event)
    row = _ROW.encode({**told, "rules": rules})
    return event.session_id, event.occurrence, event.seq, event.time, event.kind.value, row


def _verdict(record: Record, given: int) -> tuple[object, ...]:
    return (
        *(record[name] for name in ("id", "pack", "rule", "session_id")),
        _ns(record["occurrence"]),
        record["seq"],
        _ns(record["time"]),
        *(record[name] for name in ("verdict", "severity", "agent")),
        int(record["history"]),
        given,
        line(record),
    )


def _standing(record: Record) -> tuple[object, ...]:
    time = _ns(record["time"])
    is_breach, is_unjudged = record["verdict"] in _BREACHES, record["verdict"] == Verdict.UNJUDGED.value
    return (
        record["session_id"],
        _ns(record["occurrence"]),
        *(record[name] for name in ("pack", "rule", "agent")),
        # A session that violates always counts.
        time if is_breach else None,
        time if is_breach else None,
        time if is_unjudged else None,
    )


def _ns(text: str) -> int:
    found = parse_time(text)
    assert found is not None, "a record's times are RFC 3339"
    return found


def frame_of(rows: Sequence[bytes]) -> pl.DataFrame:
    """Rows of the table `event` as an event frame."""
    return event_frame(_read(_EVENT, rows))


def rules_of(rows: Sequence[bytes]) -> list[str | None]:
    """The digest of the rule set that judged each of these rows, None where it does not say."""
    return [one.rules for one in _read(_JUDGED_BY, rows)]


def _read(decoder: msgspec.json.Decoder[T], rows: Sequence[bytes]) -> list[T]:
    """Return what the rows hold. Raises StreamError (TRL702) where one of them is damaged."""
    try:
        return [decoder.decode(row) for row in rows]
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError):
        raise damaged() from None
