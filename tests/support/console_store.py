"""Stores for the tests of the console: sessions judged by the rules that ship, as `serve` writes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import msgspec
import orjson
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.formats import events
from tracline.examples.desk.scene import Break
from tracline.rules.engine.judge import JUDGED_COLUMNS, Clock, CompiledRules, Judged, compile_rule_set, judge
from tracline.rules.engine.kernel_loop import APPLIES_BIT
from tracline.rules.engine.records import records
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.event import Event, Kind, end_event, event_id
from tracline.schemas.frames.events import event_frame
from tracline.schemas.records.verdict_record import VerdictRecord, encode_verdict
from tracline.schemas.time import NS, parse_time
from tracline.stream.serve.store_schema import TABLES

NO_TIME = -(1 << 63)


def fill(file: Path, compiled: CompiledRules, sessions: Iterable[Sequence[Event]]) -> Path:
    """Judge whole sessions and put everything about them into a new store; the store's file.

    A session that has no `end` row stays open. Sessions come in the order of their last events.
    """
    ordered = sorted(sessions, key=lambda events: events[-1].time)
    rows = [event for events in ordered for event in events]
    labelled = compiled.labeler.label_few(event_frame(rows), keep=JUDGED_COLUMNS)
    judged = judge(compiled, labelled, Clock(last=NO_TIME, idle=0), satisfied=False)
    found = sorted(records(compiled, judged), key=lambda record: record.time)
    with writing(empty(file)) as db:
        db.executemany(EVENT, map(event_row, rows))
        db.executemany(VERDICT, map(verdict_row, found))
        db.executemany(INSERT_STATUS, rule_statuses(compiled, judged, found))
        db.execute("INSERT INTO fact VALUES ('watermark', ?)", (rows[-1].time,))
    return file


def empty(file: Path) -> Path:
    """A new store that nothing was sent to."""
    with writing(file) as db:
        db.executescript(f"PRAGMA journal_mode = WAL; {TABLES}")
    return file


@contextmanager
def writing(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the store whose changes are there when it is left."""
    db = sqlite3.connect(file)
    try:
        with db:
            yield db
    finally:
        db.close()


EVENT = "INSERT INTO event (session_id, occurrence, seq, time, kind, row) VALUES (?, ?, ?, ?, ?, ?)"
VERDICT = """INSERT INTO verdict (id, pack, rule, session_id, occurrence, seq, time, verdict, severity, agent,
history, given, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
INSERT_STATUS = "INSERT INTO standing VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
DEAD_LETTER = "INSERT INTO dead_letter (received, place, code, reason, sha256) VALUES (?, ?, ?, ?, ?)"


def event_row(event: Event) -> tuple:
    """An event as a row of the table of events."""
    columns = orjson.dumps(msgspec.structs.asdict(event))
    return (event.session_id, event.occurrence, event.seq, event.time, event.kind.value, columns)


def verdict_row(record: VerdictRecord) -> tuple:
    """A record as a row of the table of verdicts, given at the time of its event."""
    occurrence, time = parse_time(record.occurrence), parse_time(record.time)
    named = (record.id, record.pack, record.rule, record.session_id)
    rest = (record.verdict.value, record.severity.value, record.agent, record.history)
    return (*named, occurrence, record.seq, time, *rest, time, encode_verdict(record))


def rule_statuses(compiled: CompiledRules, judged: Judged, found: Sequence[VerdictRecord]) -> Iterator[tuple]:
    """The status of each rule in each occurrence; where it applied, it did so from the first event on."""
    first: dict[tuple, dict[str, int]] = {}
    for record in found:
        key = (record.session_id, parse_time(record.occurrence), record.pack, record.rule)
        kind = "unjudged" if record.verdict == "unjudged" else "violated"
        first.setdefault(key, {}).setdefault(kind, parse_time(record.time))
    starts = judged.sessions.bounds[:-1]
    ids = judged.column("session_id", starts).to_list()
    began = judged.column("occurrence", starts).to_physical().to_list()
    agents = judged.column("agent", starts).to_list()
    applies = judged.memory.state & APPLIES_BIT != 0
    for slot, session_id in enumerate(ids):
        for column, number in enumerate(compiled.program.order.tolist()):
            rule = compiled.rules[number]
            key = (session_id, began[slot], rule.pack, rule.id)
            found_at = first.get(key, {})
            if applies[slot, column] or found_at:
                yield (
                    *key,
                    agents[slot],
                    began[slot],
                    found_at.get("violated"),
                    found_at.get("unjudged"),
                    None,
                )


def desk_sessions(count: int, seed: int = 7) -> list[tuple[Event, ...]]:
    """Conversations of the simulated support desk in one day, most of which break a rule."""
    desk = Desk(sessions=count, seed=seed, days=1, rates=dict.fromkeys(Break, 0.9 / len(Break)), spike=None)
    return [events(conversation) for conversation in conversations(desk)]


@cache
def shipped() -> CompiledRules:
    """The rules that ship, ready to judge by."""
    return compile_rule_set(load_packs(shipped_packs()))


START = parse_time("2026-02-17T12:00:00Z") or 0


def session(
    name: str, *steps: tuple[Kind, dict], start: int = START, end: bool = True, agent: str | None = "clerk"
) -> tuple[Event, ...]:
    """One occurrence: the events a second apart, and an `end` row unless it is open."""
    events = [
        Event(
            session_id=name,
            occurrence=start,
            time=start + at * NS,
            seq=at + 1,
            kind=kind,
            agent=agent,
            **more,
        )
        for at, (kind, more) in enumerate(steps)
    ]
    events = [
        msgspec.structs.replace(event, event_id=event_id(name, start, event.kind, [], event.seq))
        for event in events
    ]
    if end:
        events.append(end_event(name, start, events[-1].time, len(events) + 1, {}))
    return tuple(events)


def user(text: str | None, **more: object) -> tuple[Kind, dict]:
    """A user's message."""
    return Kind.USER, {"text": text, **more}


def call(tool: str = "look", call_id: str = "c1", **more: object) -> tuple[Kind, dict]:
    """A tool call."""
    return Kind.TOOL_CALL, {"tool": tool, "call_id": call_id, "args": "{}", **more}


def result(call_id: str = "c1", **more: object) -> tuple[Kind, dict]:
    """A tool's result."""
    return Kind.TOOL_RESULT, {"tool": "look", "call_id": call_id, "result": "ok", **more}
