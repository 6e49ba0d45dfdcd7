"""`sessions.jsonl`: the sessions that the report draws, with their events and the runs of the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...predict.following.risk_courses import RiskCourse
from ...rules.explanation.timeline import explanation_data, explanations, sentences_of
from ...rules.model.problem import RuleError
from ...schemas.time import rfc3339
from ...schemas.verdict import Verdict
from ..evidence.bundle import SessionName
from ..evidence.canonical_json import canonical_line, canonical_line_of_integers
from .choice import ChosenSession, SessionChoice

SESSIONS = "sessions.jsonl"
"""The file of the sessions that the report draws: a line a session, by id and occurrence."""
TEXT_MAX = 300
"""Characters of an event's text, with `--with-text`."""

_EXPLAINED = (Verdict.VIOLATED, Verdict.UNMET, Verdict.UNJUDGED)


RISKS_MAX = 6
"""Risks of a session that its line has: the greatest ones."""


def write_sessions(
    path: Path, choice: SessionChoice, risks: Mapping[SessionName, Sequence[RiskCourse]]
) -> None:
    """Write the file of the chosen sessions, with the risks of those that have some."""
    with path.open("wb") as file:
        for each in choice.sessions:
            line, found = _line(each), risks.get((each.session_id, each.occurrence))
            # Risks are no integers.
            file.write(
                canonical_line(line | {"risks": _risks(found)}) if found else canonical_line_of_integers(line)
            )


def _risks(found: Sequence[RiskCourse]) -> list[dict[str, Any]]:
    """Return the greatest risks of a session, the greatest first."""
    ordered = sorted(
        found, key=lambda each: (-each.greatest, each.pack, each.rule, each.slice is not None, each.slice)
    )
    return list(map(asdict, ordered[:RISKS_MAX]))


def _line(session: ChosenSession) -> dict[str, Any]:
    """Return the line of a session; without rules it has no runs."""
    return {
        "session_id": session.session_id,
        "occurrence": session.occurrence,
        "why": session.why,
        "events": list(map(_event, session.events)),
        "rules": _runs(session) if session.events else [],
    }


def _runs(session: ChosenSession) -> list[dict[str, Any]]:
    """Return the runs of the rules that apply, none where a rule has too many parts for the session."""
    records = [record for record in session.records if record.verdict in _EXPLAINED]
    try:
        is_closed = not session.is_open
        runs = list(explanations(session.compiled, session.labels, is_closed=is_closed, every=False))
    except RuleError:
        return []
    sentences = sentences_of(session.compiled, records, runs)
    return [explanation_data(run, sentences) for run in runs]


def _event(event: dict[str, Any]) -> dict[str, Any]:
    text = event.get("text")
    return {**event, "time": rfc3339(event["time"]), "text": None if text is None else text[:TEXT_MAX]}
