"""The crossings of all rules in the sessions of a bucket: their lines, a text for each session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import polars as pl

from ...predict.following.follow_loop import UP
from ...rules.model.arrays import I32, Mask
from ...schemas.records.risk_crossing import RiskLevel
from ..evidence.crossing_lines import CrossedRisk, CrossingLines, EventTexts, json_text
from ..findings.waiving import RuleName
from .warned_sessions import CrossedSession

LATE_COLUMNS = ("session_id", "event_id", "time", "late")
"""The columns of a crossing's event that nothing else needs of all events."""
EVENT_COLUMNS = ("seq", "occurrence", "agent", "history")
"""Its other columns."""

_TIME = '"%Y-%m-%dT%H:%M:%S%.9fZ"'
_BOOLEANS = {False: "false", True: "true"}


@dataclass(frozen=True, slots=True)
class CrossedRuleRisks:
    """A rule of the chain with the lines of its crossings, and its risks by place, None without any."""

    name: RuleName
    lines: CrossingLines
    risks: Sequence[CrossedRisk | None]


@dataclass(frozen=True, slots=True)
class BucketCrossings:
    """The crossings of whole sessions, by event in judged order, rule, slice and level.

    `rows` are the place of the event in `events`, the number of the rule, the number of the slice in
    `values`, the place of the risk, and the level. `events` has `EVENT_COLUMNS`, and `LATE_COLUMNS` or the
    number of the row; `slots` are their sessions, and `inside` is true in the window of the audit. `values`
    are slices, of which the first is none.
    """

    rows: I32
    events: pl.DataFrame
    slots: I32
    inside: Mask
    values: Sequence[str | None]


def session_lines(
    found: BucketCrossings, rules: Sequence[CrossedRuleRisks]
) -> Iterator[tuple[CrossedSession, bytes]]:
    """Yield each session with crossings, and the lines of those in the window."""
    texts = list(_event_texts(found.events))
    ids: list[str] = found.events["session_id"].to_list()
    seqs: list[int] = found.events["seq"].to_list()
    slots: list[int] = found.slots.tolist()
    inside: list[bool] = found.inside.tolist()
    values = [json_text(value).decode() for value in found.values]
    events: list[int] = found.rows[:, 0].tolist()
    others: list[list[int]] = [found.rows[:, column].tolist() for column in range(1, found.rows.shape[1])]
    numbers, members, places, levels = others
    at = 0
    for _, of_session in groupby(events, key=slots.__getitem__):
        first = events[at]
        # The occurrence is without the quotes of JSON.
        session = _SessionText(ids[first], texts[first].occurrence[1:-1], seqs[first])
        for event in of_session:
            number, member, place, level = numbers[at], members[at], places[at], levels[at]
            at += 1
            rule, is_up, is_inside = rules[number], level == UP, inside[event]
            if is_inside:
                named = RiskLevel.UP if is_up else RiskLevel.DOWN
                line = rule.lines.line(place, named, rule.risks[place], texts[event], values[member])
                session.lines.append(line)
            if is_up:
                session.warn(rule.name, found.values[member], seqs[event], is_inside=is_inside)
        yield session.ended()


@dataclass(slots=True)
class _SessionText:
    """The lines and warnings of a session so far; its first crossing is at the event `seq`."""

    session_id: str
    occurrence: str
    seq: int
    lines: list[str] = field(default_factory=list[str])
    warned: set[RuleName] = field(default_factory=set[RuleName])
    firsts: dict[tuple[RuleName, str | None], int] = field(
        default_factory=dict[tuple[RuleName, str | None], int]
    )

    def warn(self, rule: RuleName, value: str | None, seq: int, *, is_inside: bool) -> None:
        """Add a rise to the threshold."""
        self.firsts.setdefault((rule, value), seq)
        if is_inside:
            self.warned.add(rule)

    def ended(self) -> tuple[CrossedSession, bytes]:
        """Return the session, and its lines."""
        firsts = [(*rule, value, seq) for (rule, value), seq in self.firsts.items()]
        named = self.session_id, self.occurrence, self.seq
        return CrossedSession(*named, sorted(self.warned), firsts), "".join(self.lines).encode()


def _event_texts(events: pl.DataFrame) -> Iterator[EventTexts]:
    """Yield the texts of events."""
    agents: Mapping[Any, str] = _Texts()
    sessions: Mapping[Any, str] = _Texts()
    occurrences = _times(events["occurrence"])
    rows = events.select("session_id", "event_id", "seq", "agent", "late", "history").iter_rows()
    for (session_id, event_id, seq, agent, late, history), occurrence, time in zip(
        rows, occurrences, _times(events["time"]), strict=True
    ):
        yield EventTexts(
            sessions[session_id],
            occurrence,
            json_text(event_id).decode(),
            time,
            str(seq),
            agents[agent],
            _BOOLEANS[late],
            _BOOLEANS[history],
        )


class _Texts(dict[Any, str]):
    """The JSON texts of values that repeat."""

    def __missing__(self, value: object) -> str:
        text = self[value] = json_text(value).decode()
        return text


def _times(times: pl.Series) -> list[str]:
    """Return times as JSON texts of what `rfc3339` returns: events are of the years 1678 to 2262."""
    return times.dt.to_string(_TIME).to_list()
