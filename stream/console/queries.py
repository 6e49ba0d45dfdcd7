"""The console's queries of the store: read-only, each with a named limit.

Functions take an open connection; `reading` opens and closes one for a request.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ...predict.drift.detectors import by_rule
from ...predict.following.live.followed_session import FollowedSession
from ...schemas.event import Event, Kind
from ...schemas.instrumentations.census import SpanCensus
from ...schemas.records.risk_crossing import RiskLevel
from ...schemas.records.verdict_record import VerdictRecord, decode_verdict
from ...schemas.verdict import Severity, Verdict
from ..messages.drift_state import decode_detectors
from ..messages.session_state import decode_places, followed_in
from .filters import SqlCondition, joined
from .rates import SessionCounts

RECORDS_COUNTED_MAX = 10_000
"""The latest verdicts of one rule, which its page counts."""
BREACHES = (Verdict.VIOLATED.value, Verdict.UNMET.value)
SHOWN_FIRST = (Verdict.VIOLATED, Verdict.UNMET, Verdict.UNJUDGED, Verdict.SATISFIED, Verdict.HELD)
VERDICTS_LOOKED_AT_MAX = 20_000
"""The latest verdicts, among which violated and unmet ones are searched."""
OCCURRENCES_SHOWN_MAX = 20
"""The latest occurrences of one session id, which its page links."""


@dataclass(frozen=True, slots=True)
class Position:
    """The progress of the store: its watermark (ns, None before the first), and counts of its content.

    `spans` counts the spans that came, by scope.
    """

    watermark: int | None
    sessions: int
    open_sessions: int
    verdicts: int
    dead_letters: int
    spans: SpanCensus = field(default_factory=SpanCensus)


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """A row of the table `verdict` without the record; times in ns, `given` by the wall clock."""

    number: int
    id: str
    pack: str
    rule: str
    session_id: str
    occurrence: int
    seq: int
    time: int
    verdict: Verdict
    severity: Severity
    agent: str | None
    history: bool
    given: int


@dataclass(frozen=True, slots=True)
class CrossingRow:
    """A row of the table `crossing` without the record; times in ns, `given` by the wall clock."""

    number: int
    id: str
    level: RiskLevel
    pack: str
    rule: str
    session_id: str
    occurrence: int
    seq: int
    time: int
    risk: float | None
    threshold: float
    severity: Severity
    agent: str | None
    history: bool
    given: int


@dataclass(frozen=True, slots=True)
class OccurrenceSummary:
    """A summary of one occurrence of a session, with its number of verdicts of each kind.

    `first` is the `seq` of the first stored event, above 1 where retention deleted earlier ones; `events` is
    the `seq` of the last. `number` is the first event's number among all events.
    """

    session_id: str
    occurrence: int
    agent: str | None
    first: int
    events: int
    last_time: int
    closed: bool
    verdicts: tuple[tuple[Verdict, int], ...]
    number: int


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """A row of the table `dead_letter`; `received` in ns of the wall clock."""

    id: int
    received: int
    place: str
    code: str
    reason: str
    sha256: str


@contextmanager
def reading(store: Path) -> Generator[sqlite3.Connection]:
    """Open a read-only connection for the block. Raises sqlite3.Error where there is no store."""
    connection = connect(store)
    try:
        yield connection
    finally:
        connection.close()


def connect(store: Path) -> sqlite3.Connection:
    """Return a read-only connection, for one thread at a time."""
    return sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)


def position(db: sqlite3.Connection) -> Position:
    """Return the progress of the store."""
    (watermark, begun, ended, verdicts, dead) = db.execute(
        "SELECT (SELECT value FROM fact WHERE name = 'watermark'),"
        " (SELECT count(*) FROM event WHERE seq = 1),"
        " (SELECT count(*) FROM event WHERE kind = 'end'),"
        " (SELECT coalesce(max(number), 0) FROM verdict), (SELECT coalesce(max(id), 0) FROM dead_letter)"
    ).fetchone()
    time = None if watermark is None else int(watermark)
    # Retention may have deleted the first event of a session, and not its end yet.
    census = SpanCensus()
    for name, spans, read in db.execute("SELECT name, spans, read FROM scope"):
        census.count(name, spans, read)
    return Position(time, begun, max(0, begun - ended), verdicts, dead, census)


_GIVEN = (
    "SELECT number, id, pack, rule, session_id, occurrence, seq, time, verdict, severity, agent,"
    " history, given FROM verdict"
)


def latest(
    db: sqlite3.Connection,
    limit: int,
    *,
    after: int = 0,
    before: int | None = None,
    rule: tuple[str, str] | None = None,
    breaches: bool = False,
    where: Iterable[SqlCondition] = (),
) -> list[VerdictRow]:
    """Return verdicts, newest first: numbers above `after` and below `before`, of one rule if given.

    With `breaches` only `violated` and `unmet`, among the `VERDICTS_LOOKED_AT_MAX` newest numbers. `where`
    are further conditions.
    """
    wanted: list[SqlCondition] = [("number > ?", (after,)), *where]
    if before is not None:
        wanted.append(("number < ?", (before,)))
    if rule is not None:
        wanted.append(("pack = ? AND rule = ?", rule))
    if breaches:
        wanted.append(("verdict IN (?, ?)", BREACHES))
        wanted.append(("number > (SELECT max(number) FROM verdict) - ?", (VERDICTS_LOOKED_AT_MAX,)))
    conditions, values = joined(wanted)
    query = f"{_GIVEN} WHERE {conditions} ORDER BY number DESC LIMIT ?"
    return [_given(row) for row in db.execute(query, (*values, limit))]


def warnings(
    db: sqlite3.Connection, limit: int, *, after: int = 0, rule: tuple[str, str] | None = None
) -> list[CrossingRow]:
    """Return the crossings at which risks rose to their thresholds, newest first: numbers above `after`."""
    wanted: list[SqlCondition] = [("number > ?", (after,)), ("level = ?", (RiskLevel.UP.value,))]
    if rule is not None:
        wanted.append(("pack = ? AND rule = ?", rule))
    conditions, values = joined(wanted)
    query = f"{_CROSSED} WHERE {conditions} ORDER BY number DESC LIMIT ?"
    rows = (dict(zip(_CROSSING_FIELDS, row, strict=True)) for row in db.execute(query, (*values, limit)))
    return [msgspec.convert(row, CrossingRow, strict=False) for row in rows]


_CROSSING_FIELDS = tuple(CrossingRow.__dataclass_fields__)
_CROSSED = f"SELECT {', '.join(_CROSSING_FIELDS)} FROM crossing"


def drifted(db: sqlite3.Connection, chain: str) -> frozenset[tuple[str, str]]:
    """Return the packs and ids of the rules that have drifted from a chain; none in an archive."""
    row = db.execute("SELECT value FROM fact WHERE name = 'drift'").fetchone()
    found = {} if row is None else by_rule([decode_detectors(row[0])], chain)
    return frozenset(rule for rule, drift in found.items() if drift.is_firing)


def followed(db: sqlite3.Connection, session_id: str) -> FollowedSession | None:
    """Return the state of a session's open occurrence as its risks are followed, None where they are not."""
    query = "SELECT state, pages, round, number, data FROM session LEFT JOIN page USING (session_id)"
    rows = db.execute(f"{query} WHERE session_id = ?", (session_id,)).fetchall()
    if not rows:
        return None
    data = {(number, index): page for *_, number, index, page in rows}
    state, places, *_ = rows[0]
    return followed_in(state, [(place, data[place[:2]]) for place in decode_places(places)])


