"""The pure heart of the live side: candidates in; judged events, verdicts and what to remember out.

It knows no broker, store or clock. `tracline serve` and the Kafka monitor carry messages to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import orjson
import polars as pl

from ..rules.judge import JUDGED_COLUMNS, Judged, Statute, judge, label_columns, take
from ..rules.kernel import applies
from ..rules.occurrences import Clock
from ..rules.record import Known, Record, records
from ..schemas.candidate import Candidate
from ..schemas.event import Event, Kind
from ..schemas.frame import event_frame
from .state import Columns, SessionState

_NO_TIME = -(1 << 63)


@dataclass(frozen=True, slots=True)
class Applied:
    """That a rule has come to apply to an occurrence; `time` is that of the last event judged by then."""

    session_id: str
    occurrence: int
    pack: str
    rule: str
    agent: str | None
    time: int


@dataclass(frozen=True, slots=True)
class Outputs:
    """What one batch gave: events and `end` rows in judged order, session by session, and verdict records.

    `late` counts what came after its place was judged, `repeats` what had been told before.
    """

    events: list[Event] = field(default_factory=list[Event])
    records: list[Record] = field(default_factory=list[Record])
    applied: list[Applied] = field(default_factory=list[Applied])
    late: int = 0
    repeats: int = 0


class Worker:
    """Judges by one rule set. Holds nothing of any session but witnesses it may make again."""

    def __init__(self, statute: Statute, *, satisfied: bool = False) -> None:
        self.statute = statute
        self._satisfied = satisfied
        self._known: Known = {}
        self._columns = (*JUDGED_COLUMNS, *label_columns(statute))
        self.rules = _digest(statute, self._columns)

    def step(
        self, states: Mapping[str, SessionState], candidates: Iterable[Candidate], watermark: int
    ) -> Outputs:
        """Take the candidates in, and judge what the watermark has passed in any of these sessions.

        `states` has every session of the candidates and those that are due; they are changed in place. The
        same states, candidates and watermark give the same outputs.
        """
        late, repeats = _counts(states)
        for candidate in candidates:
            states[candidate.session_id].session.add(candidate)
        events: list[Event] = []
        moved: list[SessionState] = []
        for state in states.values():
            new = state.session.advance(watermark)
            if new:
                events += new
                moved.append(state)
        late, repeats = (now - before for now, before in zip(_counts(states), (late, repeats), strict=True))
        if not events:
            return Outputs(late=late, repeats=repeats)
        found = self._judged(moved, event_frame(events))
        told = list(records(self.statute, found, self._known))
        return Outputs(events, told, list(self._applied(states, found)), late, repeats)

    def _judged(self, moved: list[SessionState], events: pl.DataFrame) -> Judged:
        """What is found at the new events; the states keep the rows of what is still open."""
        new = self.statute.labeler.label_few(events, keep=JUDGED_COLUMNS).select(self._columns)
        old = self._remembered(moved, new)
        rows = pl.concat([old, new])
        judged = judge(self.statute, rows, Clock(last=_NO_TIME, idle=0), satisfied=self._satisfied)
        is_new = judged.order.rows >= old.height
        self._remember(moved, rows)
        return replace(judged, found=take(judged.found, is_new[judged.found.stamps]))

    def _remembered(self, moved: list[SessionState], new: pl.DataFrame) -> pl.DataFrame:
        """The rows that the open occurrences have shown before, under this rule set."""
        columns: Columns = {name: [] for name in self._columns}
        for state in moved:
            if state.rules != self.rules:
                # The numbers of the rules are those of the other rule set, too.
                state.rules, state.rows, state.applied = self.rules, {}, set()
            for name, values in state.rows.items():
                columns[name] += values
        schema: Any = new.schema
        return pl.DataFrame(columns, schema=schema)

    def _remember(self, moved: list[SessionState], rows: pl.DataFrame) -> None:
        """Keep with each session the rows of its open occurrence."""
        ended = rows.filter(pl.col("kind") == Kind.END).select("session_id", "occurrence").unique()
        still = rows.join(ended, on=["session_id", "occurrence"], how="anti", maintain_order="left")
        plain = still.with_columns(pl.col("occurrence", "time").to_physical(), pl.col("kind").cast(pl.String))
        parts = plain.partition_by("session_id", as_dict=True, maintain_order=True)
        for state in moved:
            part = parts.get((state.session.session_id,))
            state.rows = {} if part is None else part.to_dict(as_series=False)

    def _applied(self, states: Mapping[str, SessionState], judged: Judged) -> Iterator[Applied]:
        """The rules that have come to apply to an occurrence since the last time."""
        last = judged.order.rows[judged.sessions.bounds[1:] - 1]
        times = pl.col("occurrence", "time").to_physical()
        at: Any = judged.labelled[last].select("session_id", times, "agent").iter_rows()
        applied = applies(judged.memory)
        for slot, (session_id, occurrence, time, agent) in enumerate(at):
            state = states[session_id]
            if state.applied_in != occurrence:
                state.applied_in, state.applied = occurrence, set()
            numbers = set(cast("list[int]", self.statute.program.order[applied[slot]].tolist()))
            for number in sorted(numbers - state.applied):
                rule = self.statute.rules[number]
                yield Applied(session_id, occurrence, rule.pack, rule.id, agent, time)
            state.applied |= numbers


def _counts(states: Mapping[str, SessionState]) -> tuple[int, int]:
    """What came late to these sessions, and what was told again, since they began."""
    sessions = [state.session for state in states.values()]
    return sum(one.late for one in sessions), sum(one.repeats for one in sessions)


def _digest(statute: Statute, columns: Sequence[str]) -> str:
    """What tells rule sets apart: their rules, and where each proposition stands in the columns."""
    rules = [
        [rule.pack, rule.id, digest] for rule, digest in zip(statute.rules, statute.digests, strict=True)
    ]
    content = [rules, list(statute.propositions.items()), columns]
    return hashlib.sha256(orjson.dumps(content)).hexdigest()
