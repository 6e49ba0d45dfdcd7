"""Small archives for the tests of the audit: rows of event Parquet by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl
from tracline.schemas.frames.events import EVENT_SCHEMA
from tracline.schemas.time import NS, parse_time

START = parse_time("2026-02-17T12:00:00Z") or 0

PACK = """
pack: desk
version: 1
propositions:
  call: kind == "tool_call"
  pay: kind == "tool_call" and tool == "pay"
  odd: kind == "tool_call" and tool == "odd"
  result: kind == "tool_result"
  angry: kind == "user" and text contains "!"
rules:
  - {id: answered, title: Calls are answered, severity: medium, formula: always (call -> eventually result)}
  - {id: calm, title: Nobody shouts, severity: high, formula: always not angry}
  - {id: paid-once, severity: low, for_each: call_id, formula: 'always (pay -> at_most[1] pay)'}
  - {id: gives-up, severity: info, recover: none, formula: not odd weak_until angry}
"""


def session(name: str, *events: dict, start: int = START, end: bool = True) -> list[dict]:
    """One occurrence: the events a second apart, and an `end` row."""
    rows = [
        {"session_id": name, "occurrence": start, "time": start + at * NS, "seq": at + 1, **event}
        for at, event in enumerate(events)
    ]
    for row in rows:
        row.setdefault("event_id", f"{name}-{row['seq']}")
    if end:
        time = rows[-1]["time"]
        last = {"session_id": name, "occurrence": start, "time": time, "seq": len(rows) + 1}
        rows.append(last | {"kind": "end", "event_id": f"{name}-end"})
    return rows


def user(text: str | None, **more: object) -> dict:
    """A user message; None is one that was not captured."""
    return {"kind": "user", "text": text, "content": "absent" if text is None else "captured", **more}


def call(tool: str = "look", call_id: str = "c1", **more: object) -> dict:
    """A tool call."""
    return {"kind": "tool_call", "tool": tool, "call_id": call_id, **more}


def result(call_id: str = "c1", **more: object) -> dict:
    """A tool result."""
    return {"kind": "tool_result", "tool": "look", "call_id": call_id, "result": "ok", **more}


def frame_of(rows: Iterable[dict]) -> pl.DataFrame:
    """The rows as an event frame, without attributes."""
    defaults = {"late": False, "history": False, "nested": False, "content": "captured"}
    names = [name for name in EVENT_SCHEMA if name != "attributes"]
    schema = {name: EVENT_SCHEMA[name] for name in names} | {"time": pl.Int64, "occurrence": pl.Int64}
    full_rows = [{name: (defaults | row).get(name) for name in names} for row in rows]
    frame = pl.DataFrame(full_rows, schema=schema)
    return frame.with_columns(pl.col("time", "occurrence").cast(EVENT_SCHEMA["time"]))


def write(file: Path, rows: Iterable[dict]) -> Path:
    """The rows as a file of event Parquet."""
    file.parent.mkdir(parents=True, exist_ok=True)
    frame_of(rows).write_parquet(file)
    return file
