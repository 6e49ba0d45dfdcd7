"""Compare what tracline reads from recorded telemetry with what really happened, according to `truth.json`.

truth.json: `sessions` ({id: [event]}), `verdicts` ({id: [[rule, tool of the event]]}) and `expect`, which
names what the telemetry does not hold:

- "messages": false    user and agent are not captured: only calls and results are compared
- "sessions": "trace"  there is no session key: each turn is a session, "t0", "t1", known by how it ends
- "sessions": "merged" a model call is a trace of its own: all events together are one session, "all"
- "call_ids", "nested", "args", "results", "content": false    are not compared
- "ignore_verdicts": [rule]
"""

from __future__ import annotations

import ast
import difflib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.prepare.prepare import prepare
from tracline.batch.sources.discover import Population
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs

from ..evidence.bundle_lines import bundle_lines

PACKS = ("customer-service", "tool-hygiene", "privacy")
FOUND = ("violated", "unmet")
Event = Mapping[str, Any]
Verdict = Mapping[str, Any]


def read(source: Path, scratch: Path) -> tuple[list[Event], list[Verdict]]:
    """Return the events of a source as an audit judges them, and the verdicts that it comes to."""
    (scratch / "events").mkdir(parents=True)
    parts = prepare(source, scratch / "events", Population())
    events: list[Event] = []
    for part in parts:
        frame = pl.read_parquet(part.path)
        events += frame.select(name for name in frame.columns if name != "attributes").iter_rows(named=True)
    audit(source, _rules(), scratch / "bundle", AuditOptions())
    return events, bundle_lines(scratch / "bundle")


@cache
def _rules() -> RuleSet:
    return load_packs(PACKS)


def differences(truth: Mapping[str, Any], events: Iterable[Event], verdicts: Iterable[Verdict]) -> list[str]:
    """List how an audit's events and verdicts differ from what happened; nothing where they are exact."""
    expect = truth.get("expect") or {}
    events = [event for event in events if event["kind"] != "end"]
    order = ("time", "seq") if expect.get("sessions") == "merged" else ("occurrence", "seq")
    events.sort(key=lambda event: [event[name] for name in order])
    named = _names(truth, events, expect)
    found: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        found[named[event["session_id"]]].append(event)
    found_differences = [
        f"{name}: no session of the script, {len(found[name])} events"
        for name in sorted(found.keys() - truth["sessions"].keys())
    ]
    for name, expected in truth["sessions"].items():
        if name not in found:
            found_differences.append(f"{name}: session missing")
        else:
            found_differences += [f"{name}: {text}" for text in _session(expected, found[name], expect)]
    return found_differences + _verdicts(truth, events, verdicts, named)


def _names(truth: Mapping[str, Any], events: Sequence[Event], expect: Mapping[str, Any]) -> dict[str, str]:
    """Return by session id the name that the truth has for it: of a turn by the last words."""
    names = {event["session_id"]: str(event["session_id"]) for event in events}
    if expect.get("sessions") == "merged":
        return dict.fromkeys(names, "all")
    if expect.get("sessions") != "trace":
        return names
    last = {event["session_id"]: event["text"] for event in events if _is_answer(event)}
    turns = {
        [event["text"] for event in session if _is_answer(event)][-1]: name
        for name, session in truth["sessions"].items()
    }
    return names | {session_id: turns[text] for session_id, text in last.items() if text in turns}


def _is_answer(event: Event) -> bool:
    """Return whether an event is a message from an agent to the customer."""
    return event["kind"] == "assistant" and not event["nested"] and not event.get("history")


def _session(expected: Sequence[Event], found: Sequence[Event], expect: Mapping[str, Any]) -> list[str]:
    """List how one session differs."""
    found = [event for event in found if not event.get("history")]
    if not expect.get("messages", True):
        spoken = ("user", "assistant", "unknown")
        expected, found = (
            sorted(
                (event for event in events if event["kind"] not in spoken), key=lambda event: event["kind"]
            )
            for events in (expected, found)
        )
    expected, found = _sorted_parallel(expected), _sorted_parallel(found)
    matcher = difflib.SequenceMatcher(
        None, [_key(event, expect) for event in expected], [_key(event, expect) for event in found], False
    )
    found_differences: list[str] = []
    for what, first, last, start, end in matcher.get_opcodes():
        if what == "equal":
            for true, event in zip(expected[first:last], found[start:end], strict=True):
                found_differences += _fields(true, event, expect)
        else:
            found_differences += [f"missing {_shown(event)}" for event in expected[first:last]]
            found_differences += [f"extra {_shown(event)}" for event in found[start:end]]
    return found_differences


