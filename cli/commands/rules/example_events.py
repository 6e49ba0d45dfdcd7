"""Cases: files of events that are examples of rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ....rules.model.problem import Location, Problem, RuleError
from ....rules.model.rule import EventsExample, Rule
from ....schemas.case_events import UnreadableEvent, case_event
from ....schemas.event import Event

CASE_BYTES_MAX = 4_000_000
CASE_EVENTS_MAX = 10_000
"""Limits of a case."""


def read_cases(rules: Iterable[Rule]) -> dict[EventsExample, list[Event]]:
    """Return the events of every example of the rules. Raises RuleError with every problem."""
    cases: dict[EventsExample, list[Event]] = {}
    problems: list[Problem] = []
    for rule in rules:
        for example in (*rule.examples.violated_events, *rule.examples.holds_events):
            try:
                cases[example] = list(_events(example))
            except RuleError as error:
                problems += error.problems
    if problems:
        raise RuleError(dict.fromkeys(problems))
    return cases


def _events(example: EventsExample) -> Iterator[Event]:
    """Yield the events of a case. Raises RuleError, with the place in the pack or in the case."""
    path = (example.folder or Path()) / example.path
    lines = _lines(example, path)
    if len(lines) > CASE_EVENTS_MAX:
        raise _problem(example, f"`{example.path}` has more than {CASE_EVENTS_MAX:,} events", "take fewer")
    problems: list[Problem] = []
    found: list[Event] = []
    for number, line in lines:
        try:
            found.append(case_event(json.loads(line)))
        except (ValueError, RecursionError) as error:
            what = str(error) if isinstance(error, UnreadableEvent) else "is not JSON"
            # The line may be a customer's text: only its place is shown.
            place = Location(str(path), "", 0, 0, number, 1)
            hint = 'write an event a line, such as {"kind": "user", "text": "yes"}'
            problems.append(Problem("TRL242", f"the event {what}", hint, place))
    if problems:
        raise RuleError(problems)
    if not found:
        raise _problem(example, f"`{example.path}` has no events", "write an event a line")
    yield from found


def _lines(example: EventsExample, path: Path) -> list[tuple[int, str]]:
    """Return the lines of a case that are not blank, with their numbers."""
    hint = "paths are relative to the pack; `tracline example` writes cases"
    if example.folder is None:
        raise _problem(example, f"`{example.path}`: the pack is in no folder", hint)
    try:
        if path.stat().st_size > CASE_BYTES_MAX:
            raise _problem(example, f"`{example.path}` has more than {CASE_BYTES_MAX:,} bytes", "take fewer")
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise _problem(example, f"no file `{example.path}` beside the pack", hint) from None
    except OSError as error:
        why = error.strerror or "not readable"
        raise _problem(example, f"`{example.path}`: {why.lower()}", "check its permissions") from None
    except UnicodeDecodeError:
        raise _problem(example, f"`{example.path}` is not UTF-8", "save the file as UTF-8") from None
    return [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]


def _problem(example: EventsExample, message: str, hint: str) -> RuleError:
    return RuleError([Problem("TRL241", message, hint, example.location)])


def case_text(rows: Iterable[dict[str, Any]]) -> str:
    """Return the events as the text of a case."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
