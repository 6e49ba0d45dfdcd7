"""Filters of the lists of verdicts and sessions: read from an address, and as conditions of queries."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec

from ...schemas.display import visible
from ...schemas.verdict import Severity, Verdict

EVENTS_SEARCHED_MAX = 500_000
"""The newest events in which a text is searched."""
SESSIONS_FOUND_MAX = 10_000
"""The newest sessions with a text that a list shows."""
VERDICTS_SHOWN = (Verdict.VIOLATED, Verdict.UNMET, Verdict.UNJUDGED)
TEXT_CHARS_MAX = 200
"""Characters of a searched text; a longer one is cut."""

Occurrences = tuple[tuple[str, int], ...]
SqlCondition = tuple[str, tuple[int | str, ...]]
"""A condition in SQL, and the values of its parameters."""

_BREACHES = "verdict IN ('violated', 'unmet')"


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters that an address asks for; None and empty texts filter nothing.

    `rule` is `pack/id`; `agent` is a whole name; `session` and `text` are parts of an id and of a content.
    """

    severity: Severity | None = None
    verdict: Verdict | None = None
    rule: str | None = None
    agent: str | None = None
    session: str | None = None
    text: str | None = None

    @property
    def query(self) -> dict[str, str]:
        """Return the parameters of an address with these filters."""
        given = {name: getattr(self, name) for name in Filters.__slots__}
        return {name: str(value) for name, value in given.items() if value is not None}


def filters_of(query: Mapping[str, str]) -> Filters:
    """Return the filters in an address; unknown values filter nothing.

    A rule may also be named by `pack` and `rule`, as in links of early releases.
    """
    given = {name: text[:TEXT_CHARS_MAX] for name, text in query.items() if text}
    rule, pack = given.get("rule"), given.get("pack")
    return Filters(
        severity=next((each for each in Severity if each.value == given.get("severity")), None),
        verdict=next((each for each in VERDICTS_SHOWN if each.value == given.get("verdict")), None),
        rule=f"{pack}/{rule}" if pack and rule else rule,
        agent=given.get("agent"),
        session=given.get("session"),
        text=given.get("text"),
    )


def verdict_conditions(filters: Filters, found: Occurrences | None) -> Iterator[SqlCondition]:
    """Yield the conditions on rows of the table `verdict`; `found` are the sessions with the text."""
    if filters.severity is not None:
        yield "severity = ?", (filters.severity.value,)
    if filters.verdict is not None:
        yield "verdict = ?", (filters.verdict.value,)
    if filters.rule is not None:
        pack, _, rule = filters.rule.rpartition("/")
        yield "pack = ? AND rule = ?", (pack, rule)
    if filters.agent is not None:
        yield "agent = ?", (filters.agent,)
    yield from _session_conditions(filters, found)


def session_conditions(filters: Filters, found: Occurrences | None) -> Iterator[SqlCondition]:
    """Yield the conditions on the first events of sessions, rows of the table `event`.

    With a rule, a severity or a verdict, the session has such a verdict: one that is violated or unmet,
    unless the filter names another.
    """
    if filters.agent is not None:
        yield "json_extract(row, '$.agent') = ?", (filters.agent,)
    yield from _session_conditions(filters, found)
    of_verdict = Filters(filters.severity, filters.verdict, filters.rule)
    if of_verdict != Filters():
        wanted = list(verdict_conditions(of_verdict, None))
        wanted += [(_BREACHES, ())] if filters.verdict is None else []
        inner = " AND ".join(text for text, _ in wanted)
        yield (
            "EXISTS (SELECT 1 FROM verdict WHERE verdict.session_id = event.session_id"
            f" AND verdict.occurrence = event.occurrence AND {inner})",
            tuple(chain.from_iterable(values for _, values in wanted)),
        )


def _session_conditions(filters: Filters, found: Occurrences | None) -> Iterator[SqlCondition]:
    if filters.session is not None:
        yield "instr(session_id, ?) > 0", (filters.session,)
    if found is not None:
        places = "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)"
        yield f"(session_id, occurrence) IN ({places})", (json.dumps(found),)


def joined(conditions: Sequence[SqlCondition]) -> SqlCondition:
    """Return the conditions as one, `true` if there are none."""
    texts = [text for text, _ in conditions] or ["true"]
    return " AND ".join(texts), tuple(chain.from_iterable(values for _, values in conditions))


class _Content(msgspec.Struct):
    """The fields of an event's row that a text is searched in."""

    text: str | None = None
    tool: str | None = None
    args: str | None = None
    result: str | None = None
    error: str | None = None


_CONTENT = msgspec.json.Decoder(_Content)


def occurrences_with(db: sqlite3.Connection, text: str) -> Occurrences:
    """Return the newest sessions with an event that contains the text in any case, newest first."""
    wanted = text.casefold()

    def contains(row: bytes) -> bool:
        content = _CONTENT.decode(row)
        parts = (content.text, content.tool, content.args, content.result, content.error)
        return any(part is not None and wanted in part.casefold() for part in parts)

    db.create_function("contains", 1, contains, deterministic=True)
    query = (
        "SELECT session_id, occurrence FROM event WHERE kind != 'end'"
        " AND id > (SELECT max(id) FROM event) - ? AND contains(row)"
        " GROUP BY session_id, occurrence ORDER BY max(id) DESC LIMIT ?"
    )
    return tuple(db.execute(query, (EVENTS_SEARCHED_MAX, SESSIONS_FOUND_MAX)))


def agents_of(db: sqlite3.Connection, limit: int) -> list[str]:
    """Return the agents of the newest verdicts, sorted, without those whose names have hidden characters."""
    query = "SELECT DISTINCT agent FROM (SELECT agent FROM verdict ORDER BY number DESC LIMIT ?)"
    found = (agent for (agent,) in db.execute(query, (limit,)) if agent is not None)
    return sorted(agent for agent in found if agent == visible(agent))
