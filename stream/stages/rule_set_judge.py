"""A rule set that judges the events of open sessions: one label frame and one kernel call for many batches.

A batch is the events of one message. The results are those of judging the batches one after another: each
verdict and each change of a status belongs to the batch with the event that decides it, in the same order.
Judging continues from what the state of each session carries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import orjson
import polars as pl

from ...rules.engine.judge import JUDGED_COLUMNS, CompiledRules, compile_rule_set, label_columns
from ...rules.incremental.carried import Carried
from ...rules.incremental.carry_layout import CarryLayout
from ...rules.incremental.continue_judging import BatchOutcome, continue_judging
from ...rules.incremental.rule_changes import RuleChange
from ...rules.labels.missing import FIELDS as GAP_FIELDS
from ...rules.labels.missing import MISSING, NOTHING, missing_column
from ...rules.model.digest import rule_set_digest
from ...rules.model.rule import RuleSet, stopping
from ...schemas.event import Content, Event
from ...schemas.frames.events import event_frame
from ...schemas.instrumentations.missing import Missing
from ...schemas.records.session_status import SessionStatus, StatusChange
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.time import rfc3339
from ..error import StreamError
from ..messages.session_state import OTHER_RELEASE, Columns, JudgingState


@dataclass(frozen=True, slots=True)
class BatchVerdicts:
    """The verdict records of one batch, and the changes of its sessions' status."""

    records: list[VerdictRecord]
    statuses: list[StatusChange]


class RuleSetJudge:
    """A compiled rule set that judges open sessions; it holds nothing of them.

    `digest` is the rule set's. `key` also differs between rule sets with the same rules whose labels have
    another layout: a session's state names by it the rules that its numbers stand for.
    """

    def __init__(self, compiled: CompiledRules, *, satisfied: bool = False) -> None:
        self.compiled = compiled
        self._satisfied = satisfied
        self._columns = (*JUDGED_COLUMNS, *label_columns(compiled))
        self._fields = frozenset({*JUDGED_COLUMNS, *compiled.labeler.fields})
        self.digest = rule_set_digest(RuleSet(compiled.rules, {}))
        self.key = f"{self.digest}.{_layout(compiled, self._columns)}"
        self.rules = frozenset((rule.pack, rule.id) for rule in compiled.rules)

    @cached_property
    def _carry_layout(self) -> CarryLayout:
        return CarryLayout(self.compiled)

    def judge(
        self, states: Mapping[str, JudgingState], batches: Sequence[Sequence[Event]]
    ) -> tuple[list[BatchVerdicts], dict[str, JudgingState]]:
        """Judge batches of new events; return the verdicts of each, and the sessions' states after all.

        `states` has every session of the events, as before the first batch. Raises StreamError where a state
        has numbers of another release's tables.
        """
        events = [event for batch in batches for event in batch]
        if not events:
            return [BatchVerdicts([], []) for _ in batches], {}
        last = {event.session_id: event.occurrence for event in events}
        gaps = any(event.content is not Content.CAPTURED for event in events)
        frame = event_frame(events, self._fields.union(GAP_FIELDS) if gaps else self._fields)
        frame = frame.with_columns_seq(missing_column() if gaps else NOTHING)
        labelled = self.compiled.labeler.label_few(frame, keep=(*JUDGED_COLUMNS, MISSING))
        rows = labelled[[*self._columns, MISSING]]
        carried = self._carried({session_id: states[session_id] for session_id in last}, rows.schema)
        numbers = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])
        done = continue_judging(self._carry_layout, carried, rows, numbers, satisfied=self._satisfied)
        outcomes = [*done.outcomes, *(BatchOutcome() for _ in batches[len(done.outcomes) :])]
        verdicts = [self._verdicts(batch, each) for batch, each in zip(batches, outcomes, strict=True)]
        return verdicts, {
            session_id: JudgingState(self.key, occurrence, done.carried.get(session_id))
            for session_id, occurrence in last.items()
        }

    def _carried(self, states: Mapping[str, JudgingState], schema: pl.Schema) -> dict[str, Carried]:
        """Return what is carried of sessions under these rules; rows of the release before are judged."""
        states = {name: state for name, state in states.items() if state.rules == self.key}
        carried = {name: state.carried for name, state in states.items() if state.carried is not None}
        if any(each.program != self._carry_layout.program for each in carried.values()):
            raise StreamError("TRL701", "a session's state has the tables of another release", OTHER_RELEASE)
        stored = [state.rows for state in states.values() if state.rows]
        if stored:
            rows = self._rows(stored, schema)
            none = np.zeros(len(rows), dtype=np.int64)
            done = continue_judging(self._carry_layout, {}, rows, none, satisfied=self._satisfied)
            carried |= {name: each for name, each in done.carried.items() if each is not None}
        return carried

    def _rows(self, stored: Sequence[Columns], schema: pl.Schema) -> pl.DataFrame:
        """Return the labelled events that the release before stored."""
        columns: Columns = {name: [] for name in self._columns}
        for rows in stored:
            for name, values in rows.items():
                columns[name] += values
        types: Any = {name: schema[name] for name in self._columns}
        return pl.DataFrame(columns, schema=types).with_columns(NOTHING)

    def _verdicts(self, batch: Sequence[Event], outcome: BatchOutcome) -> BatchVerdicts:
        """Return the verdicts of a batch in the order of its sessions."""
        rank = {event.session_id: place for place, event in enumerate(batch)}
        phases = (
            (SessionStatus.APPLIED, outcome.applied),
            (SessionStatus.VIOLATED, outcome.violated),
            (SessionStatus.VIOLATED, outcome.unmet),
            (SessionStatus.UNJUDGED, outcome.unjudged),
        )
        missing = {
            (record.session_id, record.occurrence, record.pack, record.rule): record.missing.content.value
            for record in outcome.records
            if isinstance(record.missing, Missing)
        }
        statuses = [
            self._status(status, change, missing)
            for status, changes in phases
            for change in sorted(changes, key=lambda change: rank[change.session_id])
        ]
        return BatchVerdicts(sorted(outcome.records, key=lambda record: rank[record.session_id]), statuses)

    def _status(
        self, status: SessionStatus, change: RuleChange, missing: Mapping[tuple[str, ...], str]
    ) -> StatusChange:
        """Return a change as a status; `missing` has what unjudged rules lack, by the key of their record."""
        rule, digest = self.compiled.rules[change.rule], self.compiled.digests[change.rule]
        named = rule.pack, rule.id, digest, rule.severity.value
        at = change.session_id, change.occurrence
        lacks = None
        if status is SessionStatus.UNJUDGED:
            lacks = missing.get((change.session_id, rfc3339(change.occurrence), rule.pack, rule.id))
        previous, is_certain = change.previous, change.is_certain
        return StatusChange(status, *at, *named, change.agent, change.time, lacks, previous, is_certain)


def judge_of_before(rule_set: RuleSet, key: str, *, satisfied: bool = False) -> RuleSetJudge | None:
    """Return the judge by which the release before judged under that key, if it is of this rule set.

    Rules of that release stop at an unknown.
    """
    before = stopping(rule_set)
    if key.partition(".")[0] != rule_set_digest(before):
        return None
    return RuleSetJudge(compile_rule_set(before), satisfied=satisfied)


def _layout(compiled: CompiledRules, columns: Sequence[str]) -> str:
    """Return the places of rules and propositions in the columns as 16 hex digits."""
    rules = [[rule.pack, rule.id] for rule in compiled.rules]
    content = [rules, list(compiled.propositions.items()), columns]
    return hashlib.sha256(orjson.dumps(content)).hexdigest()[:16]