def version(db: sqlite3.Connection) -> int:
    """Return a number that changes on this connection when another one has written."""
    return db.execute("PRAGMA data_version").fetchone()[0]


def record(db: sqlite3.Connection, verdict_id: str) -> VerdictRecord | None:
    """Return a verdict's record, None where there is none with this id."""
    row = db.execute("SELECT record FROM verdict WHERE id = ?", (verdict_id,)).fetchone()
    return None if row is None else decode_verdict(row[0])


def records_of(db: sqlite3.Connection, session_id: str, occurrence: int, limit: int) -> list[VerdictRecord]:
    """Return at most `limit` records of an occurrence, in the order of their events."""
    query = "SELECT record FROM verdict WHERE session_id = ? AND occurrence = ? ORDER BY seq, number LIMIT ?"
    rows = db.execute(query, (session_id, occurrence, limit))
    return [decode_verdict(row[0]) for row in rows]


def counts(db: sqlite3.Connection, rule: tuple[str, str]) -> dict[Verdict, int]:
    """Return the number of verdicts of each kind among a rule's latest `RECORDS_COUNTED_MAX`."""
    query = (
        "SELECT verdict, count(*) FROM (SELECT verdict FROM verdict WHERE pack = ? AND rule = ?"
        " ORDER BY number DESC LIMIT ?) GROUP BY verdict"
    )
    found = dict(db.execute(query, (*rule, RECORDS_COUNTED_MAX)))
    return {verdict: found[verdict] for verdict in SHOWN_FIRST if verdict in found}


def session_counts(
    db: sqlite3.Connection, since: int, until: int, bucket: int, rule: tuple[str, str] | None = None
) -> list[SessionCounts]:
    """Count sessions by rule, agent and bucket of the event time at which the rule first applied to them.

    `since` and `until` are ns, `bucket` its width in ns. A session that violates counts as applicable; an
    unjudged one that does not violate counts as unjudged only, and if the rule had not applied to it before,
    in the bucket in which it became unjudged.
    """
    found = "coalesce(applied, violated, unjudged)"
    query = (
        f"SELECT pack, rule, coalesce(agent, ''), ({found} - ?) / ? AS bucket,"
        " sum(violated IS NOT NULL OR unjudged IS NULL), sum(violated IS NOT NULL),"
        " sum(violated IS NULL AND unjudged IS NOT NULL) FROM standing"
        " WHERE ((applied >= ? AND applied < ?)"
        "  OR (applied IS NULL AND coalesce(violated, unjudged) >= ? AND coalesce(violated, unjudged) < ?))"
        f"{' AND pack = ? AND rule = ?' if rule else ''} GROUP BY 1, 2, 3, 4"
    )
    span = (since, until, since, until)
    return [SessionCounts(*row) for row in db.execute(query, (since, bucket, *span, *(rule or ())))]