def _sorted_parallel(events: Sequence[Event]) -> list[Event]:
    """Return events with neighbouring calls, and neighbouring results, in one order: they are parallel."""
    made: list[Event] = []
    for kind, group in groupby(events, key=lambda event: event["kind"]):
        group_events = list(group)
        if kind in ("tool_call", "tool_result"):
            group_events.sort(
                key=lambda event: (str(event["tool"]), _value(event.get("args")), str(event["call_id"]))
            )
        made += group_events
    return made


def _key(event: Event, expect: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what an event of the truth and one that was read have in common where they are the same."""
    kind = event["kind"]
    if kind in ("user", "assistant"):
        return (kind, str(event["text"]))
    args = _value(event.get("args")) if kind == "tool_call" and expect.get("args", True) else ""
    return (kind, str(event.get("tool")), args)


def _fields(true: Event, event: Event, expect: Mapping[str, Any]) -> list[str]:
    """List the fields in which an event differs from what happened."""
    found_differences: list[str] = []
    if true["kind"] == "tool_result":
        found_differences += _result(true, event, expect)
    if expect.get("call_ids", True) and true.get("call_id") and event["call_id"] != true["call_id"]:
        found_differences.append(f"call id {event['call_id']!r} of")
    if expect.get("nested", True) and bool(true.get("nested")) != bool(event["nested"]):
        found_differences.append(f"nested {event['nested']} of")
    if expect.get("content", True) and event["content"] != "captured" and true.get("result", "") is not None:
        found_differences.append(f"content {event['content']} of")
    if event.get("late"):
        found_differences.append("late")
    return [f"{text} {_shown(true)}" for text in found_differences]


def _result(true: Event, event: Event, expect: Mapping[str, Any]) -> list[str]:
    """List how a tool's result differs. A tool that failed may report the failure in its text alone."""
    found_differences: list[str] = []
    text = str(event["result"]).lstrip('"[{')
    failed = bool(event["error"]) or (true["error"] and text.startswith("Error"))
    if failed != true["error"]:
        found_differences.append(f"error {event['error']!r} of")
    expected = true["result"]
    if expected is not None and expect.get("results", True) and _value(event["result"]) != _value(expected):
        found_differences.append(f"result {event['result']!r:.160} of")
    return found_differences


def _value(value: object) -> str:
    """Return a value so that equal ones are equal: JSON's and Python's spelling, 80 and 80.0."""
    if isinstance(value, str):
        for parse in (json.loads, ast.literal_eval):
            try:
                value = parse(value)
                break
            except (ValueError, SyntaxError):
                continue
    return value if isinstance(value, str) else json.dumps(_floats(value), sort_keys=True, ensure_ascii=False)


def _floats(value: object) -> object:
    """Return a value with all its numbers as floats."""
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, list):
        return [_floats(item) for item in value]
    return {name: _floats(item) for name, item in value.items()} if isinstance(value, dict) else value


def _shown(event: Event) -> str:
    """Name an event to a person."""
    kind = event["kind"]
    shown = event.get("text")
    if kind in ("tool_call", "tool_result"):
        shown = f"{event.get('tool')} {event.get('args' if kind == 'tool_call' else 'result')}"
    return f"{kind}[{str(shown)[:60]}]" + (" (nested)" if event.get("nested") else "")


def _verdicts(
    truth: Mapping[str, Any], events: Sequence[Event], verdicts: Iterable[Verdict], named: Mapping[str, str]
) -> list[str]:
    """List the verdicts that are false and those that are missing."""
    tools = {event["event_id"]: event.get("tool") for event in events}
    ignored = (truth.get("expect") or {}).get("ignore_verdicts", ())
    found = [
        (
            named.get(verdict["session_id"], verdict["session_id"]),
            verdict["rule"],
            tools.get(verdict["event_id"]),
        )
        for verdict in verdicts
        if verdict["verdict"] in FOUND and not verdict["history"] and verdict["rule"] not in ignored
    ]
    expected = [
        (name, rule, tool)
        for name, pairs in truth["verdicts"].items()
        for rule, tool in pairs
        if rule not in ignored
    ]
    missing = [f"{name}: VERDICT {rule} on {tool} is missing" for name, rule, tool in _minus(expected, found)]
    return missing + [
        f"{name}: VERDICT {rule} on {tool} is false" for name, rule, tool in _minus(found, expected)
    ]


def _minus(items: list[Any], others: list[Any]) -> list[Any]:
    """Return what the one list has more often than the other."""
    rest = list(others)
    return [item for item in items if not (item in rest and (rest.remove(item) or True))]