def at_risk_counts(db: sqlite3.Connection, since: int, until: int) -> dict[tuple[str, str, str], int]:
    """Count the sessions at risk by pack, rule and agent, of those to which the rule first applied then."""
    query = (
        "SELECT pack, rule, agent, count(*) FROM ("
        " SELECT DISTINCT pack, rule, coalesce(standing.agent, '') AS agent, session_id, occurrence"
        " FROM crossing JOIN standing USING (session_id, occurrence, pack, rule)"
        " WHERE level = 'up' AND NOT crossing.history"
        "  AND coalesce(applied, violated, unjudged) >= ? AND coalesce(applied, violated, unjudged) < ?"
        ") GROUP BY 1, 2, 3"
    )
    return {(pack, rule, agent): count for pack, rule, agent, count in db.execute(query, (since, until))}


_FIRST = "SELECT id, session_id, occurrence, row FROM event"


def begun(
    db: sqlite3.Connection, limit: int, *, before: int | None = None, where: Iterable[SqlCondition] = ()
) -> list[OccurrenceSummary]:
    """Return the latest occurrences, newest first, whose first event has a number below `before`.

    `where` are further conditions on the first event.
    """
    wanted = [*where, *([("id < ?", (before,))] if before is not None else [])]
    conditions, values = joined(wanted)
    query = f"{_FIRST} WHERE seq = 1 AND {conditions} ORDER BY id DESC LIMIT ?"
    return [_occurrence(db, *row) for row in db.execute(query, (*values, limit)).fetchall()]


def occurrences(db: sqlite3.Connection, session_id: str) -> list[int]:
    """Return the times of a session's latest occurrences, newest first."""
    query = "SELECT DISTINCT occurrence FROM event WHERE session_id = ? ORDER BY occurrence DESC LIMIT ?"
    return [row[0] for row in db.execute(query, (session_id, OCCURRENCES_SHOWN_MAX))]


def occurrence(db: sqlite3.Connection, session_id: str, began: int) -> OccurrenceSummary | None:
    """Return one occurrence of a session, None where the store has none of its events."""
    query = f"{_FIRST} WHERE session_id = ? AND occurrence = ? AND kind != 'end' ORDER BY seq LIMIT 1"
    row = db.execute(query, (session_id, began)).fetchone()
    return None if row is None else _occurrence(db, *row)


def events(db: sqlite3.Connection, session_id: str, began: int, limit: int, *, skip: int = 0) -> list[Event]:
    """Return events of an occurrence in judged order, after the first `skip`, without its `end` row."""
    query = (
        "SELECT row FROM event WHERE session_id = ? AND occurrence = ? AND seq > ? AND kind != 'end'"
        " ORDER BY seq LIMIT ?"
    )
    return [_event(row[0]) for row in db.execute(query, (session_id, began, skip, limit))]


def dead_letters(db: sqlite3.Connection, limit: int, *, before: int | None = None) -> list[DeadLetterRow]:
    """Return dead letters, newest first."""
    where, values = ("WHERE id < ?", (before,)) if before is not None else ("", ())
    query = (
        f"SELECT id, received, place, code, reason, sha256 FROM dead_letter {where} ORDER BY id DESC LIMIT ?"
    )
    return [DeadLetterRow(*row) for row in db.execute(query, (*values, limit))]


def _given(row: tuple[object, ...]) -> VerdictRow:
    return msgspec.convert(dict(zip(_GIVEN_FIELDS, row, strict=True)), VerdictRow, strict=False)


_GIVEN_FIELDS = tuple(VerdictRow.__dataclass_fields__)


def _event(row: bytes) -> Event:
    return msgspec.json.decode(row, type=Event)


def _occurrence(
    db: sqlite3.Connection, number: int, session_id: str, began: int, row: bytes
) -> OccurrenceSummary:
    """Return the summary of the occurrence that begins with this event."""
    query = (
        "SELECT seq, time, kind FROM event WHERE session_id = ? AND occurrence = ? ORDER BY seq DESC LIMIT 1"
    )
    seq, time, kind = db.execute(query, (session_id, began)).fetchone()
    counted = (
        "SELECT verdict, count(*) FROM verdict WHERE session_id = ? AND occurrence = ?"
        " GROUP BY verdict ORDER BY verdict"
    )
    verdicts = tuple((Verdict(word), count) for word, count in db.execute(counted, (session_id, began)))
    closed, first = kind == Kind.END, _event(row)
    return OccurrenceSummary(
        session_id=session_id,
        occurrence=began,
        agent=first.agent,
        first=first.seq,
        events=seq - 1 if closed else seq,
        last_time=time,
        closed=closed,
        verdicts=verdicts,
        number=number,
    )
